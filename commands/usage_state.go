package commands

import (
	"encoding/json"
	"fmt"
	"time"

	"letterhead/domain/usage"
	"letterhead/eventschemas"
)

// tally counts the searches of one account in one month, and the logos allotted to it. Those that are
// decided together are joined into one event of each type, which the group's finale appends.
type tally struct {
	accountID string
	month     usage.Month
	requests  func() Request // of the group's event; each has its own id
	counter   *usage.Counter
	lastAt    time.Time

	joined joinedCounts // of the current round

	before     usage.Counter // at Begin
	beforeLast time.Time

	shown shownTally // guarded by the actor's lock
}

// joinedCounts are the counts of one round.
type joinedCounts struct {
	searches int64
	logos    int64
	ahead    bool // some of the logos are allotted ahead
}

type shownTally struct {
	ready    bool
	searches int64
}

func newTally(accountID string, month usage.Month, requests func() Request) *tally {
	return &tally{accountID: accountID, month: month, requests: requests, counter: usage.New(accountID, month)}
}

func (t *tally) Apply(ev eventschemas.Event, at time.Time) {
	t.counter.Apply(ev, t.counter.Events())
	if at.After(t.lastAt) {
		t.lastAt = at
	}
}

func (t *tally) Revisions() uint64 { return t.counter.Events() }

func (t *tally) LastAt() time.Time { return t.lastAt }

func (t *tally) Begin() {
	t.before, t.beforeLast = *t.counter, t.lastAt
	t.joined = joinedCounts{}
}

func (t *tally) Commit() { t.joined = joinedCounts{} }

func (t *tally) Rollback() {
	*t.counter, t.lastAt = t.before, t.beforeLast
	t.joined = joinedCounts{}
}

func (t *tally) Remembered() int { return 1 }

func (t *tally) Reset() {
	t.counter, t.lastAt, t.joined = usage.New(t.accountID, t.month), time.Time{}, joinedCounts{}
}

// Prelude returns nothing.
func (t *tally) Prelude(time.Time) []authored { return nil }

// Finale returns one event for all searches that were counted together, and one for all logos.
func (t *tally) Finale() []authored {
	var events []authored
	if t.joined.searches > 0 {
		events = append(events, authored{
			event: eventschemas.UsageTicked{Entries: []eventschemas.UsageEntry{
				{AccountID: t.accountID, Month: t.month.String(), Searches: t.joined.searches},
			}},
			request: t.requests(),
		})
	}
	if t.joined.logos > 0 {
		events = append(events, authored{event: eventschemas.LogosAllotted{Requests: t.joined.logos}, request: t.requests()})
	}
	return events
}

func (t *tally) Publish(durable bool) {
	if durable {
		t.shown = shownTally{ready: true, searches: t.counter.Searches()}
	}
}

func (t *tally) Withdraw() { t.shown = shownTally{} }

func (t *tally) Idle() bool { return true }

// savedTally is a tally's snapshot.
type savedTally struct {
	Counter *usage.Counter `json:"counter"`
	LastAt  time.Time      `json:"last_at"`
}

func (t *tally) MarshalBinary() ([]byte, error) {
	return json.Marshal(savedTally{Counter: t.counter, LastAt: t.lastAt})
}

func (t *tally) UnmarshalBinary(data []byte) error {
	saved := savedTally{Counter: usage.New(t.accountID, t.month)}
	if err := json.Unmarshal(data, &saved); err != nil {
		return fmt.Errorf("snapshot of a usage stream: %w", err)
	}
	if saved.Counter == nil {
		return fmt.Errorf("snapshot of a usage stream has no counter")
	}
	t.counter, t.lastAt = saved.Counter, saved.LastAt.UTC()
	return nil
}
