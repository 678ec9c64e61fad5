package brand

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode"

	"letterhead/eventschemas"
)

// Limits of what a decision takes in.
const (
	// maxAllowed bounds the time a crawl is given; longer is a mistake in units.
	maxAllowed = time.Hour
	// maxDetailBytes bounds the sentence that a failure carries for operators.
	maxDetailBytes = 500
	// MaxRecordEventBytes bounds an event with a record and its evidence; evidence is cut first.
	MaxRecordEventBytes = 64 << 10
)

// RequestCrawl asks for a crawl.
type RequestCrawl struct {
	CrawlID string // fresh
	Cause   string
	Lane    string
	Allowed time.Duration // for the work, from now
	Force   bool          // a paid refresh: crawl although the brand is known or a failure is remembered
	Now     time.Time
}

// Validate reports everything that is wrong, as ErrInvalidCrawl.
func (in RequestCrawl) Validate() error {
	var errs []error
	if in.CrawlID == "" {
		errs = append(errs, fmt.Errorf("%w: no crawl id", ErrInvalidCrawl))
	}
	if !slices.Contains([]string{CauseLookup, CauseRefresh, CauseSchedule, CauseLogo, CauseOperator}, in.Cause) {
		errs = append(errs, fmt.Errorf("%w: unknown cause %q", ErrInvalidCrawl, in.Cause))
	}
	if in.Lane != LaneLive && in.Lane != LaneRefresh {
		errs = append(errs, fmt.Errorf("%w: unknown lane %q", ErrInvalidCrawl, in.Lane))
	}
	if in.Allowed < time.Millisecond || in.Allowed > maxAllowed {
		errs = append(errs, fmt.Errorf("%w: %s allowed, not between 1ms and %s", ErrInvalidCrawl, in.Allowed, maxAllowed))
	}
	return errors.Join(errs...)
}

// RequestCrawl decides whether the site is crawled. No event and no error mean that there is nothing to
// append: the crawl that Running names is to be joined, or, when the same request is repeated after its
// end, LastOutcome has the answer. A crawl of the refresh lane is joined by its own kind only; for a live
// request it is superseded.
//
// Refusals: ErrWithdrawn; ErrAlreadyKnown for a lookup or logo of a known brand; *RememberedError while a
// failure is remembered; the last two not with Force, unless the crawl was lost twice in a row. ErrInvalidCrawl.
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
	if r := b.s.Running; r != nil && (r.Lane == LaneLive || in.Lane == LaneRefresh || r.CrawlID == in.CrawlID) {
		return nil, nil
	}
	if !in.Force && b.Known() && (in.Cause == CauseLookup || in.Cause == CauseLogo) {
		return nil, ErrAlreadyKnown
	}
	// One lost crawl may have met a restart. What was lost twice in a row takes processes down: not even a paid
	// refresh tries it again at once.
	if outcome, until, ok := b.Remembered(in.Now); ok && (!in.Force || b.s.Lost > 1) {
		return nil, &RememberedError{Outcome: outcome, Until: until}
	}
	return []eventschemas.Event{eventschemas.CrawlRequested{
		CrawlID: in.CrawlID, Domain: b.s.Domain, Cause: in.Cause, Lane: in.Lane, AllowedMS: in.Allowed.Milliseconds(),
	}}, nil
}

// SucceedCrawl ends a crawl with what it found.
type SucceedCrawl struct {
	CrawlID            string
	Record             eventschemas.Record
	Evidence           []eventschemas.Evidence
	FinalURL           string
	ETag, LastModified string
}

// SucceedCrawl decides what a crawl's success adds: CrawlSucceeded with the record, or CrawlConfirmed when
// it says nothing new. A success after the crawl timed out or was superseded still counts, unless a crawl
// that was requested later has succeeded meanwhile; that of an unknown crawl or one that has ended
// otherwise is a no-op, and so is any of a withdrawn brand. BrandDiscovered comes before the first record of
// a brand, so that a domain where no brand was ever found leaves none.
//
// Errors: ErrRecordTooLarge; one that says why the record cannot be encoded.
func (b *Brand) SucceedCrawl(in SucceedCrawl) ([]eventschemas.Event, error) {
	if !b.awaitsSuccess(in.CrawlID) {
		return nil, nil
	}
	record := whole(in.Record)
	if b.Known() && SameRecord(*b.s.Record, record) {
		return []eventschemas.Event{eventschemas.CrawlConfirmed{CrawlID: in.CrawlID, ETag: in.ETag, LastModified: in.LastModified}}, nil
	}
	ev := eventschemas.CrawlSucceeded{
		CrawlID: in.CrawlID, Record: record, FinalURL: in.FinalURL, ETag: in.ETag, LastModified: in.LastModified,
	}
	evidence, err := fitting(in.Evidence, func(e []eventschemas.Evidence) eventschemas.Event {
		ev.Evidence = e
		return ev
	})
	if err != nil {
		return nil, fmt.Errorf("crawl %s of %s: %w", in.CrawlID, b.s.Domain, err)
	}
	ev.Evidence = evidence
	if !b.Known() {
		return []eventschemas.Event{eventschemas.BrandDiscovered{BrandID: b.s.ID, Domain: b.s.Domain}, ev}, nil
	}
	return []eventschemas.Event{ev}, nil
}

// ConfirmCrawl decides what it adds that the site answered a conditional request with "not modified": the
// held record is confirmed. For which crawls it counts is as for SucceedCrawl. Errors: ErrInvalidCrawl when
// there is no crawled record to confirm.
func (b *Brand) ConfirmCrawl(crawlID string) ([]eventschemas.Event, error) {
	if !b.awaitsSuccess(crawlID) {
		return nil, nil
	}
	if !b.Known() || !b.s.Crawled {
		return nil, fmt.Errorf("%w: crawl %s of %s found nothing new, and there is no crawled record", ErrInvalidCrawl, crawlID, b.s.Domain)
	}
	return []eventschemas.Event{eventschemas.CrawlConfirmed{CrawlID: crawlID, ETag: b.s.ETag, LastModified: b.s.Modified}}, nil
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

// FailCrawl ends a crawl without a record.
type FailCrawl struct {
	CrawlID string
	Outcome string // one of the failures
	Detail  string // one sentence for operators; never fetched content
}

// FailCrawl decides what a crawl's failure adds. That of a crawl that is not running is a no-op.
// Errors: ErrInvalidCrawl.
func (b *Brand) FailCrawl(in FailCrawl) ([]eventschemas.Event, error) {
	d, ok := remember(in.Outcome, b.s.FailedRow)
	if !ok {
		return nil, fmt.Errorf("%w: unknown outcome %q", ErrInvalidCrawl, in.Outcome)
	}
	return b.failed(in, d)
}

// failed ends a crawl with a failure that is remembered for that long.
func (b *Brand) failed(in FailCrawl, d time.Duration) ([]eventschemas.Event, error) {
	if b.s.Running == nil || b.s.Running.CrawlID != in.CrawlID {
		return nil, nil
	}
	return []eventschemas.Event{eventschemas.CrawlFailed{
		CrawlID: in.CrawlID, Outcome: in.Outcome, RememberSeconds: int64(d / time.Second), Detail: sentence(in.Detail),
	}}, nil
}

// ExpireCrawl ends a crawl that has not ended in the time it was given, as a timeout, which is remembered twice as
// long with each further one in a row. Before its deadline, and for a crawl that is not running, it is a no-op.
func (b *Brand) ExpireCrawl(crawlID string, now time.Time) ([]eventschemas.Event, error) {
	r := b.s.Running
	if r == nil || r.CrawlID != crawlID || now.Before(r.deadline()) {
		return nil, nil
	}
	return b.failed(FailCrawl{
		CrawlID: crawlID, Outcome: Timeout, Detail: fmt.Sprintf("No outcome arrived within %s.", r.allowed()),
	}, rememberLost(b.s.Lost))
}

// Import brings a record from a data set.
type Import struct {
	Source   string // name and version of the data set
	Record   eventschemas.Record
	Evidence []eventschemas.Evidence
}

// Import decides whether a data set's record is taken. It is a no-op when the source was imported before,
// when a crawl has found or confirmed a record, and when the brand was withdrawn.
//
// Errors: ErrRecordTooLarge; one that says why the record cannot be encoded.
func (b *Brand) Import(in Import) ([]eventschemas.Event, error) {
	if b.s.Withdrawn || b.s.Crawled || slices.Contains(b.s.Sources, in.Source) {
		return nil, nil
	}
	ev := eventschemas.BrandImported{BrandID: b.s.ID, Domain: b.s.Domain, Source: in.Source, Record: whole(in.Record)}
	evidence, err := fitting(in.Evidence, func(e []eventschemas.Evidence) eventschemas.Event {
		ev.Evidence = e
		return ev
	})
	if err != nil {
		return nil, fmt.Errorf("import %s from %s: %w", b.s.Domain, in.Source, err)
	}
	ev.Evidence = evidence
	return []eventschemas.Event{ev}, nil
}

// Claim marks the brand as claimed; a repeat is a no-op. Refusals: ErrWithdrawn, ErrNoSuchBrand.
func (b *Brand) Claim() ([]eventschemas.Event, error) {
	if err := b.exists(); err != nil || b.s.Claimed {
		return nil, err
	}
	return []eventschemas.Event{eventschemas.BrandClaimed{}}, nil
}

// Withdraw takes the brand out, also one that was never looked up; a repeat is a no-op.
func (b *Brand) Withdraw(reason string) ([]eventschemas.Event, error) {
	if b.s.Withdrawn {
		return nil, nil
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

// sentence makes a detail one line of bounded length.
func sentence(detail string) string {
	detail = strings.Map(func(r rune) rune {
		if unicode.IsControl(r) {
			return ' '
		}
		return r
	}, strings.ToValidUTF8(detail, "\uFFFD"))
	if len(detail) > maxDetailBytes {
		detail = strings.ToValidUTF8(detail[:maxDetailBytes], "") // a rune cut in two goes
	}
	return strings.TrimSpace(detail)
}
