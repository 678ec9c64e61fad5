package usage

import (
	"encoding/json"
	"errors"
	"fmt"

	"letterhead/domain/plan"
	"letterhead/eventschemas"
)

// FoldVersion names the shape and meaning of the JSON state; see brand.FoldVersion.
const FoldVersion = 2

// OldestFoldVersion is that of the oldest release that may still run beside this one.
const OldestFoldVersion = 2

// Prefixes of the streams.
const (
	StreamPrefix     = "usage-"
	NodeStreamPrefix = "usage-node-"
)

// Logo requests are allotted ahead of their coming, because an append for each would cost more than the answer.
const (
	// MaxLogosAhead is about what an account's limit of 3,000 a minute lets come in a second. That many are lost to the
	// account when a node is killed that held them.
	MaxLogosAhead = 50
	// aheadPart is the part of what is left that may be allotted ahead. So less is held the nearer the limit, and the
	// last aheadPart-1 are allotted singly; so are all of a small allowance.
	aheadPart = 100
)

// Stream names the stream that decides an account's searches and logos of a month.
func Stream(accountID string, m Month) string {
	return StreamPrefix + accountID + "-" + m.Start().Format("200601")
}

// NodeStream names the stream on which one node records what it aggregated. An account id is a uuid, so it
// never meets an account's stream.
func NodeStream(node string) string { return NodeStreamPrefix + node }

// ErrQuotaExceeded is the refusal of Count and AllotLogos; the error is a *QuotaExceededError.
var ErrQuotaExceeded = errors.New("the monthly allowance is used up")

// QuotaExceededError says which allowance is used up.
type QuotaExceededError struct {
	What        string // searches, logos
	Month       Month
	Used, Limit int64
}

func (e *QuotaExceededError) Error() string {
	return fmt.Sprintf("%d of %d %s of %s are used: %s", e.Used, e.Limit, e.What, e.Month, ErrQuotaExceeded)
}

// Is makes errors.Is(err, ErrQuotaExceeded) true.
func (e *QuotaExceededError) Is(target error) bool { return target == ErrQuotaExceeded }

// Counter is what the events of one usage stream add up to. It is for one goroutine.
type Counter struct {
	account string
	month   Month
	s       state
}

type state struct {
	Events   uint64 `json:"events"` // folded so far; the next revision
	Searches int64  `json:"searches"`
	Logos    int64  `json:"logos"` // allotted
}

// New returns the counter of an account's month before its first event.
func New(accountID string, m Month) *Counter { return &Counter{account: accountID, month: m} }

// Apply folds the next event of the stream. An event at a revision that is already folded changes nothing.
func (c *Counter) Apply(ev eventschemas.Event, revision uint64) {
	if revision < c.s.Events {
		return
	}
	c.s.Events = revision + 1
	switch ev := ev.(type) {
	case eventschemas.LogosAllotted:
		c.s.Logos += ev.Requests
	case eventschemas.UsageTicked:
		for _, e := range ev.Entries {
			if e.AccountID == c.account && e.Month == c.month.String() {
				c.s.Searches += e.Searches
			}
		}
	}
}

// Count decides how many of n searches, answered together, the month's limit still allows, first come
// first served; plan.Unlimited allows all. One event carries those that are counted.
//
// When none is allowed it refuses with ErrQuotaExceeded. n below one counts nothing.
func (c *Counter) Count(n, limit int64) (counted int64, events []eventschemas.Event, err error) {
	if n < 1 {
		return 0, nil, nil
	}
	if counted = fitting(n, c.s.Searches, limit); counted < 1 {
		return 0, nil, &QuotaExceededError{What: "searches", Month: c.month, Used: c.s.Searches, Limit: limit}
	}
	return counted, []eventschemas.Event{eventschemas.UsageTicked{Entries: []eventschemas.UsageEntry{
		{AccountID: c.account, Month: c.month.String(), Searches: counted},
	}}}, nil
}

// AllotLogos decides how many of n logo requests the month's limit still allows to be served with the account's
// rights, first come first served; plan.Unlimited allows all. One event carries those that are allotted.
//
// When none is allowed it refuses with ErrQuotaExceeded. n below one allots nothing.
func (c *Counter) AllotLogos(n, limit int64) (allotted int64, events []eventschemas.Event, err error) {
	if n < 1 {
		return 0, nil, nil
	}
	if allotted = fitting(n, c.s.Logos, limit); allotted < 1 {
		return 0, nil, &QuotaExceededError{What: "logos", Month: c.month, Used: c.s.Logos, Limit: limit}
	}
	return allotted, []eventschemas.Event{eventschemas.LogosAllotted{Requests: allotted}}, nil
}

// LogosAhead returns how many requests that are yet to come may be allotted beside n that wait.
func (c *Counter) LogosAhead(n, limit int64) int64 {
	if limit == plan.Unlimited {
		return MaxLogosAhead
	}
	return min(MaxLogosAhead, max(0, limit-c.s.Logos-n)/aheadPart)
}

// fitting returns how many of n more the limit allows; it may be below zero.
func fitting(n, used, limit int64) int64 {
	if limit == plan.Unlimited {
		return n
	}
	return min(n, limit-used)
}

// Searches returns how many searches are counted.
func (c *Counter) Searches() int64 { return c.s.Searches }

// Logos returns how many logo requests are allotted.
func (c *Counter) Logos() int64 { return c.s.Logos }

// Month returns the month that is counted.
func (c *Counter) Month() Month { return c.month }

// Events returns how many events are folded: the stream is at revision Events()-1.
func (c *Counter) Events() uint64 { return c.s.Events }

// MarshalJSON writes the counts; the account and month are the stream's name.
func (c *Counter) MarshalJSON() ([]byte, error) { return json.Marshal(c.s) }

// UnmarshalJSON reads what MarshalJSON wrote into a counter of the same stream. After an error the
// counter is as it was.
func (c *Counter) UnmarshalJSON(data []byte) error {
	var s *state
	if err := json.Unmarshal(data, &s); err != nil {
		return fmt.Errorf("state of a usage counter: %w", err)
	}
	if s == nil || s.Searches < 0 || s.Logos < 0 {
		return fmt.Errorf("state of a usage counter: no counts in %.80q", data)
	}
	c.s = *s
	return nil
}
