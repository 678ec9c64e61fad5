package commands

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/uuid"

	"letterhead/commands/streamwriter"
	"letterhead/domain/account"
	"letterhead/domain/usage"
	"letterhead/eventschemas"
	"letterhead/internal/eventlog"
)

// quotaState counts the searches of one account in one month, and the logos allotted to it. Those that are
// decided together are joined into one event of each type, which the group appends last.
type quotaState struct {
	streamwriter.Plain
	accountID string
	month     usage.Month
	requests  func() Request // of the group's event; each has its own id
	counter   *usage.Counter
	lastAt    time.Time

	joined joinedCounts // of the current round

	before     usage.Counter // at Begin
	beforeLast time.Time

	shown shownQuota // guarded by the actor's lock
}

// joinedCounts are the counts of one round.
type joinedCounts struct {
	searches int64
	logos    int64
	ahead    bool // some of the logos are allotted ahead
}

type shownQuota struct {
	ready    bool
	searches int64
}

func newQuotaState(accountID string, month usage.Month, requests func() Request) *quotaState {
	return &quotaState{accountID: accountID, month: month, requests: requests, counter: usage.New(accountID, month)}
}

func (t *quotaState) Apply(ev eventschemas.Event, at time.Time) {
	t.counter.Apply(ev, t.counter.Events())
	if at.After(t.lastAt) {
		t.lastAt = at
	}
}

func (t *quotaState) Revisions() uint64 { return t.counter.Events() }

func (t *quotaState) LastAt() time.Time { return t.lastAt }

func (t *quotaState) Begin() {
	t.before, t.beforeLast = *t.counter, t.lastAt
	t.joined = joinedCounts{}
}

func (t *quotaState) Commit() { t.joined = joinedCounts{} }

func (t *quotaState) Rollback() {
	*t.counter, t.lastAt = t.before, t.beforeLast
	t.joined = joinedCounts{}
}

func (t *quotaState) Remembered() int { return 1 }

func (t *quotaState) Reset() {
	t.counter, t.lastAt, t.joined = usage.New(t.accountID, t.month), time.Time{}, joinedCounts{}
}

// AfterGroup returns one event for all searches that were counted together, and one for all logos.
func (t *quotaState) AfterGroup() []streamwriter.Event {
	var events []streamwriter.Event
	if t.joined.searches > 0 {
		events = append(events, streamwriter.Event{
			Event: eventschemas.UsageTicked{Entries: []eventschemas.UsageEntry{
				{AccountID: t.accountID, Month: t.month.String(), Searches: t.joined.searches},
			}},
			Request: t.requests(),
		})
	}
	if t.joined.logos > 0 {
		events = append(events,
			streamwriter.Event{Event: eventschemas.LogosAllotted{Requests: t.joined.logos}, Request: t.requests()})
	}
	return events
}

func (t *quotaState) Publish(durable bool) {
	if durable {
		t.shown = shownQuota{ready: true, searches: t.counter.Searches()}
	}
}

func (t *quotaState) Withdraw() { t.shown = shownQuota{} }

// savedQuota is the snapshot of a quotaState.
type savedQuota struct {
	Counter *usage.Counter `json:"counter"`
	LastAt  time.Time      `json:"last_at"`
}

func (t *quotaState) MarshalBinary() ([]byte, error) {
	return json.Marshal(savedQuota{Counter: t.counter, LastAt: t.lastAt})
}

func (t *quotaState) UnmarshalBinary(data []byte) error {
	saved := savedQuota{Counter: usage.New(t.accountID, t.month)}
	if err := json.Unmarshal(data, &saved); err != nil {
		return fmt.Errorf("snapshot of a usage stream: %w", err)
	}
	if saved.Counter == nil {
		return fmt.Errorf("snapshot of a usage stream has no counter")
	}
	t.counter, t.lastAt = saved.Counter, saved.LastAt.UTC()
	return nil
}

// maxAllotments limits the accounts whose allotments a quota writer remembers: about 20 MB. Beyond it an
// arbitrary one is forgotten, and its remaining allotted requests are lost to that account.
const maxAllotments = 100_000

// allotmentOf identifies an account's month.
type allotmentOf struct {
	account string
	month   usage.Month
}

// allotment is a quota writer's knowledge about one month. Requests of a month are numbered in the order in
// which they are allotted.
type allotment struct {
	last int64 // the last number known to be allotted, to any quota writer
	held int64 // how many this writer may still use; they are assumed to be the last ones, which is never too low
	size int64 // the most that this writer was allotted in one event, for the request and ahead
}

// allotments are the months that a quota writer remembers. They are separate from the states, which are
// evicted when unused.
type allotments struct {
	mu sync.Mutex
	of map[allotmentOf]allotment
}

// take takes one of the held requests. If there is none, it returns how many may be allotted ahead: each time about
// twice as many as before, so that a kill never costs an account more than it has used since the start.
func (h *allotments) take(of allotmentOf, limit int64) (taken bool, ahead int64, err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	a := h.of[of]
	// A number above the limit exists after the limit was lowered.
	if usage.Exhausted(a.last-a.held, limit) {
		return false, 0, &usage.QuotaExceededError{What: "logos", Month: of.month, Used: a.last, Limit: limit}
	}
	if a.held == 0 {
		return false, min(usage.MaxLogosAhead, max(0, 2*a.size-1)), nil
	}
	a.held--
	h.of[of] = a
	return true, 0, nil
}

// note records that numbers up to last are allotted, and that held of them belong to this writer; size
// is 0 if they were not allotted to this writer just now.
func (h *allotments) note(of allotmentOf, last, held, size int64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	a, known := h.of[of]
	if !known && len(h.of) >= maxAllotments {
		for any := range h.of {
			delete(h.of, any)
			break
		}
	}
	a.last = max(a.last, last)
	a.held += held
	a.size = max(a.size, size)
	if h.of == nil {
		h.of = map[allotmentOf]allotment{}
	}
	h.of[of] = a
}

// putBack returns a taken request.
func (h *allotments) putBack(of allotmentOf) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if a, known := h.of[of]; known {
		a.held++
		h.of[of] = a
	}
}

// QuotaWriter counts requests that cost no credit against the plan's monthly allowance. It is safe for concurrent use.
type QuotaWriter struct {
	months *streamwriter.Actors[*quotaState]
	logos  allotments
	shared bool
}

type quotaActor = streamwriter.Actor[*quotaState]

// NewQuotaWriter returns a quota writer for a log. Snapshots may be nil: then every month is folded from
// its beginning. With Shared set, Searches reads the stream's tail first.
func NewQuotaWriter(cfg streamwriter.Config, log eventlog.Log, snapshots streamwriter.Snapshots) (*QuotaWriter, error) {
	months, err := streamwriter.New(cfg, quotaStreams(), log, snapshots)
	if err != nil {
		return nil, fmt.Errorf("quota writer: %w", err)
	}
	return &QuotaWriter{months: months, shared: cfg.Shared}, nil
}

// quotaStreams describes the streams of accounts' months.
func quotaStreams() streamwriter.Kind[*quotaState] {
	return streamwriter.Kind[*quotaState]{
		Label:         "usage",
		FoldVersion:   usage.FoldVersion,
		Open:          openQuota(tickRequests()),
		Identify:      usageDecision,
		Encoder:       eventschemas.Encoder{},
		Decode:        eventschemas.Decode,
		EventID:       eventschemas.EventID,
		Final:         func(err error) bool { return errors.Is(err, account.ErrInvalid) },
		NeedsOperator: func(error) bool { return false }, // counts are never compensated
	}
}

// tickRequests gives every tick an id that no other quota writer uses, because two that count at the
// same revision must not append the same event.
func tickRequests() func() Request {
	writer := uuid.NewString()
	var ticks atomic.Uint64
	return func() Request {
		return Request{ID: fmt.Sprintf("%s-%d", writer, ticks.Add(1)), Actor: actorQuotaWriter}
	}
}

const quotaKeySeparator = "/"

func quotaKey(accountID string, m usage.Month) string {
	return accountID + quotaKeySeparator + m.String()
}

func openQuota(requests func() Request) func(string) (string, *quotaState, error) {
	return func(key string) (string, *quotaState, error) {
		accountID, text, _ := strings.Cut(key, quotaKeySeparator)
		if err := checkAccountID(accountID); err != nil {
			return "", nil, err
		}
		month, err := usage.ParseMonth(text)
		if err != nil {
			return "", nil, &account.InvalidError{Field: "month", Reason: "must be of the form YYYY-MM"}
		}
		return usage.Stream(accountID, month), newQuotaState(accountID, month, requests), nil
	}
}

// Drain rejects new counts with ErrBusy, finishes the queued ones, and ends; see AccountWriter.Drain.
func (d *QuotaWriter) Drain(ctx context.Context) error { return d.months.Drain(ctx) }
