// Package timeline folds the events of an account and remembers its state after each of them, in a few bytes per event.
//
// The states come from the folds in the packages account and books. The package uses no clock: they are a function of
// the events.
package timeline

import (
	"encoding/binary"
	"slices"
	"time"

	"letterhead/domain/account"
	"letterhead/domain/books"
	"letterhead/domain/plan"
	"letterhead/eventschemas"
)

const (
	// headEvery is the number of events between two places of which the head of the hash chain is remembered.
	headEvery = 256
	// foldEntry is about the size of an entry in the states of the folds.
	foldEntry = 256
)

// Timeline is the states of one account. It is not safe for concurrent use.
type Timeline struct {
	account *account.Account
	books   *books.Account
	opened  time.Time // when the first event occurred
	heads   []eventschemas.Hash

	balance, held, deficit rows // revision, credits
	lots                   []rows
	statuses               []change[account.Status]
	plans                  []change[plan.ID]
	months                 []Month
	keys                   []Key
	keyAt                  map[string]int

	holds  rows              // revision, the hold's revision, the remaining credits
	placed rows              // revision, deadline in microseconds, place in texts
	open   map[string]uint64 // revisions of the open holds
	texts  []byte            // domain and request of each hold, each after its length

	parts []Part // that Parts returned last
}

// change is a value from a revision on.
type change[T comparable] struct {
	revision uint64
	value    T
}

// Moment is an account after an event.
type Moment struct {
	Revision uint64
	Status   account.Status
	Plan     plan.ID
	Balance  int64
	Held     int64
	Deficit  int64  // charged credits that no lot covers
	Holds    []Hold // open ones, the latest first
	Keys     []Key  // those that were not revoked, in the order of issue; some may have expired
	Revoked  int    // number of revoked keys
	Lots     []Lot  // in the order of their grants
}

// Hold is an open hold.
type Hold struct {
	Revision  uint64 // of the event that placed it
	Left      int64  // credits
	Deadline  time.Time
	Domain    string
	RequestID string
}

// Key is a key that was issued.
type Key struct {
	ID, Kind, Last4 string
	IssuedAt        time.Time
	account.KeyTerms
	issued, revoked uint64 // revisions; the latter is 0 before
}

// Lot is the credits of a grant.
type Lot struct {
	Revision  uint64 // of the grant
	At        time.Time
	Kind      string // of the grant
	PaymentID string // empty without a payment
	Granted   int64
	Left      int64
}

// New returns the timeline of an account without events.
func New(accountID string) *Timeline {
	return &Timeline{account: account.New(accountID), books: books.New(), keyAt: map[string]int{},
		open: map[string]uint64{}}
}

// Next returns the revision of the next event.
func (t *Timeline) Next() uint64 { return t.account.Revisions() }

// Head returns the hash of the last event.
func (t *Timeline) Head() eventschemas.Hash { return t.account.Head() }

// Opened and LastAt return when the first and the last event occurred.
func (t *Timeline) Opened() time.Time { return t.opened }

// LastAt returns when the last event occurred.
func (t *Timeline) LastAt() time.Time { return t.account.LastAt() }

// Before returns the last place at or before a revision of which the head of the hash chain is remembered: the revision
// of the event that follows there, and the head before it. The revision must be below Next.
func (t *Timeline) Before(revision uint64) (from uint64, head eventschemas.Hash) {
	i := revision / headEvery
	return i * headEvery, t.heads[i]
}

// Size returns about how many bytes the timeline has in memory.
func (t *Timeline) Size() int {
	size := (t.account.Remembered()+t.books.Remembered()+len(t.keys)+len(t.months))*foldEntry +
		cap(t.heads)*len(eventschemas.Hash{}) + cap(t.texts)
	for _, r := range []*rows{&t.balance, &t.held, &t.deficit, &t.holds, &t.placed} {
		size += r.size()
	}
	for i := range t.lots {
		size += t.lots[i].size()
	}
	return size
}

// Apply folds the next event, whose hash is the new head of the chain.
func (t *Timeline) Apply(ev eventschemas.Event, at time.Time, head eventschemas.Hash) {
	revision := t.Next()
	if revision == 0 {
		t.opened = at.UTC()
	}
	if revision%headEvery == 0 {
		t.heads = append(t.heads, t.Head())
	}
	t.account.Apply(ev, at)
	t.account.Link(head)
	t.balance.set(revision, t.account.Balance())
	t.held.set(revision, t.account.Held())
	t.statuses = changed(t.statuses, revision, t.account.Status())
	t.plans = changed(t.plans, revision, t.account.Plan())
	if start := books.MonthOf(at); len(t.months) == 0 || t.months[len(t.months)-1].Start != start {
		t.months = append(t.months, Month{Start: start, First: revision})
	}
	month := &t.months[len(t.months)-1]
	month.Last, month.Balance = revision, t.account.Balance()
	t.applyLots(t.books.Apply(ev, revision, at), revision)
	switch ev := ev.(type) {
	case eventschemas.CreditsHeld:
		t.place(ev, revision)
		t.follow(ev.HoldID, revision)
	case eventschemas.CreditsCharged:
		t.follow(ev.HoldID, revision)
	case eventschemas.HoldReleased:
		t.follow(ev.HoldID, revision)
	case eventschemas.KeyIssued:
		t.issue(ev, revision, at)
	case eventschemas.KeyRevoked:
		if i, ok := t.keyAt[ev.KeyID]; ok && t.keys[i].revoked == 0 {
			t.keys[i].revoked = revision
		}
	}
}

func changed[T comparable](all []change[T], revision uint64, value T) []change[T] {
	if len(all) > 0 && all[len(all)-1].value == value {
		return all
	}
	return append(all, change[T]{revision, value})
}

func valueAt[T comparable](all []change[T], revision uint64) (value T) {
	for _, c := range all {
		if c.revision > revision {
			break
		}
		value = c.value
	}
	return value
}

func (t *Timeline) applyLots(effect books.Effect, revision uint64) {
	lots := t.books.Lots()
	for len(t.lots) < len(lots) {
		t.lots = append(t.lots, rows{})
		t.lots[len(t.lots)-1].set(revision, lots[len(t.lots)-1].Unspent())
	}
	for _, use := range effect.Uses {
		t.lots[use.Lot].set(revision, lots[use.Lot].Unspent())
	}
	if effect.Lot >= 0 {
		t.lots[effect.Lot].set(revision, lots[effect.Lot].Unspent())
	}
	t.deficit.set(revision, t.books.Deficit())
}

func (t *Timeline) place(ev eventschemas.CreditsHeld, revision uint64) {
	if before, ok := t.open[ev.HoldID]; ok { // no decision places a hold twice
		t.holds.add(row{int64(revision), int64(before), 0})
	}
	t.open[ev.HoldID] = revision
	t.placed.add(row{int64(revision), ev.Deadline.UnixMicro(), int64(len(t.texts))})
	for _, text := range []string{ev.Domain, ev.RequestID} {
		t.texts = append(binary.AppendUvarint(t.texts, uint64(len(text))), text...)
	}
}

// follow remembers what is left of a hold that was changed.
func (t *Timeline) follow(holdID string, revision uint64) {
	placed, ok := t.open[holdID]
	if !ok {
		return
	}
	left := t.account.HoldLeft(holdID)
	t.holds.add(row{int64(revision), int64(placed), left})
	if left == 0 {
		delete(t.open, holdID)
	}
}

func (t *Timeline) issue(ev eventschemas.KeyIssued, revision uint64, at time.Time) {
	k := Key{ID: ev.KeyID, Kind: ev.Kind, Last4: ev.Last4, IssuedAt: at.UTC(),
		KeyTerms: account.KeyTerms{Scopes: ev.Scopes, Origins: ev.Origins}, issued: revision}
	if ev.ExpiresAt != nil {
		k.ExpiresAt = ev.ExpiresAt.UTC()
	}
	t.keyAt[ev.KeyID] = len(t.keys)
	t.keys = append(t.keys, k)
}

// Balance returns the balance after the event with a revision.
func (t *Timeline) Balance(revision uint64) int64 { return t.balance.at(revision)[1] }

// Held returns the credits that were held after the event with a revision.
func (t *Timeline) Held(revision uint64) int64 { return t.held.at(revision)[1] }

// Part is consecutive revisions.
type Part struct {
	Revision  uint64 // the first one
	Balance   int64  // after it
	Low, High int64  // the lowest and the highest balance
}

// Parts divides the revisions into at most n parts of the same length, and one of the last revision. There must be an
// event. The caller must not change them.
func (t *Timeline) Parts(n uint64) []Part {
	last := t.Next() - 1
	n = min(n, last)
	if k := len(t.parts); uint64(k) == n+1 && t.parts[k-1].Revision == last {
		return t.parts // decoding all balances of 1,000,000 events takes 0.1 s
	}
	parts := make([]Part, n+1)
	for i := range parts {
		revision := last * uint64(i) / max(n, 1)
		balance := t.Balance(revision)
		parts[i] = Part{revision, balance, balance, balance}
	}
	i := uint64(0)
	for block := range t.balance.blocks {
		for x := range t.balance.read(block) {
			for i < n && parts[i+1].Revision <= uint64(x[0]) {
				i++
			}
			parts[i].Low, parts[i].High = min(parts[i].Low, x[1]), max(parts[i].High, x[1])
		}
	}
	t.parts = parts
	return parts
}

// Month is a month in which events occurred.
type Month struct {
	Start       time.Time
	First, Last uint64 // revisions
	Balance     int64  // at its end
}

// Months returns the months in which events occurred. The caller must not change them.
func (t *Timeline) Months() []Month { return t.months }

// At returns the account after the event with a revision, which must be below Next.
func (t *Timeline) At(revision uint64) Moment {
	m := Moment{
		Revision: revision, Status: valueAt(t.statuses, revision), Plan: valueAt(t.plans, revision),
		Balance: t.Balance(revision), Held: t.Held(revision), Deficit: t.deficit.at(revision)[1],
		Holds: t.holdsAt(revision),
	}
	for _, k := range t.keys {
		switch {
		case k.issued > revision:
		case k.revoked != 0 && k.revoked <= revision:
			m.Revoked++
		default:
			m.Keys = append(m.Keys, k)
		}
	}
	lots := t.books.Lots()
	for i := range lots {
		if l := &lots[i]; l.Revision <= revision {
			m.Lots = append(m.Lots,
				Lot{l.Revision, l.At.UTC(), l.Kind, l.PaymentID, l.Granted, t.lots[i].at(revision)[1]})
		}
	}
	return m
}

// holdsAt walks back from a revision until the open holds account for all credits that were held.
func (t *Timeline) holdsAt(revision uint64) (open []Hold) {
	held, seen := t.Held(revision), map[int64]bool{}
	if held == 0 {
		return nil
	}
	for x := range t.holds.back(revision) {
		placed, left := x[1], x[2]
		if seen[placed] {
			continue
		}
		seen[placed] = true
		if left == 0 {
			continue
		}
		h := Hold{Revision: uint64(placed), Left: left}
		details := t.placed.at(h.Revision)
		h.Deadline = time.UnixMicro(details[1]).UTC()
		h.Domain, h.RequestID = t.text(details[2])
		open = append(open, h)
		if held -= left; held == 0 {
			break
		}
	}
	slices.SortFunc(open, func(a, b Hold) int { return int(b.Revision) - int(a.Revision) })
	return open
}

// text returns the texts of a hold.
func (t *Timeline) text(place int64) (domain, request string) {
	data := t.texts[place:]
	next := func() string {
		length, n := binary.Uvarint(data)
		text := string(data[n : n+int(length)])
		data = data[n+int(length):]
		return text
	}
	return next(), next()
}
