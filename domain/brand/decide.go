package brand

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"letterhead/domain/text"
	"letterhead/eventschemas"
)

// Limits of the input of decisions.
const (
	// maxAllowed limits the duration of a crawl; a longer one is a mistake in units.
	maxAllowed = time.Hour
	// maxDetailRunes limits the sentence for operators that a failure carries.
	maxDetailRunes = 500
	// MaxRecordEventBytes limits an event with a record and its evidence; evidence is truncated first.
	MaxRecordEventBytes = 64 << 10
)

// RequestCrawl is the command to crawl the brand's site.
type RequestCrawl struct {
	CrawlID  string // new
	Cause    string
	Priority string
	Allowed  time.Duration // for the work, from now
	Force    bool          // a paid refresh: crawl even if the brand is known or a failure is remembered
	Now      time.Time
}

// Validate reports all invalid fields, as ErrInvalidCrawl.
func (in RequestCrawl) Validate() error {
	var errs []error
	if in.CrawlID == "" {
		errs = append(errs, fmt.Errorf("%w: no crawl id", ErrInvalidCrawl))
	}
	if !slices.Contains([]string{CauseLookup, CauseRefresh, CauseSchedule, CauseLogo, CauseOperator}, in.Cause) {
		errs = append(errs, fmt.Errorf("%w: unknown cause %q", ErrInvalidCrawl, in.Cause))
	}
	if in.Priority != PriorityLive && in.Priority != PriorityBulk {
		errs = append(errs, fmt.Errorf("%w: unknown priority %q", ErrInvalidCrawl, in.Priority))
	}
	if in.Allowed < time.Millisecond || in.Allowed > maxAllowed {
		errs = append(errs,
			fmt.Errorf("%w: %s allowed, not between 1ms and %s", ErrInvalidCrawl, in.Allowed, maxAllowed))
	}
	return errors.Join(errs...)
}

// RequestCrawl decides whether the site is crawled. No events and no error mean that there is nothing to append: the
// caller should wait for the crawl that Running returns or, if the same request is repeated after its end, use
// LastOutcome. Only other bulk requests join a bulk crawl; a live request supersedes it.
//
// Errors: ErrWithdrawn; ErrAlreadyKnown for a lookup or logo of a known brand; *RememberedError while a failure is
// remembered; the last two not with Force, unless the crawl was lost twice in a row; ErrInvalidCrawl.
func (b *Brand) RequestCrawl(in RequestCrawl) ([]eventschemas.Event, error) {
	if err := in.Validate(); err != nil {
		return nil, err
	}
	if b.s.Withdrawn {
		return nil, ErrWithdrawn
	}
	if _, ended := b.LastOutcome(in.CrawlID); ended {
		return nil, nil
	}
	r := b.s.Running
	if r != nil && (r.Priority == PriorityLive || in.Priority == PriorityBulk || r.CrawlID == in.CrawlID) {
		return nil, nil
	}
	if !in.Force && b.Known() && (in.Cause == CauseLookup || in.Cause == CauseLogo) {
		return nil, ErrAlreadyKnown
	}
	// One lost crawl may be due to a restart. A site whose crawl was lost twice in a row crashes the
	// process: not even a paid refresh tries it again immediately.
	if outcome, until, ok := b.Remembered(in.Now); ok && (!in.Force || b.s.Lost-b.notBegun > 1) {
		return nil, &RememberedError{Outcome: outcome, Until: until}
	}
	return []eventschemas.Event{eventschemas.CrawlRequested{
		CrawlID: in.CrawlID, Domain: b.s.Domain, Cause: in.Cause, Priority: in.Priority,
		AllowedMS: in.Allowed.Milliseconds(),
	}}, nil
}

// Step is how a request for a brand continues.
type Step int

// Values of Step.
const (
	AnswerRecord Step = iota // the record that is held is the answer
	JoinCrawl                // the request waits for the running crawl
	StartCrawl               // the request starts a crawl
)

// Next returns how a request that would cause a crawl continues: a record is the answer, except with Force; otherwise
// RequestCrawl decides. Errors: those of RequestCrawl except ErrAlreadyKnown.
func (b *Brand) Next(in RequestCrawl) (Step, error) {
	if b.Known() && !in.Force {
		return AnswerRecord, nil
	}
	events, err := b.RequestCrawl(in)
	if err != nil || len(events) > 0 {
		return StartCrawl, err
	}
	return JoinCrawl, nil
}

// SucceedCrawl is the command to end a crawl with its result.
type SucceedCrawl struct {
	CrawlID            string
	Record             eventschemas.Record
	Evidence           []eventschemas.Evidence
	FinalURL           string
	ETag, LastModified string
	ByConvention       *eventschemas.IconsByConvention
}

// SucceedCrawl decides the effect of a crawl's success: CrawlSucceeded with the record, or
// CrawlConfirmed if the record is unchanged. A success after the crawl timed out or was superseded
// still counts, unless a crawl that was requested later has succeeded in the meantime. The success of
// an unknown crawl, of one that ended otherwise, or of a withdrawn brand is a no-op. BrandDiscovered
// precedes the first record of a brand, so that a domain without a brand has no such event.
//
// Errors: ErrRecordTooLarge; an error from encoding the record.
func (b *Brand) SucceedCrawl(in SucceedCrawl) ([]eventschemas.Event, error) {
	if !b.awaitsSuccess(in.CrawlID) {
		return nil, nil
	}
	record := whole(in.Record)
	if b.Known() && SameRecord(*b.s.Record, record) {
		return []eventschemas.Event{eventschemas.CrawlConfirmed{CrawlID: in.CrawlID, ETag: in.ETag,
			LastModified: in.LastModified}}, nil
	}
	ev := eventschemas.CrawlSucceeded{
		CrawlID: in.CrawlID, Record: record, FinalURL: in.FinalURL, ETag: in.ETag, LastModified: in.LastModified,
		ByConvention: in.ByConvention,
	}
	if err := fit(in.Evidence, &ev.Evidence, func() eventschemas.Event { return ev }); err != nil {
		return nil, fmt.Errorf("crawl %s of %s: %w", in.CrawlID, b.s.Domain, err)
	}
	if !b.Known() {
		return []eventschemas.Event{eventschemas.BrandDiscovered{BrandID: b.s.ID, Domain: b.s.Domain}, ev}, nil
	}
	return []eventschemas.Event{ev}, nil
}

// ConfirmCrawl decides the effect of a "not modified" response to a conditional request: the held record is confirmed.
// It counts for the same crawls as SucceedCrawl. Errors: ErrInvalidCrawl if there is no crawled record to confirm.
func (b *Brand) ConfirmCrawl(crawlID string) ([]eventschemas.Event, error) {
	if !b.awaitsSuccess(crawlID) {
		return nil, nil
	}
	if !b.Known() || !b.s.Crawled {
		return nil, fmt.Errorf("%w: crawl %s of %s found nothing new, and there is no crawled record",
			ErrInvalidCrawl, crawlID, b.s.Domain)
	}
	return []eventschemas.Event{eventschemas.CrawlConfirmed{CrawlID: crawlID, ETag: b.s.ETag,
		LastModified: b.s.Modified}}, nil
}

func (b *Brand) awaitsSuccess(crawlID string) bool {
	if b.s.Running != nil && b.s.Running.CrawlID == crawlID {
		return true
	}
	e, ok := b.LastOutcome(crawlID)
	if !ok || (e.Outcome != Timeout && e.Outcome != Superseded) {
		return false
	}
	return !slices.ContainsFunc(b.s.Ended, func(other Ended) bool {
		return other.Succeeded() && other.Requested > e.Requested
	})
}

// FailCrawl is the command to end a crawl without a record.
type FailCrawl struct {
	CrawlID string
	Outcome string // one of the failures
	Detail  string // one sentence for operators; never fetched content
}

// FailCrawl decides the effect of a crawl's failure. It is a no-op if the crawl is not running.
// Errors: ErrInvalidCrawl.
func (b *Brand) FailCrawl(in FailCrawl) ([]eventschemas.Event, error) {
	d, ok := remember(in.Outcome, b.s.FailedRow)
	if !ok {
		return nil, fmt.Errorf("%w: unknown outcome %q", ErrInvalidCrawl, in.Outcome)
	}
	return b.failed(in, d)
}

// failed ends a crawl with a failure that is remembered for d.
func (b *Brand) failed(in FailCrawl, d time.Duration) ([]eventschemas.Event, error) {
	if b.s.Running == nil || b.s.Running.CrawlID != in.CrawlID {
		return nil, nil
	}
	if in.Outcome == NotBegun {
		in.Outcome = Timeout
	}
	return []eventschemas.Event{eventschemas.CrawlFailed{
		CrawlID: in.CrawlID, Outcome: in.Outcome, RememberSeconds: int64(d / time.Second),
		Detail: text.Clean(in.Detail, maxDetailRunes),
	}}, nil
}

// ExpireCrawl ends a crawl that exceeded its time, as a timeout, which is remembered twice as long
// with each consecutive one; or as NotBegun, if no crawler has begun it (begun is zero) while half of its time was
// left. It is a no-op before the deadline and for a crawl that is not running.
func (b *Brand) ExpireCrawl(crawlID string, begun, now time.Time) ([]eventschemas.Event, error) {
	r := b.s.Running
	if r == nil || r.CrawlID != crawlID || now.Before(r.deadline()) {
		return nil, nil
	}
	if begun.IsZero() || begun.After(r.RequestedAt.Add(r.allowed()/2)) {
		return b.FailCrawl(FailCrawl{CrawlID: crawlID, Outcome: NotBegun,
			Detail: fmt.Sprintf("No crawler began the crawl in the first half of its %s.", r.allowed())})
	}
	return b.failed(FailCrawl{
		CrawlID: crawlID, Outcome: Timeout, Detail: fmt.Sprintf("No outcome arrived within %s.", r.allowed()),
	}, doubled(rememberTimeout, b.s.Lost-b.notBegun, rememberLostMost))
}

// Import is the command to import a record from a data set.
type Import struct {
	Source   string // name and version of the data set
	Record   eventschemas.Record
	Evidence []eventschemas.Evidence
}

// Import decides whether a data set's record is accepted. It is a no-op if the source was imported
// before, if a crawl has found or confirmed a record, or if the brand was withdrawn.
//
// Errors: ErrRecordTooLarge; an error from encoding the record.
func (b *Brand) Import(in Import) ([]eventschemas.Event, error) {
	if b.s.Withdrawn || b.s.Crawled || slices.Contains(b.s.Sources, in.Source) {
		return nil, nil
	}
	ev := eventschemas.BrandImported{BrandID: b.s.ID, Domain: b.s.Domain, Source: in.Source, Record: whole(in.Record)}
	if err := fit(in.Evidence, &ev.Evidence, func() eventschemas.Event { return ev }); err != nil {
		return nil, fmt.Errorf("import %s from %s: %w", b.s.Domain, in.Source, err)
	}
	return []eventschemas.Event{ev}, nil
}

// Claim marks the brand as claimed; a repeat is a no-op. Errors: ErrWithdrawn, ErrNoSuchBrand.
func (b *Brand) Claim() ([]eventschemas.Event, error) {
	if err := b.exists(); err != nil || b.s.Claimed {
		return nil, err
	}
	return []eventschemas.Event{eventschemas.BrandClaimed{}}, nil
}

// Withdraw withdraws the brand, even if it was never looked up; a repeat is a no-op. Errors: ErrInvalidField.
func (b *Brand) Withdraw(reason string) ([]eventschemas.Event, error) {
	if b.s.Withdrawn {
		return nil, nil
	}
	if err := text.CheckKept("reason", reason); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrInvalidField, err)
	}
	return []eventschemas.Event{eventschemas.BrandWithdrawn{Reason: reason}}, nil
}

func (b *Brand) exists() error {
	if b.s.Withdrawn {
		return ErrWithdrawn
	}
	if b.s.Events == 0 {
		return ErrNoSuchBrand
	}
	return nil
}
