package commands

import (
	"time"

	"letterhead/domain/account"
	"letterhead/domain/plan"
	"letterhead/eventschemas"
)

// ledger is an account with what the desk shows of it without queueing. The account belongs to the actor's
// goroutine; shown and reserved are guarded by the actor's lock.
type ledger struct {
	*account.Account

	shown    shown
	reserved int64    // credits set aside in memory, all of this desk's reservations
	answers  *answers // nil where no other node answers

	expired int // holds that the prelude of the round under way released
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
	// forgotKeysUntil is when the account's own memory is enough again for every idempotency key that counts.
	forgotKeysUntil time.Time

	// unheld is balance less holds, and less what the round under way has spent: what is granted tentatively
	// cannot be reserved yet, what is spent tentatively can no longer be.
	unheld int64
	// running is balance less holds of the state with the round under way in it.
	running int64
}

func newLedger(id string, shared bool) *ledger {
	l := &ledger{Account: account.New(id)}
	if shared {
		l.answers = newAnswers()
	}
	return l
}

// Apply applies an event that is on the stream or will be.
func (l *ledger) Apply(ev eventschemas.Event, at time.Time) {
	l.Account.Apply(ev, at)
	l.answers.note(ev, at)
}

// Reset goes back to before the first event. Reservations stay: their holders are at work.
func (l *ledger) Reset() { l.Account = account.New(l.Account.ID()) }

// Prelude releases the holds that are overdue.
func (l *ledger) Prelude(now time.Time) []authored {
	out := l.ReleaseOverdue(now)
	l.expired = len(out.Events)
	var events []authored
	for _, ev := range out.Events {
		released, ok := ev.(eventschemas.HoldReleased)
		if !ok {
			continue
		}
		// Under the request of the hold, so that its ledger lines are found together.
		events = append(events, authored{event: ev, request: Request{ID: l.HoldRequest(released.HoldID), Actor: actorDesk}})
	}
	return events
}

// Finale adds nothing.
func (l *ledger) Finale() []authored { return nil }

// Publish shows the account.
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

// askForKeysUntil returns until when a command with an idempotency key asks the index for older charges. It
// begins before the account forgets its first key, so that no command is decided without them that was under
// way at that moment.
func askForKeysUntil(a *account.Account) time.Time {
	const margin = DefaultMaxQueue
	if a.KeysRemembered() > account.MaxIdempotencyKeys-margin {
		return a.LastAt().Add(account.IdempotencyWindow)
	}
	return a.ForgotKeysUntil()
}

// Withdraw shows that nothing is known.
func (l *ledger) Withdraw() { l.shown = shown{} }

// Idle says that no credit is reserved.
func (l *ledger) Idle() bool { return l.reserved == 0 }

// canReserve says whether a credit can be set aside on what is shown.
func (l *ledger) canReserve() bool {
	return l.shown.ready && l.shown.status == account.Active && l.shown.unheld-l.reserved >= 1
}

// besideOne is what the other reservations keep from the holder of one. It is less than they are when credits
// that were reserved here are gone, spent by another node or refunded: what is left then goes to whoever pays
// first, because counted against each other all holders would be refused.
func (l *ledger) besideOne() int64 {
	return max(min(l.reserved, l.Unheld())-lookupCredits, 0)
}
