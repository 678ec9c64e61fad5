// Package notices decides when the holder of an account gets a notice, and when a notice is sent again. Like all of
// domain, it is pure: the events of an account and of its stream of notices determine everything.
//
// A notice of a low balance is raised when the balance falls below the threshold of the account, and not again until
// credits are added that bring the balance back to the threshold. Returned credits of a charge do not count as added,
// so a charge that is reversed and repeated at the threshold raises one notice.
//
// A notice of a failed payment is raised by each attempt to pay that failed, and ends when the payment grants its
// credits.
package notices

import (
	"cmp"
	"errors"
	"strconv"
	"time"

	"letterhead/domain/account"
	"letterhead/eventschemas"
)

// Errors of decisions. A rejected command results in no event.
var (
	// ErrInvalid means that a threshold or a destination cannot be used.
	ErrInvalid = errors.New("invalid settings of notices")
	// ErrUnknown means that the account has no such notice.
	ErrUnknown = errors.New("no such notice")
	// ErrNotDead means that no delivery of the notice is dead-lettered, so that there is nothing to try again.
	ErrNotDead = errors.New("no delivery of the notice is dead-lettered")
)

// Kinds of notices.
const (
	LowBalance    = "low_balance"    // the balance is below the threshold of the account
	PaymentFailed = "payment_failed" // a payment of the account was attempted and failed
)

// Destinations of notices.
const (
	Webhook = "webhook"
	Email   = "email"
)

// Destinations are all destinations.
var Destinations = []string{Webhook, Email}

// Outcomes of NoticeSettled.
const (
	Delivered    = "delivered"
	Failed       = "failed" // it is tried again
	DeadLettered = "dead_lettered"
	Outdated     = "outdated" // it is of no use any more
)

// Open is the state of a delivery that is, or will be, attempted. The other states are the outcomes except Failed.
const Open = "open"

// AttemptTime limits an attempt. An attempt whose outcome is not recorded within it counts as failed.
const AttemptTime = 30 * time.Second

// pauses between attempts, as Standard Webhooks recommend: the first follows the first attempt.
var pauses = [...]time.Duration{
	5 * time.Second, 5 * time.Minute, 30 * time.Minute, 2 * time.Hour, 5 * time.Hour, 10 * time.Hour, 14 * time.Hour,
	20 * time.Hour, 24 * time.Hour,
}

// MaxAttempts is the number of attempts before a notice is dead-lettered.
const MaxAttempts = int64(len(pauses) + 1)

// pause returns the pause after an attempt, from 1.
func pause(attempt int64) time.Duration {
	return pauses[min(max(attempt, 1), int64(len(pauses)))-1]
}

// Stream returns the name of the stream of an account's notices.
func Stream(accountID string) string { return eventschemas.NoticesPrefix + accountID }

// ID returns the id of the notice that an event of an account raises. It follows from the event, so every node, and
// every rebuild, finds the same one.
func ID(accountID, kind string, revision uint64) string {
	return eventschemas.EventID(account.Stream(accountID), "notice", kind, strconv.FormatUint(revision, 10)).String()
}

// CompareAttempts orders failed attempts to pay: by their numbers if both are counted, else by their times.
func CompareAttempts(a, b eventschemas.PaymentFailed) int {
	if a.Attempt > 0 && b.Attempt > 0 {
		return cmp.Compare(a.Attempt, b.Attempt)
	}
	return a.FailedAt.Compare(b.FailedAt)
}

// Effect is what an event means for the notices of its account: a set of the bits below, or None.
type Effect uint8

// None is the effect of most events.
const None Effect = 0

// Effects. An event that ends and raises a notice ends the earlier one first.
const (
	RaisesLow    Effect = 1 << iota // the balance has become low
	EndsLow                         // earlier notices of a low balance are of no use any more
	RaisesFailed                    // a payment has failed
	EndsFailed                      // an earlier notice of the same payment is of no use any more
)

// Watch is what determines the notices of an account. The zero Watch belongs to a new account.
type Watch struct {
	Balance  int64
	Closed   bool
	Settings eventschemas.NoticesSet
	// Armed reports whether a balance below the threshold raises a notice.
	Armed bool
}

// Apply applies an event of the account, or of its stream of notices.
func (w *Watch) Apply(ev eventschemas.Event) Effect {
	switch ev := ev.(type) {
	case eventschemas.NoticesSet:
		return w.set(ev)
	case eventschemas.PaymentFailed:
		if w.Closed {
			return None
		}
		return EndsFailed | RaisesFailed
	case eventschemas.AccountClosed:
		w.Closed, w.Armed = true, false
		return EndsLow
	case eventschemas.CreditsGranted:
		if ev.PaymentID != "" {
			return EndsFailed | w.move(ev)
		}
	}
	return w.move(ev)
}

// move applies an event that may move the balance.
func (w *Watch) move(ev eventschemas.Event) Effect {
	w.Balance += account.Delta(ev)
	if w.Closed || w.Settings.LowBalance == 0 {
		return None
	}
	low := w.Balance < w.Settings.LowBalance
	switch {
	case low && w.Armed:
		w.Armed = false
		return RaisesLow
	case !low && !w.Armed && adds(ev):
		w.Armed = true
		return EndsLow
	}
	return None
}

// set begins with the balance of the moment: a balance that is low already raises no notice, because whoever sets the
// threshold sees it.
func (w *Watch) set(ev eventschemas.NoticesSet) Effect {
	moved := ev.LowBalance != w.Settings.LowBalance
	w.Settings = ev
	if !moved || w.Closed {
		return None
	}
	w.Armed = ev.LowBalance > 0 && w.Balance >= ev.LowBalance
	if w.Armed || ev.LowBalance == 0 {
		return EndsLow
	}
	return None
}

// adds reports whether an event adds credits that were not the account's before it was charged for them.
func adds(ev eventschemas.Event) bool {
	switch ev.(type) {
	case eventschemas.CreditsGranted, eventschemas.RefundReversed:
		return true
	}
	return false
}

// Has reports whether the settings have a destination.
func (w *Watch) Has(destination string) bool {
	return destination == Webhook && w.Settings.Webhook || destination == Email && w.Settings.Email
}

// Payment is a payment that failed.
type Payment struct {
	ID       string              `json:"payment_id"`
	Attempt  int64               `json:"attempt"` // to pay, from 1; 0 if the processor does not count them
	FailedAt time.Time           `json:"failed_at"`
	Money    *eventschemas.Money `json:"money,omitempty"` // that was to be paid
}

// Delivery is the delivery of a notice to one destination.
type Delivery struct {
	NoticeID    string    `json:"notice_id"`
	Kind        string    `json:"kind"`
	Destination string    `json:"destination"`
	RaisedAt    time.Time `json:"raised_at"`
	Balance     int64     `json:"balance"`   // after the event that raised the notice
	Threshold   int64     `json:"threshold"` // at that time
	// Payment is the payment that failed; nil for another kind of notice.
	Payment  *Payment `json:"payment,omitempty"`
	State    string   `json:"state"`    // open, delivered, dead_lettered, outdated
	Attempts int64    `json:"attempts"` // since the notice was raised, or reopened
	// NextAt is when an open delivery is attempted next.
	NextAt time.Time `json:"next_at,omitzero"`
	Reason string    `json:"reason,omitempty"` // of the last failure, in a word
}

// Raise returns the delivery of a notice that an event raises, due immediately.
func (w *Watch) Raise(ev eventschemas.Event, id, destination string, at time.Time) Delivery {
	d := Delivery{NoticeID: id, Kind: LowBalance, Destination: destination, RaisedAt: at, Balance: w.Balance,
		Threshold: w.Settings.LowBalance, State: Open, NextAt: at}
	if failed, ok := ev.(eventschemas.PaymentFailed); ok {
		d.Kind, d.Payment = PaymentFailed, &Payment{failed.PaymentID, failed.Attempt,
			failed.FailedAt.UTC(), failed.Money}
	}
	return d
}

// Raised returns the delivery of a notice that is raised now, with what became of it already: d has the events that a
// copy of the log has before the event that raised the notice, and is zero if there are none.
func (d Delivery) Raised(now Delivery) Delivery {
	if d.State != "" {
		now.State, now.NextAt = d.State, d.NextAt
	}
	if d.Attempts > 0 {
		now.Attempts, now.NextAt = d.Attempts, d.NextAt
	}
	now.Reason = d.Reason
	return now
}

// Apply applies an event about the delivery, which has a time.
func (d *Delivery) Apply(ev eventschemas.Event, at time.Time) {
	switch ev := ev.(type) {
	case eventschemas.NoticeAttempted:
		// If no outcome is recorded, the node has stopped, and the attempt has failed.
		d.Attempts, d.NextAt = ev.Attempt, at.Add(AttemptTime+pause(ev.Attempt))
	case eventschemas.NoticeSettled:
		if ev.Attempt != d.Attempts && ev.Outcome != Delivered {
			return // a later attempt has begun
		}
		d.Reason = ev.Reason
		if ev.Outcome == Failed {
			d.NextAt = at.Add(pause(ev.Attempt))
			return
		}
		d.State, d.NextAt = ev.Outcome, time.Time{}
	case eventschemas.NoticeReopened:
		d.State, d.Attempts, d.NextAt, d.Reason = Open, 0, at, ""
	}
}

// End ends a delivery that is still open, because its notice is of no use any more.
func (d *Delivery) End() {
	if d.State == Open {
		d.State, d.NextAt = Outdated, time.Time{}
	}
}

// Exhausted reports whether all attempts were made.
func (d *Delivery) Exhausted() bool { return d.Attempts >= MaxAttempts }
