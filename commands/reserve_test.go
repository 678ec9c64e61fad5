package commands

import (
	"context"
	"errors"
	"sync"
	"testing"

	"letterhead/domain/account"
	"letterhead/internal/testmust"
)

func TestReserve_UsesMemoryAndCountsOnce(t *testing.T) {
	w, d, id := openedWith(t, 3)
	appends, reads := w.log.appends.Load(), w.log.reads.Load()
	held := []*Reservation{w.reserve(d, id), w.reserve(d, id), w.reserve(d, id)}
	if a, r := w.log.appends.Load()-appends, w.log.reads.Load()-reads; a+r != 0 {
		t.Fatalf("three reservations took %d appends and %d reads", a, r)
	}
	_, err := d.Reserve(t.Context(), id, "")
	var e *account.InsufficientCreditsError
	if !errors.As(err, &e) || *e != (account.InsufficientCreditsError{Balance: 3, Available: 0, Required: 1}) {
		t.Fatalf("the fourth: %v", err)
	}
	w.fails(account.ErrInsufficientCredits)(d.ChargeLookup(t.Context(), w.lookup(id)))
	for range 3 {
		held[0].Drop() // the second call has no effect
	}
	if s := w.standing(d, id); s.Available != 1 || s.Balance != 3 {
		t.Fatalf("standing %+v, want available 1 and balance 3", s)
	}
	in := w.lookup(id)
	in.Reservation = held[1]
	w.ok(d.ChargeLookup(t.Context(), in))
	held[1].Drop() // used already: no effect
	h := testmust.Get(d.HoldCredits(t.Context(), HoldCredits{Request: w.request(), AccountID: id, Reservation: held[2], Domain: "acme.com"}))(t)
	if s := w.standing(d, id); s.Available != 1 || s.Balance != 2 || s.OpenHolds != 1 {
		t.Fatalf("standing %+v, want available 1, balance 2 and open holds 1", s)
	}
	w.must(d.ReleaseHold(t.Context(), ReleaseHold{Request: w.request(), AccountID: id, HoldID: h.ID}))
	if s := w.standing(d, id); s.Available != 2 {
		t.Fatalf("standing %+v, want available 2", s)
	}
}

func TestReservation_Spent_IsRejected(t *testing.T) {
	w := newWorld(t)
	d := w.writer(AccountWriterConfig{})
	id, other := w.openedWith(d, 5), w.openedWith(d, 5)
	used, dropped, foreign := w.reserve(d, id), w.reserve(d, id), w.reserve(d, other)
	in := w.lookup(id)
	in.Reservation = used
	w.ok(d.ChargeLookup(t.Context(), in))
	dropped.Drop()
	for name, r := range map[string]*Reservation{"used": used, "dropped": dropped, "another account's": foreign} {
		in := w.lookup(id)
		in.Reservation = r
		if _, err := d.ChargeLookup(t.Context(), in); !errors.Is(err, ErrReservationSpent) {
			t.Errorf("charge with a reservation that is %s: %v", name, err)
		}
		if _, err := d.HoldCredits(t.Context(), HoldCredits{Request: w.request(), AccountID: id, Reservation: r, Domain: "acme.com"}); !errors.Is(err, ErrReservationSpent) {
			t.Errorf("hold with a reservation that is %s: %v", name, err)
		}
	}
	foreign.Drop()
	for _, account := range []string{id, other} {
		if s := w.standing(d, account); s.Available != s.Balance {
			t.Errorf("credits are still reserved: %+v", s)
		}
	}
	var none *Reservation
	none.Drop()
}

func TestReservation_AnyOutcome_IsConsumed(t *testing.T) {
	w, d, id := openedWith(t, 5)
	in := w.lookup(id)
	in.HoldID, in.Reservation = "unknown", w.reserve(d, id)
	w.fails(account.ErrUnknownHold)(d.ChargeLookup(t.Context(), in))
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	in.Reservation = w.reserve(d, id)
	w.fails(context.Canceled)(d.ChargeLookup(gone, in))
	w.log.set(func(f *faults) { f.before = func(sentAppend) error { return unavailable() } })
	in.HoldID, in.Reservation = "", w.reserve(d, id)
	if _, err := d.ChargeLookup(t.Context(), in); err == nil {
		t.Fatal("charged without a log")
	}
	w.log.set(func(f *faults) { f.before = nil })
	if s := w.standing(d, id); s.Available != 5 {
		t.Fatalf("standing %+v, want available 5", s)
	}
}

// A reservation survives everything that happens on the account: a charge with it never fails for lack of credits
// unless another node spends them.
func TestReservation_ConcurrentGrantsAndCharges_CanAlwaysPay(t *testing.T) {
	w := newWorld(t)
	d := w.writer(AccountWriterConfig{})
	const credits = 50
	id := w.openedWith(d, credits)
	var wg sync.WaitGroup
	var mu sync.Mutex
	paid := 0
	for range 40 {
		wg.Go(func() {
			for {
				r, err := d.Reserve(context.Background(), id, "")
				if errors.Is(err, account.ErrInsufficientCredits) {
					return
				}
				if err != nil {
					t.Error(err)
					return
				}
				in := w.lookup(id)
				in.Reservation = r
				if _, err := d.ChargeLookup(context.Background(), in); err != nil {
					t.Errorf("charge with a reservation: %v", err)
					return
				}
				mu.Lock()
				paid++
				mu.Unlock()
			}
		})
		wg.Go(func() { // spends without a reservation, and must not take reserved credits
			_, err := d.ChargeLookup(context.Background(), w.lookup(id))
			if err != nil && !errors.Is(err, account.ErrInsufficientCredits) {
				t.Error(err)
			}
			mu.Lock()
			defer mu.Unlock()
			if err == nil {
				paid++
			}
		})
	}
	wg.Wait()
	if l := w.ledger(id); paid != credits || l.balance != 0 || l.minimum < 0 {
		t.Fatalf("%d paid, balance %d", paid, l.balance)
	}
}

// A grant that is not durable yet cannot be reserved: if its append fails, the reservation would
// promise a credit that never existed.
func TestReserve_TentativeGrant_IsNotAvailable(t *testing.T) {
	w, d, id := openedWith(t, 1)
	g := newGate()
	w.log.set(func(f *faults) {
		f.before = func(sentAppend) error {
			g.pass()
			return unavailable()
		}
	})
	granted := make(chan error)
	go func() {
		_, err := d.GrantCredits(context.Background(), GrantCredits{Request: w.request(), AccountID: id, Kind: "topup", Credits: 5, PaymentID: "p"})
		granted <- err
	}()
	<-g.reached
	r := w.reserve(d, id) // the durable credit
	if s := w.standing(d, id); s.Balance != 1 || s.Available != 0 {
		t.Errorf("standing while the grant is tentative: %+v, want balance 1 and available 0", s)
	}
	rejected := make(chan error)
	go func() {
		_, err := d.Reserve(context.Background(), id, "")
		rejected <- err
	}()
	w.awaitQueued(d, id, 1) // it does not take the fast path
	w.log.set(func(f *faults) { f.before = nil })
	close(g.open)
	if err := <-granted; err == nil {
		t.Error("granted without a log")
	}
	if err := <-rejected; !errors.Is(err, account.ErrInsufficientCredits) {
		t.Errorf("reserve: %v", err)
	}
	r.Drop()
}

// A charge that is not durable yet has already taken its credit.
func TestReserve_TentativeCharge_IsNotAvailable(t *testing.T) {
	w, d, id := openedWith(t, 1)
	g := w.blockAppend()
	charged := make(chan error)
	go func() {
		_, err := d.ChargeLookup(context.Background(), w.lookup(id))
		charged <- err
	}()
	<-g.reached
	rejected := make(chan error)
	go func() {
		_, err := d.Reserve(context.Background(), id, "")
		rejected <- err
	}()
	w.awaitQueued(d, id, 1)
	close(g.open)
	if err := <-charged; err != nil {
		t.Error(err)
	}
	if err := <-rejected; !errors.Is(err, account.ErrInsufficientCredits) {
		t.Errorf("reserve: %v", err)
	}
}

func TestReserve_CallerLeft_FreesCredits(t *testing.T) {
	w, _, id := openedWith(t, 1)
	fresh := w.writer(AccountWriterConfig{}) // must load first
	g := newGate()
	w.log.set(func(f *faults) {
		f.reading = func(string) error {
			g.pass()
			return nil
		}
	})
	ctx, cancel := context.WithCancel(t.Context())
	left := make(chan error)
	go func() {
		_, err := fresh.Reserve(ctx, id, "")
		left <- err
	}()
	<-g.reached
	cancel()
	if err := <-left; !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	w.log.set(func(f *faults) { f.reading = nil })
	close(g.open)
	w.reserve(fresh, id).Drop()
	if s := w.standing(fresh, id); s.Available != 1 {
		t.Fatalf("standing %+v, want available 1", s)
	}
}

// Another node has spent reserved credits: of three credits one is left for two reservations. The first to pay gets it.
// If the reservations counted against each other, neither could pay despite a credit on the account.
func TestReservations_CreditsSpentElsewhere_FirstToPayGetsTheRest(t *testing.T) {
	for name, pay := range map[string]func(w *world, d *AccountWriter, id string, r *Reservation) error{
		"by a charge": func(w *world, d *AccountWriter, id string, r *Reservation) error {
			in := w.lookup(id)
			in.Reservation = r
			_, err := d.ChargeLookup(t.Context(), in)
			return err
		},
		"by a hold": func(w *world, d *AccountWriter, id string, r *Reservation) error {
			_, err := d.HoldCredits(t.Context(), HoldCredits{Request: w.request(), AccountID: id, Reservation: r, Domain: "acme.com"})
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			here, there := twoNodes(w)
			id := w.openedWith(here, 3)
			first, second := w.reserve(here, id), w.reserve(here, id)
			w.charge(there, id)
			w.charge(there, id)
			if err := here.Confirm(t.Context(), first); err != nil {
				t.Errorf("with a credit on the account: %v", err)
			}
			if err := pay(w, here, id, first); err != nil {
				t.Errorf("with a credit on the account: %v", err)
			}
			w.failed(here.Confirm(t.Context(), second), account.ErrInsufficientCredits)
			w.failed(pay(w, here, id, second), account.ErrInsufficientCredits)
			w.fails(account.ErrInsufficientCredits)(here.Reserve(t.Context(), id, ""))
		})
	}
}
