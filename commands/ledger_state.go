package commands

import (
	"time"

	"letterhead/domain/account"
	"letterhead/domain/plan"
	"letterhead/eventschemas"
)

// ledger is an account and the part of it that the desk reads without queueing. The account belongs to
// the actor's goroutine; shown and reserved are guarded by the actor's lock.
type ledger struct {
	*account.Account

	shown    shown
	reserved int64    // credits of all reservations of this desk, in memory
	answers  *answers // nil unless other nodes answer, too

	expired int // holds that the prelude of the current round released
}

// shown is the account as of its last durable event.
type shown struct {
	ready     bool
	status    account.Status
	plan      plan.ID
	balance   int64
	held      int64
	openHolds int
	month     time.Time // when lookups were counted
	lookups   int64
	// forgotKeysUntil is when the account's own memory again covers every idempotency key that is
	// still valid.
	forgotKeysUntil time.Time

	// unheld is the balance minus holds and minus credits spent in the current round: tentatively
	// granted credits cannot be reserved yet, tentatively spent ones no longer.
	unheld int64
	// running is the balance minus holds of the state including the current round.
	running int64
}

func newLedger(id string, shared bool) *ledger {
	l := &ledger{Account: account.New(id)}
	if shared {
		l.answers = newAnswers()
	}
	return l
}

// Apply applies an event that is on the stream or about to be appended.
func (l *ledger) Apply(ev eventschemas.Event, at time.Time) {
	l.Account.Apply(ev, at)
	l.answers.note(ev, at)
}

// Reset returns to the state before the first event. Reservations are kept, because they are in use.
func (l *ledger) Reset() { l.Account = account.New(l.Account.ID()) }

// Prelude releases overdue holds.
func (l *ledger) Prelude(now time.Time) []authored {
	out := l.ReleaseOverdue(now)
	l.expired = len(out.Events)
	var events []authored
	for _, ev := range out.Events {
		released, ok := ev.(eventschemas.HoldReleased)
		if !ok {
			continue
		}
		// The hold's request id is used, so that its ledger lines are found together.
		events = append(events, authored{event: ev, request: Request{ID: l.HoldRequest(released.HoldID), Actor: actorDesk}})
	}
	return events
}

// Finale returns nothing.
func (l *ledger) Finale() []authored { return nil }

// Publish publishes the account.
func (l *ledger) Publish(durable bool) {
	unheld := l.Unheld()
	if !durable {
		if spent := l.shown.running - unheld; spent > 0 {
			l.shown.unheld -= spent
		}
		l.shown.running = unheld
		return
	}
	month := l.LastAt()
	l.shown = shown{
		ready:     true,
		status:    l.Status(),
		plan:      l.Plan(),
		balance:   l.Balance(),
		held:      l.Held(),
		openHolds: l.OpenHolds(),
		month:     month,
		lookups:   l.Lookups(month),

		forgotKeysUntil: askForKeysUntil(l.Account),

		unheld:  unheld,
		running: unheld,
	}
}

// askForKeysUntil returns until when a command with an idempotency key asks the index for older
// charges. The period begins before the account forgets its first key, so that no command in progress
// at that moment is decided without them.
func askForKeysUntil(a *account.Account) time.Time {
	const margin = DefaultMaxQueue
	if a.KeysRemembered() > account.MaxIdempotencyKeys-margin {
		return a.LastAt().Add(account.IdempotencyWindow)
	}
	return a.ForgotKeysUntil()
}

// Withdraw marks the published account as unknown.
func (l *ledger) Withdraw() { l.shown = shown{} }

// Idle reports whether no credit is reserved.
func (l *ledger) Idle() bool { return l.reserved == 0 }

// canReserve reports whether the published state allows a reservation.
func (l *ledger) canReserve() bool {
	return l.shown.ready && l.shown.status == account.Active && l.shown.unheld-l.reserved >= 1
}

// besideOne returns the credits that the other reservations deny to the owner of one. It is less than
// their number if reserved credits are gone, spent by another node or refunded: the remaining credits
// then go to the first to pay, because counted against each other all owners would be refused.
func (l *ledger) besideOne() int64 {
	return max(min(l.reserved, l.Unheld())-lookupCredits, 0)
}
