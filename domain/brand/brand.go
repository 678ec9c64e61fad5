package brand

import (
	"slices"
	"time"

	"github.com/google/uuid"

	"letterhead/eventschemas"
)

// FoldVersion is the version of the JSON state. Increment it whenever folding the same events gives
// another state, so that states stored by an older fold are discarded.
const FoldVersion = 3

// StreamPrefix precedes the registrable domain in a stream's name.
const StreamPrefix = "brand-"

// maxEnded limits the ended crawls that a brand remembers in order to recognize repeats and late
// outcomes. The deadlines of older crawls have long passed.
const maxEnded = 8

// idNamespace is the UUIDv5 of "urn:letterhead:brand" in the URL namespace of RFC 9562.
var idNamespace = uuid.MustParse("e47e08be-bc9e-5ca0-8646-c9f699b4b754")

// ID returns the id of the brand at a registrable domain. It is the same forever and on every node.
func ID(domain string) uuid.UUID { return uuid.NewSHA1(idNamespace, []byte(domain)) }

// Stream returns the name of the stream of the brand at a registrable domain.
func Stream(domain string) string { return StreamPrefix + domain }

// Brand is the fold of one brand's stream. It is not safe for concurrent use.
type Brand struct {
	s state
	// notBegun is how many of the lost crawls in a row no crawler began. It is not in the state, nor is
	// Ended.NotBegun: release 0.1.0, which folds the same rows, knows only timeouts.
	notBegun int
}

// state is the state of a Brand, in the order of its JSON.
type state struct {
	Domain    string    `json:"domain"`
	ID        string    `json:"id"`
	Events    uint64    `json:"events"` // number of folded events; the next revision
	Revision  uint64    `json:"revision"`
	UpdatedAt time.Time `json:"updated_at"`
	Claimed   bool      `json:"claimed,omitempty"`
	Withdrawn bool      `json:"withdrawn,omitempty"`
	// the record is from a crawl or confirmed by one
	Crawled    bool                           `json:"crawled,omitempty"`
	Record     *eventschemas.Record           `json:"record,omitempty"` // without overrides
	Imported   *eventschemas.Record           `json:"imported,omitempty"`
	Sources    []string                       `json:"sources,omitempty"`   // of imports, in their order
	Overrides  []eventschemas.FieldOverridden `json:"overrides,omitempty"` // sorted by field
	ETag       string                         `json:"etag,omitempty"`
	Modified   string                         `json:"last_modified,omitempty"`
	Running    *running                       `json:"running,omitempty"`
	Ended      []Ended                        `json:"ended,omitempty"` // oldest first
	LastFailed bool                           `json:"last_failed,omitempty"`
	Failure    *failure                       `json:"failure,omitempty"`
	FailedRow  int                            `json:"failed_in_a_row,omitempty"` // consecutive fetch_failed outcomes
	// consecutive crawls that only their deadline ended
	Lost      int       `json:"lost_in_a_row,omitempty"`
	CheckedAt time.Time `json:"checked_at,omitzero"` // when the last crawl ended
	// consecutive failures of any kind: the first and all scheduled ones
	Failures int `json:"failures,omitempty"`
	Partials int `json:"partials,omitempty"` // consecutive incomplete successes: the first and all scheduled ones
	Confirms int `json:"confirms,omitempty"` // consecutive
}

type running struct {
	CrawlID     string    `json:"crawl_id"`
	Priority    string    `json:"lane"`
	Cause       string    `json:"cause"`
	RequestedAt time.Time `json:"requested_at"`
	AllowedMS   int64     `json:"allowed_ms"`
	Revision    uint64    `json:"revision"` // of the request
}

func (r *running) allowed() time.Duration { return time.Duration(r.AllowedMS) * time.Millisecond }

func (r *running) deadline() time.Time { return r.RequestedAt.Add(r.allowed()) }

// failure is a remembered outcome.
type failure struct {
	Outcome string    `json:"outcome"`
	Until   time.Time `json:"until"`
}

// Ended describes how a crawl ended.
type Ended struct {
	CrawlID string `json:"crawl_id"`
	// Outcome is Succeeded, Confirmed, Superseded or one of the failures.
	Outcome string `json:"outcome"`
	// Until is the time until which a failure is answered without another crawl; zero for a success.
	Until time.Time `json:"until,omitzero"`
	// Requested is the revision of the crawl's request.
	Requested uint64 `json:"requested"`
	// NotBegun means that no crawler began the crawl in time. Only a fold of the whole stream knows it.
	NotBegun bool `json:"-"`
}

// Succeeded reports whether the crawl found or confirmed the record.
func (e Ended) Succeeded() bool { return e.Outcome == Succeeded || e.Outcome == Confirmed }

// New returns the brand at a registrable domain before its first event.
func New(domain string) *Brand {
	return &Brand{s: state{Domain: domain, ID: ID(domain).String()}}
}

// Apply folds the next event of the stream. An event at a revision that is already folded changes nothing, so that a
// reader may start again. An event of another stream's type only increments the revision.
func (b *Brand) Apply(ev eventschemas.Event, revision uint64, at time.Time) {
	if revision < b.s.Events {
		return
	}
	b.s.Events = revision + 1
	if b.s.Withdrawn {
		return // terminal
	}
	at = at.UTC() // as decoded from JSON: no zone, no monotonic reading
	switch ev := ev.(type) {
	case eventschemas.BrandDiscovered:
		b.s.ID = ev.BrandID
	case eventschemas.BrandImported:
		b.applyImported(ev, revision, at)
	case eventschemas.CrawlRequested:
		b.applyRequested(ev, revision, at)
	case eventschemas.CrawlSucceeded:
		record := ev.Record.Normalized()
		b.s.Record = &record
		b.applySuccess(ev.CrawlID, Succeeded, ev.ETag, ev.LastModified, revision, at)
	case eventschemas.CrawlConfirmed:
		b.applySuccess(ev.CrawlID, Confirmed, ev.ETag, ev.LastModified, revision, at)
	case eventschemas.CrawlFailed:
		b.applyFailed(ev, revision, at)
	case eventschemas.FieldOverridden:
		b.s.Overrides = withOverride(b.s.Overrides, ev)
		b.changed(revision, at)
	case eventschemas.OverrideRemoved:
		b.s.Overrides = withoutOverride(b.s.Overrides, ev.Field)
		b.changed(revision, at)
	case eventschemas.BrandClaimed:
		b.s.Claimed = true
		b.changed(revision, at)
	case eventschemas.BrandWithdrawn:
		b.applyWithdrawn(revision, at)
	}
}

// changed records that the record was changed or confirmed by this event.
func (b *Brand) changed(revision uint64, at time.Time) {
	b.s.Revision, b.s.UpdatedAt = revision, at
}

func (b *Brand) applyImported(ev eventschemas.BrandImported, revision uint64, at time.Time) {
	if b.s.Events == 1 {
		b.s.ID = ev.BrandID // the first event fixes it
	}
	record := ev.Record.Normalized()
	b.s.Imported = &record
	if !slices.Contains(b.s.Sources, ev.Source) {
		b.s.Sources = append(slices.Clone(b.s.Sources), ev.Source)
	}
	if !b.s.Crawled { // crawled data is never overwritten
		b.s.Record = &record
		b.changed(revision, at)
	}
}

func (b *Brand) applyRequested(ev eventschemas.CrawlRequested, revision uint64, at time.Time) {
	if r := b.s.Running; r != nil {
		b.end(Ended{CrawlID: r.CrawlID, Outcome: Superseded, Requested: r.Revision})
	}
	b.s.Running = &running{CrawlID: ev.CrawlID, Priority: ev.Priority, Cause: ev.Cause, RequestedAt: at,
		AllowedMS: ev.AllowedMS, Revision: revision}
}

func (b *Brand) applySuccess(crawlID, outcome, etag, modified string, revision uint64, at time.Time) {
	step := b.steps(crawlID)
	b.end(Ended{CrawlID: crawlID, Outcome: outcome, Requested: b.requestedAt(crawlID, revision)})
	b.s.Crawled = true
	b.s.ETag, b.s.Modified = etag, modified
	b.s.LastFailed, b.s.Failure, b.s.FailedRow, b.s.Failures, b.s.Lost = false, nil, 0, 0, 0
	b.s.CheckedAt, b.notBegun = at, 0
	if outcome == Confirmed {
		b.s.Confirms++
	} else {
		b.s.Confirms = 0
	}
	if b.Known() && !b.s.Record.Complete {
		b.s.Partials = max(1, b.s.Partials+step)
	} else {
		b.s.Partials = 0
	}
	b.changed(revision, at)
}

func (b *Brand) applyFailed(ev eventschemas.CrawlFailed, revision uint64, at time.Time) {
	until := at.Add(time.Duration(ev.RememberSeconds) * time.Second)
	step := b.steps(ev.CrawlID)
	// Crawlers report before the deadline. A timeout at the deadline means that the crawler did not report: the site
	// may have crashed it, and its request, which was appended before the work began, counts as a failed attempt.
	if r := b.s.Running; ev.Outcome == Timeout && r != nil && r.CrawlID == ev.CrawlID && !at.Before(r.deadline()) {
		b.s.Lost++
	} else {
		b.s.Lost, b.notBegun = 0, 0
	}
	notBegun := OutcomeOf(ev) == NotBegun
	if notBegun && b.s.Lost > 0 {
		b.notBegun++
	}
	b.end(Ended{CrawlID: ev.CrawlID, Outcome: ev.Outcome, Until: until, Requested: b.requestedAt(ev.CrawlID, revision),
		NotBegun: notBegun})
	b.s.Failure = &failure{Outcome: ev.Outcome, Until: until}
	b.s.CheckedAt = at
	b.s.Failures = max(1, b.s.Failures+step)
	if ev.Outcome == FetchFailed {
		b.s.FailedRow++
	} else {
		b.s.FailedRow = 0
	}
	if b.s.Crawled && !b.s.LastFailed {
		b.s.Revision = revision // the status changes, but not the age of the record
	}
	b.s.LastFailed = true
}

// steps returns 1 for the end of a scheduled crawl, which lengthens the schedule's next wait, and 0
// for a requested crawl: requests may come every minute and must not affect the schedule.
func (b *Brand) steps(crawlID string) int {
	if r := b.s.Running; r != nil && r.CrawlID == crawlID && r.Cause == CauseSchedule {
		return 1
	}
	return 0
}

func (b *Brand) applyWithdrawn(revision uint64, at time.Time) {
	b.s = state{Domain: b.s.Domain, ID: b.s.ID, Events: b.s.Events, Withdrawn: true}
	b.changed(revision, at)
}

// requestedAt returns the revision at which a crawl was requested, or the revision of its outcome if the
// request is forgotten.
func (b *Brand) requestedAt(crawlID string, outcome uint64) uint64 {
	if b.s.Running != nil && b.s.Running.CrawlID == crawlID {
		return b.s.Running.Revision
	}
	if e, ok := b.LastOutcome(crawlID); ok {
		return e.Requested
	}
	return outcome
}

// end adds a crawl to the ended ones and replaces an earlier outcome (a timeout) of the same crawl.
func (b *Brand) end(e Ended) {
	if b.s.Running != nil && b.s.Running.CrawlID == e.CrawlID {
		b.s.Running = nil
	}
	others := slices.DeleteFunc(slices.Clone(b.s.Ended), func(old Ended) bool { return old.CrawlID == e.CrawlID })
	ended := append(others, e)
	b.s.Ended = ended[max(0, len(ended)-maxEnded):]
}

// ID returns the brand's id, a lower-case UUID.
func (b *Brand) ID() string { return b.s.ID }

// Events returns the number of folded events: the stream is at revision Events()-1.
func (b *Brand) Events() uint64 { return b.s.Events }

// Known reports whether there is a readable record.
func (b *Brand) Known() bool { return b.s.Record != nil }

// Crawled reports whether the record is from a crawl or confirmed by one.
func (b *Brand) Crawled() bool { return b.s.Crawled }

// Withdrawn reports whether the owner withdrew the brand.
func (b *Brand) Withdrawn() bool { return b.s.Withdrawn }

// Running returns the running crawl: its id, when it was requested and how long it may take.
func (b *Brand) Running() (crawlID string, requestedAt time.Time, allowed time.Duration, ok bool) {
	r := b.s.Running
	if r == nil {
		return "", time.Time{}, 0, false
	}
	return r.CrawlID, r.RequestedAt, r.allowed(), true
}

// Overdue returns the running crawl if its outcome should have arrived, with some grace, before this moment.
func (b *Brand) Overdue(now time.Time, grace time.Duration) (crawlID string, ok bool) {
	if r := b.s.Running; r != nil && now.After(r.deadline().Add(grace)) {
		return r.CrawlID, true
	}
	return "", false
}

// Remembered returns the failure that is answered at this moment instead of crawling again. A crawl that was not begun
// is none.
func (b *Brand) Remembered(now time.Time) (outcome string, until time.Time, ok bool) {
	f := b.s.Failure
	if f == nil || !now.Before(f.Until) ||
		slices.ContainsFunc(b.s.Ended, func(e Ended) bool { return e.NotBegun && e.Until.Equal(f.Until) }) {
		return "", time.Time{}, false
	}
	return f.Outcome, f.Until, true
}

// Idle reports whether a crawl in the background may be requested: no crawl is running, no failure is remembered, and
// the owner has not withdrawn the brand.
func (b *Brand) Idle(now time.Time) bool {
	_, _, remembered := b.Remembered(now)
	return !remembered && b.s.Running == nil && !b.s.Withdrawn
}

// OnlyImported reports whether the brand was imported, and no crawl has found it.
func (b *Brand) OnlyImported() bool { return !b.s.Crawled && b.s.Imported != nil }

// LastOutcome returns how a crawl ended, if it is one of the last eight.
func (b *Brand) LastOutcome(crawlID string) (Ended, bool) {
	for _, e := range b.s.Ended {
		if e.CrawlID == crawlID {
			return e, true
		}
	}
	return Ended{}, false
}

// Held returns the record of the last crawl or import, without overrides; nil if there is none. It
// must not be modified.
func (b *Brand) Held() *eventschemas.Record { return b.s.Record }

// Imported returns the record of the last import, whose logos remain candidates for crawls; nil if
// there was none. It must not be modified.
func (b *Brand) Imported() *eventschemas.Record { return b.s.Imported }
