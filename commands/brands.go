package commands

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/google/uuid"

	"letterhead/domain/brand"
	"letterhead/domain/text"
	"letterhead/eventschemas"
	"letterhead/internal/eventlog"
)

// BrandsConfig configures the brand commands.
type BrandsConfig struct {
	// Events is as in AccountWriterConfig.
	Events eventschemas.Encoder
	// Now is the clock; time.Now when nil.
	Now func() time.Time
	// Begun returns when a crawler began a crawl; zero if none did. When nil, every crawl was begun.
	Begun func(ctx context.Context, crawlID string) (time.Time, error)
}

// Brands implements the use cases of brands. It is safe for concurrent use.
type Brands struct {
	coldStreams
	cfg BrandsConfig
}

// NewBrands returns the brand commands for a log.
func NewBrands(cfg BrandsConfig, log eventlog.Log) (*Brands, error) {
	if log == nil {
		return nil, errors.New("brand commands need an event log")
	}
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	if cfg.Begun == nil {
		cfg.Begun = func(context.Context, string) (time.Time, error) { return time.Unix(0, 0), nil }
	}
	return &Brands{coldStreams{log: log, events: cfg.Events, now: cfg.Now}, cfg}, nil
}

// State folds the stream of the brand at a registrable domain. It is never nil without an error: a
// brand that was never requested has no events.
//
// Errors: eventlog.ErrUnavailable, eventlog.ErrCorrupt, eventlog.ErrClosed, ctx.Err().
func (b *Brands) State(ctx context.Context, domain string) (*brand.Brand, error) {
	state, _, err := b.fold(ctx, domain, eventlog.End)
	return state, err
}

// StateAt folds a brand's stream up to and including a revision: the brand as an answer of that revision had it.
//
// Errors: ErrUnknownRevision, and the errors of State.
func (b *Brands) StateAt(ctx context.Context, domain string, revision uint64) (*brand.Brand, error) {
	state, _, err := b.fold(ctx, domain, revision)
	if err == nil && state.Events() <= revision {
		err = fmt.Errorf("revision %d of %s, which has %d: %w", revision, brand.Stream(domain), state.Events(),
			ErrUnknownRevision)
	}
	if err != nil {
		return nil, err
	}
	return state, nil
}

// fold reads up to and including the revision, or to the end of the stream.
func (b *Brands) fold(ctx context.Context, domain string, until uint64) (_ *brand.Brand, end streamEnd, err error) {
	state := brand.New(domain)
	err = b.each(ctx, brand.Stream(domain), 0, until, func(rec *eventlog.Recorded, ev eventschemas.Event) {
		state.Apply(ev, rec.Revision, rec.OccurredAt)
		end = endOf(rec)
	})
	if err != nil {
		return nil, end, err
	}
	return state, end, nil
}

// update decides about the brand at a registrable domain, and appends the events of the decision under its key. decide
// examines the folded brand; it may be called several times. Errors: as coldStreams.do.
func (b *Brands) update(ctx context.Context, domain string, request Request, key string,
	decide func(*brand.Brand, time.Time) ([]eventschemas.Event, error)) (Done, error) {
	var state *brand.Brand
	return b.do(ctx, &coldCommand{
		stream: brand.Stream(domain), request: request, key: key,
		read: func(ctx context.Context) (end streamEnd, err error) {
			state, end, err = b.fold(ctx, domain, eventlog.End)
			return end, err
		},
		decide: func(now time.Time) ([]eventschemas.Event, error) { return decide(state, now) },
	})
}

// ClaimBrand marks a brand as claimed by its owner.
type ClaimBrand struct {
	Request Request
	Domain  string
}

// ClaimBrand appends BrandClaimed. Repeating it is a no-op.
//
// Errors: brand.ErrNoSuchBrand, brand.ErrWithdrawn, and the errors of update.
func (b *Brands) ClaimBrand(ctx context.Context, in ClaimBrand) error {
	_, err := b.update(ctx, in.Domain, in.Request,
		in.Request.ID, func(state *brand.Brand, _ time.Time) ([]eventschemas.Event, error) {
			return state.Claim()
		})
	return err
}

// WithdrawBrand removes a brand permanently at its owner's request.
type WithdrawBrand struct {
	Request Request
	Domain  string
	Reason  string
}

// WithdrawBrand appends BrandWithdrawn, also for a brand that was never requested. Repeating it is a no-op.
//
// Errors: as update.
func (b *Brands) WithdrawBrand(ctx context.Context, in WithdrawBrand) error {
	_, err := b.update(ctx, in.Domain, in.Request,
		in.Request.ID, func(state *brand.Brand, _ time.Time) ([]eventschemas.Event, error) {
			return state.Withdraw(in.Reason)
		})
	return err
}

// ImportBrand is the command to import a record from a data set.
type ImportBrand struct {
	Request  Request
	Domain   string
	Source   string // name and version of the data set
	Record   eventschemas.Record
	Evidence []eventschemas.Evidence
}

// ImportBrand appends BrandImported. It is a no-op and returns false if the stream already has this
// source's import, if a crawl has found a newer record, or if the brand was withdrawn.
//
// Errors: brand.ErrRecordTooLarge, and the errors of update.
func (b *Brands) ImportBrand(ctx context.Context, in ImportBrand) (imported bool, err error) {
	done, err := b.update(ctx, in.Domain, in.Request,
		in.Source, func(state *brand.Brand, _ time.Time) ([]eventschemas.Event, error) {
			return state.Import(brand.Import{Source: in.Source, Record: in.Record, Evidence: in.Evidence})
		})
	return err == nil && !done.Repeated, err
}

// OverrideField sets one field of a brand's record manually.
type OverrideField struct {
	Request Request
	Domain  string
	Field   string // JSON name of the field; brand.Fields lists them
	Value   json.RawMessage
	Reason  string // may be empty; at most brand.MaxReasonBytes, kept forever
}

// OverrideField appends FieldOverridden. Repeating it is a no-op, unless it gives another reason.
//
// Errors: brand.ErrInvalidField, brand.ErrNoSuchBrand, brand.ErrWithdrawn, and the errors of update;
// eventschemas.ErrNotYet for a reason before an upgrade is finished.
func (b *Brands) OverrideField(ctx context.Context, in OverrideField) error {
	_, err := b.update(ctx, in.Domain, in.Request,
		in.Request.ID+"/"+in.Field, func(state *brand.Brand, _ time.Time) ([]eventschemas.Event, error) {
			return state.Override(in.Field, in.Value, in.Reason)
		})
	return err
}

// RemoveOverride lets crawls set a field again.
type RemoveOverride struct {
	Request Request
	Domain  string
	Field   string
}

// RemoveOverride appends OverrideRemoved. Without an override it is a no-op.
//
// Errors: as OverrideField.
func (b *Brands) RemoveOverride(ctx context.Context, in RemoveOverride) error {
	_, err := b.update(ctx, in.Domain, in.Request,
		in.Request.ID+"/"+in.Field, func(state *brand.Brand, _ time.Time) ([]eventschemas.Event, error) {
			return state.RemoveOverride(in.Field)
		})
	return err
}

// MaxNameBytes limits the name of an account holder, a key, a token or an operator. Names are personal data.
const MaxNameBytes = 200

// maxReasonBytes limits a reason, which events keep forever.
const maxReasonBytes = 200

// checkReason returns a *FieldError unless the field reason can be kept.
func checkReason(reason string) error {
	if len(reason) > maxReasonBytes || !utf8.ValidString(reason) {
		limit := fmt.Sprintf("takes at most %d bytes. Events keep it forever: name no person", maxReasonBytes)
		return &FieldError{"reason", limit}
	}
	return nil
}

// CheckGiven returns a *FieldError unless the field reason is given and can be kept. Operators must give the reason of a
// grant without a payment, a reversal, an override and a suspension.
func CheckGiven(reason string) error {
	if strings.TrimSpace(reason) == "" {
		return &FieldError{"reason", "is needed: say why, for those who read the history. Events keep it forever: name no person"}
	}
	return checkReason(reason)
}

// CheckName returns a *FieldError unless a field has a name that can be shown.
func CheckName(field, name string) error {
	hidden := text.CheckShown(name)
	switch {
	case strings.TrimSpace(name) == "" || len(name) > MaxNameBytes || strings.Contains(name, "\x00") ||
		errors.Is(hidden, text.ErrNotText):
		return &FieldError{field, fmt.Sprintf("takes 1 to %d bytes of text", MaxNameBytes)}
	case hidden != nil:
		return &FieldError{field, hidden.Error() + ". Leave it out"}
	}
	return nil
}

// RequestCrawl is the command to crawl a brand's site.
type RequestCrawl struct {
	Request  Request
	CrawlID  string // a new one when empty; with an id, repeating the request starts one crawl
	Domain   string
	Cause    string        // brand.CauseLookup …
	Priority string        // brand.PriorityLive, brand.PriorityBulk
	Allowed  time.Duration // for the work
	Force    bool          // a paid refresh: even if the brand is known or a failure is remembered
}

// Crawl is the crawl that answers a request: a new one, or, Joined, one that was running.
type Crawl struct {
	ID          string
	Joined      bool
	RequestedAt time.Time
	Allowed     time.Duration
	Position    eventlog.Position // of the request in the log; 0 when joined
}

// RequestCrawl starts a crawl or joins the running one: of several racing callers, one appends and the others join.
//
// Errors: brand.ErrAlreadyKnown (the record exists; read it), *brand.RememberedError (a failure is
// answered without a crawl), brand.ErrWithdrawn, brand.ErrInvalidCrawl, and the errors of update.
func (b *Brands) RequestCrawl(ctx context.Context, in RequestCrawl) (Crawl, error) {
	id := in.CrawlID
	if id == "" {
		id = uuid.NewString()
	}
	var out Crawl
	done, err := b.update(ctx, in.Domain, in.Request,
		id, func(state *brand.Brand, now time.Time) ([]eventschemas.Event, error) {
			events, err := state.RequestCrawl(brand.RequestCrawl{CrawlID: id, Cause: in.Cause, Priority: in.Priority,
				Allowed: in.Allowed, Force: in.Force, Now: now})
			out = Crawl{ID: id, RequestedAt: now, Allowed: in.Allowed}
			if running, requestedAt, allowed, ok := state.Running(); err == nil && len(events) == 0 && ok {
				out = Crawl{ID: running, Joined: true, RequestedAt: requestedAt, Allowed: allowed}
			}
			return events, err
		})
	if err != nil {
		return Crawl{}, err
	}
	if !done.Repeated {
		out.Position = done.Position
	}
	return out, nil
}

// SucceedCrawl ends a crawl with the record that it found.
type SucceedCrawl struct {
	Request            Request
	Domain, CrawlID    string
	Record             eventschemas.Record
	Evidence           []eventschemas.Evidence
	FinalURL           string
	ETag, LastModified string
	ByConvention       *eventschemas.IconsByConvention
}

// SucceedCrawl appends CrawlSucceeded, or CrawlConfirmed if the record has no changes. The outcome of
// a crawl that has ended is a no-op, but a success after a timeout still counts.
//
// Errors: brand.ErrRecordTooLarge, and the errors of update.
func (b *Brands) SucceedCrawl(ctx context.Context, in SucceedCrawl) error {
	_, err := b.update(ctx, in.Domain, in.Request,
		in.CrawlID, func(state *brand.Brand, _ time.Time) ([]eventschemas.Event, error) {
			return state.SucceedCrawl(brand.SucceedCrawl{
				CrawlID: in.CrawlID, Record: in.Record, Evidence: in.Evidence, FinalURL: in.FinalURL, ETag: in.ETag,
				LastModified: in.LastModified, ByConvention: in.ByConvention,
			})
		})
	return err
}

// ConfirmCrawl ends a crawl whose site reported no changes.
type ConfirmCrawl struct {
	Request         Request
	Domain, CrawlID string
}

// ConfirmCrawl appends CrawlConfirmed for the current record. The outcome of a crawl that has ended is
// a no-op, but a confirmation after a timeout still counts.
//
// Errors: brand.ErrInvalidCrawl if no crawl has found a record yet, and the errors of update.
func (b *Brands) ConfirmCrawl(ctx context.Context, in ConfirmCrawl) error {
	_, err := b.update(ctx, in.Domain, in.Request,
		in.CrawlID, func(state *brand.Brand, _ time.Time) ([]eventschemas.Event, error) {
			return state.ConfirmCrawl(in.CrawlID)
		})
	return err
}

// FailCrawl ends a crawl without a record.
type FailCrawl struct {
	Request         Request
	Domain, CrawlID string
	Outcome         string // brand.Timeout …
	Detail          string // one sentence for operators; never fetched content
}

// FailCrawl appends CrawlFailed, including how long the failure is remembered. For a crawl that has
// ended it is a no-op.
//
// Errors: brand.ErrInvalidCrawl, and the errors of update.
func (b *Brands) FailCrawl(ctx context.Context, in FailCrawl) error {
	_, err := b.update(ctx, in.Domain, in.Request,
		in.CrawlID, func(state *brand.Brand, _ time.Time) ([]eventschemas.Event, error) {
			return state.FailCrawl(brand.FailCrawl{CrawlID: in.CrawlID, Outcome: in.Outcome, Detail: in.Detail})
		})
	return err
}

// ExpireCrawl ends a crawl that exceeded its deadline, as a timeout, or as not begun. Before the deadline, and for a
// crawl that is not running, it is a no-op.
//
// Errors: as update and BrandsConfig.Begun.
func (b *Brands) ExpireCrawl(ctx context.Context, domain, crawlID string) error {
	begun, err := b.cfg.Begun(ctx, crawlID)
	if err != nil {
		return err
	}
	request := Request{ID: crawlID, Actor: "system:crawl-deadline"}
	_, err = b.update(ctx, domain, request,
		crawlID, func(state *brand.Brand, now time.Time) ([]eventschemas.Event, error) {
			return state.ExpireCrawl(crawlID, begun, now)
		})
	return err
}
