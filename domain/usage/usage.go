package usage

import (
	"encoding/json"
	"errors"
	"fmt"

	"letterhead/eventschemas"
)

// FoldVersion is the version of the JSON state; see brand.FoldVersion.
const FoldVersion = 2

// OldestFoldVersion is the version of the oldest release that may run at the same time as this one.
const OldestFoldVersion = 2

// Prefixes of the streams.
const (
	StreamPrefix     = "usage-"
	NodeStreamPrefix = "usage-node-"
)

// Logo requests are allotted in advance, because an append for each would cost more than the answer.
const (
	// MaxLogosAhead is about one second of requests at an account's limit of 3,000 a minute. If a node
	// that holds them is killed, the account loses that many.
	MaxLogosAhead = 50
	// aheadPart limits the advance to 1/aheadPart of what is left. So the advance shrinks as the limit
	// approaches, and the last aheadPart-1 are allotted singly, as are all of a small allowance.
	aheadPart = 100
)

// Stream returns the name of the stream that decides an account's searches and logos of a month.
func Stream(accountID string, m Month) string {
	return StreamPrefix + accountID + "-" + m.Start().Format("200601")
}

// NodeStream returns the name of the stream on which one node records its aggregated usage. An account
// id is a UUID, so the name never collides with an account's stream.
func NodeStream(node string) string { return NodeStreamPrefix + node }

// ErrQuotaExceeded is returned by CheckSearch and CheckLogo; the error is a *QuotaExceededError.
var ErrQuotaExceeded = errors.New("the monthly allowance is used up")

// QuotaExceededError reports which allowance is used up.
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

// Counter is the fold of one usage stream. It is not safe for concurrent use.
type Counter struct {
	account string
	month   Month
	s       state
}

type state struct {
	Events   uint64 `json:"events"` // number of folded events; the next revision
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

// Exhausted reports whether a month's limit allows no more; plan.Unlimited, like any limit below zero, always does.
func Exhausted(used, limit int64) bool { return limit >= 0 && used >= limit }

// CheckSearch returns ErrQuotaExceeded if the month's limit does not allow another search after pending ones, which are
// counted together with it.
func (c *Counter) CheckSearch(pending, limit int64) error {
	return c.month.Check("searches", c.s.Searches+pending, limit)
}

// CheckLogo returns ErrQuotaExceeded if the month's limit does not allow another logo request to be served with the
// account's rights, after pending ones, which are allotted together with it.
func (c *Counter) CheckLogo(pending, limit int64) error {
	return c.month.Check("logos", c.s.Logos+pending, limit)
}

// Check returns ErrQuotaExceeded if the month's limit allows no more searches or logos.
func (m Month) Check(what string, used, limit int64) error {
	if !Exhausted(used, limit) {
		return nil
	}
	return &QuotaExceededError{What: what, Month: m, Used: used, Limit: limit}
}

// LogosAhead returns how many future requests may be allotted in addition to n waiting ones.
func (c *Counter) LogosAhead(n, limit int64) int64 {
	if limit < 0 {
		return MaxLogosAhead
	}
	return min(MaxLogosAhead, max(0, limit-c.s.Logos-n)/aheadPart)
}

// Searches returns the number of counted searches.
func (c *Counter) Searches() int64 { return c.s.Searches }

// Logos returns the number of allotted logo requests.
func (c *Counter) Logos() int64 { return c.s.Logos }

// Month returns the counted month.
func (c *Counter) Month() Month { return c.month }

// Events returns the number of folded events: the stream is at revision Events()-1.
func (c *Counter) Events() uint64 { return c.s.Events }

// MarshalJSON encodes the counts; the account and month are in the stream's name.
func (c *Counter) MarshalJSON() ([]byte, error) { return json.Marshal(c.s) }

// UnmarshalJSON decodes the output of MarshalJSON into a counter of the same stream. After an error
// the counter is unchanged.
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
