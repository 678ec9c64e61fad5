package commands

import (
	"time"

	"letterhead/commands/streamwriter"
	"letterhead/domain/account"
	"letterhead/domain/plan"
	"letterhead/eventschemas"
)

// accountState is an account and the part of it that is read without queueing. The account belongs to
// the actor's goroutine; shown and reserved are guarded by the actor's lock.
type accountState struct {
	*account.Account

	shown    shown
	reserved int64            // credits of all reservations of this account writer, in memory
	ofKeys   map[string]int64 // those of them that count against the limit of a key
	answers  *answers         // nil unless other nodes answer, too

	expired int // overdue holds that the current group released
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
	limits    account.KeyLimits
	// forgotKeysUntil is when the account's own memory again covers every idempotency key that is still valid.
	forgotKeysUntil time.Time

	// unheld is the balance minus holds and minus credits spent in the current round: tentatively
	// granted credits cannot be reserved yet, tentatively spent ones no longer.
	unheld int64
	// running is the balance minus holds of the state including the current round.
	running int64
}

func newAccountState(id string, shared bool) *accountState {
	s := &accountState{Account: account.New(id)}
	if shared {
		s.answers = newAnswers()
	}
	return s
}

// Apply applies an event that is on the stream or about to be appended.
func (s *accountState) Apply(ev eventschemas.Event, at time.Time) {
	s.Account.Apply(ev, at)
	s.answers.note(ev, at)
}

// Reset returns to the state before the first event. Reservations are kept, because they are in use.
func (s *accountState) Reset() { s.Account = account.New(s.Account.ID()) }

// BeforeGroup releases overdue holds.
func (s *accountState) BeforeGroup(now time.Time) []streamwriter.Event {
	out := s.ReleaseOverdue(now)
	s.expired = len(out.Events)
	var events []streamwriter.Event
	for _, ev := range out.Events {
		released, ok := ev.(eventschemas.HoldReleased)
		if !ok {
			continue
		}
		// The hold's request id is used, so that its ledger lines are found together.
		events = append(events, streamwriter.Event{Event: ev,
			Request: Request{ID: s.HoldRequest(released.HoldID), Actor: actorAccountWriter}})
	}
	return events
}

// AfterGroup returns nothing.
func (s *accountState) AfterGroup() []streamwriter.Event { return nil }

func (s *accountState) Publish(durable bool) {
	unheld := s.Unheld()
	if !durable {
		if spent := s.shown.running - unheld; spent > 0 {
			s.shown.unheld -= spent
		}
		s.shown.running = unheld
		return
	}
	month := s.LastAt()
	s.shown = shown{
		ready:     true,
		status:    s.Status(),
		plan:      s.Plan(),
		balance:   s.Balance(),
		held:      s.Held(),
		openHolds: s.OpenHolds(),
		month:     month,
		lookups:   s.Lookups(month),
		limits:    s.KeyLimits(),

		forgotKeysUntil: askForKeysUntil(s.Account),

		unheld:  unheld,
		running: unheld,
	}
}

// askForKeysUntil returns until when a command with an idempotency key asks the index for older
// charges. The period begins before the account forgets its first key, so that no command in progress
// at that moment is decided without them.
func askForKeysUntil(a *account.Account) time.Time {
	const margin = streamwriter.DefaultMaxQueue
	if a.KeysRemembered() > account.MaxIdempotencyKeys-margin {
		return a.LastAt().Add(account.IdempotencyWindow)
	}
	return a.ForgotKeysUntil()
}

// Withdraw marks the published account as unknown.
func (s *accountState) Withdraw() { s.shown = shown{} }

// reserve adds credits of a reservation to those that are reserved, or removes them if they are less than zero.
func (s *accountState) reserve(r *Reservation, credits int64) {
	s.reserved += credits
	if !r.limited {
		return
	}
	if s.ofKeys == nil {
		s.ofKeys = map[string]int64{}
	}
	if s.ofKeys[r.keyID] += credits; s.ofKeys[r.keyID] == 0 {
		delete(s.ofKeys, r.keyID)
	}
}

// Idle reports whether no credit is reserved.
func (s *accountState) Idle() bool { return s.reserved == 0 }

// canReserve reports whether the published state allows a reservation of these credits.
func (s *accountState) canReserve(credits int64) bool {
	return s.shown.ready && s.shown.status == account.Active && s.shown.unheld-s.reserved >= credits
}

// reservedByOthers returns the credits that other reservations make unavailable to a caller that has reserved own
// credits. It never exceeds what is left, so that the first callers to pay succeed even if another node spent or a
// refund removed reserved credits.
func (s *accountState) reservedByOthers(own int64) int64 {
	return max(min(s.reserved, s.Unheld())-own, 0)
}
