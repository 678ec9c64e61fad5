package commands

import (
	"encoding/json"
	"fmt"
	"time"

	"letterhead/commands/streamwriter"
	"letterhead/domain/usage"
	"letterhead/eventschemas"
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
