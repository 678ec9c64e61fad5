package commands

import (
	"encoding/hex"
	"errors"
	"strings"
	"testing"
	"time"

	"letterhead/commands/streamwriter"
	"letterhead/domain/account"
	"letterhead/eventschemas"
	"letterhead/internal/eventlog"
	"letterhead/internal/sqlstore"
	"letterhead/internal/testmust"
)

// appendAsIs appends events to an account that no decision would produce, with a valid chain.
func (w *world) appendAsIs(id string, events ...eventschemas.Event) {
	w.Helper()
	recs, _ := w.events(id)
	a := account.New(id)
	err := Chain.Read(w.Context(), w.log.Log, account.Stream(id), func(_ *eventlog.Recorded, head eventschemas.Hash) error {
		a.Link(head)
		return nil
	}, nil)
	testmust.Succeed(w, err)
	var proposed []eventlog.Proposed
	head := a.Head()
	for i, ev := range events {
		var p eventlog.Proposed
		p, head = linked(w, account.Stream(id), uint64(len(recs)+i), head, ev, w.request(), recs[len(recs)-1].OccurredAt)
		proposed = append(proposed, p)
	}
	w.ok(w.log.Log.Append(w.Context(), account.Stream(id), eventlog.After(uint64(len(recs))), proposed))
}

// linked returns an event that follows the head of a hash chain, and the new head.
func linked(t testing.TB, stream string, revision uint64, head eventschemas.Hash, ev eventschemas.Event, request Request, at time.Time) (eventlog.Proposed, eventschemas.Hash) {
	t.Helper()
	enc := testmust.Get(eventschemas.Encode(ev))(t)
	p := eventlog.Proposed{
		ID: eventschemas.EventID(stream, request.ID, enc.Type, ""), Type: enc.Type, SchemaVersion: enc.SchemaVersion, OccurredAt: at, Data: enc.Data,
		Metadata: eventlog.Metadata{RequestID: request.ID, Actor: request.Actor},
	}
	head = eventschemas.ChainLink{
		Stream: stream, Revision: revision, EventID: p.ID, Type: p.Type, SchemaVersion: p.SchemaVersion, OccurredAt: at,
		Actor: request.Actor, RequestID: request.ID, Data: p.Data,
	}.Next(head)
	p.Metadata.Hash = hex.EncodeToString(head[:])
	return p, head
}

func (w *world) audit(id string, claims ...Claim) (problems []string) {
	w.Helper()
	_, wrong, err := AuditAccount(w.Context(), w.log, id, claims, nil)
	testmust.Succeed(w, err)
	for _, err := range wrong {
		problems = append(problems, err.Error())
	}
	return problems
}

func wantProblem(t *testing.T, problems []string, want string) {
	t.Helper()
	if len(problems) != 1 || !strings.Contains(problems[0], want) {
		t.Errorf("the audit found %q, want one about %q", problems, want)
	}
}

// Rule 1.
func TestAudit_NegativeBalance_NeedsARefund(t *testing.T) {
	w := newWorld(t)
	d := w.writer(AccountWriterConfig{})
	refunded, overspent := w.opened(d, 100), w.opened(d, 0)
	for range 60 {
		w.charge(d, refunded)
	}
	_, events := w.events(refunded)
	payment := events[2].(eventschemas.CreditsGranted).PaymentID
	_, err := d.RefundPayment(t.Context(), RefundPayment{Request: w.request(), AccountID: refunded, RefundID: "refund", PaymentID: payment})
	if err != nil || w.standing(d, refunded).Balance != -10 {
		t.Fatalf("refund: %v", err)
	}
	if problems := w.audit(refunded); problems != nil {
		t.Errorf("a refund of spent credits: %q", problems)
	}
	w.drain(d)
	charge := func(id string) eventschemas.CreditsCharged {
		return eventschemas.CreditsCharged{ChargeID: id, Credits: 30, RequestID: id, BrandID: testBrand, Domain: "acme.com", RecordRevision: 1}
	}
	w.appendAsIs(overspent, charge("first"), charge("second"))
	wantProblem(t, w.audit(overspent), "CreditsCharged takes the balance to -10")
	w.appendAsIs(refunded, charge("below zero already"))
	wantProblem(t, w.audit(refunded), "CreditsCharged takes the balance to -40")
}

func TestAudit_Snapshots(t *testing.T) {
	kept := newMemorySnapshots()
	w, id := snapshotWorld(t, kept, 100)
	stream := account.Stream(id)
	good := kept.kept[stream]
	claims := func() []Claim {
		t.Helper()
		claims, err := SnapshotClaims(t.Context(), kept, id)
		if err != nil || len(claims) != 1 {
			t.Fatalf("%d claims, %v, want 1", len(claims), err)
		}
		return claims
	}
	if problems := w.audit(id, claims()...); problems != nil {
		t.Errorf("a good snapshot: %q", problems)
	}
	at := good.revision
	forged := good
	forged.state = []byte(strings.Replace(string(good.state), `"balance":`, `"balance":9`, 1))
	kept.kept[stream] = forged
	wantProblem(t, w.audit(id, claims()...), "balance is 9")
	forged.state = []byte(strings.Replace(string(good.state), `"holder":"holder"`, `"holder":"another"`, 1))
	kept.kept[stream] = forged
	wantProblem(t, w.audit(id, claims()...), "differs from a fold of the events")
	forged.state, forged.revision = good.state, 5000
	kept.kept[stream] = forged
	wantProblem(t, w.audit(id, claims()...), "past the stream's end")
	forged.revision = at - 1
	kept.kept[stream] = forged
	wantProblem(t, w.audit(id, claims()...), "its snapshot: ")

	kept.err = sqlstore.ErrSnapshotDamaged
	if claims, err := SnapshotClaims(t.Context(), kept, id); !errors.As(err, new(*AuditError)) || len(claims) != 0 {
		t.Errorf("a damaged snapshot: %d claims, %v", len(claims), err)
	}
	kept.err = errTest
	if _, err := SnapshotClaims(t.Context(), kept, id); !errors.Is(err, errTest) || errors.As(err, new(*AuditError)) {
		t.Errorf("unavailable database: %v", err)
	}
}

// The audit finds any part of a snapshot that contradicts the events, not only a wrong balance.
func TestAudit_SnapshotWithAChangedHoldOrKey_IsFound(t *testing.T) {
	kept := newMemorySnapshots()
	w, d, id := opened(t, 100)
	w.ok(d.HoldCredits(t.Context(), HoldCredits{Request: w.request(), AccountID: id, Domain: "acme.com", Work: time.Minute}))
	for range 3 {
		w.charge(d, id)
	}
	in := w.lookup(id)
	in.Once = onceOf(1, 1)
	w.ok(d.ChargeLookup(t.Context(), in))
	w.must(LeaveSnapshot(t.Context(), w.log, kept, id, nil))
	stream := account.Stream(id)
	good := kept.kept[stream]
	for what, change := range map[string][2]string{
		"nothing":         {"", ""},
		"open hold":       {`"deadline":"2`, `"deadline":"3`},
		"idempotency key": {`"request_hash":"`, `"request_hash":"0`},
		"recent charge":   {`"recent":[{"charge":"`, `"recent":[{"charge":"0`},
	} {
		forged := good
		forged.state = []byte(strings.Replace(string(good.state), change[0], change[1], 1))
		if what != "nothing" && string(forged.state) == string(good.state) {
			t.Fatalf("the snapshot has no %s: %s", what, good.state)
		}
		kept.kept[stream] = forged
		claims, err := SnapshotClaims(t.Context(), kept, id)
		if err != nil || len(claims) != 1 {
			t.Fatalf("%s: %d claims, %v, want 1", what, len(claims), err)
		}
		if problems := w.audit(id, claims...); what == "nothing" {
			if problems != nil {
				t.Errorf("a good snapshot: %q", problems)
			}
		} else {
			wantProblem(t, problems, "it differs from a fold of the events")
		}
	}
}

// A writer's snapshot equals the result of the audit's fold, whether the writer folded single events or groups, from
// the beginning or from a snapshot.
func TestAudit_SnapshotsOfBusyAccount_Agree(t *testing.T) {
	w := newWorld(t)
	for range 3 {
		kept := newMemorySnapshots()
		d := w.writer(AccountWriterConfig{Config: streamwriter.Config{SnapshotEvery: 1}}, kept)
		id := w.opened(d, 1000)
		w.runTogether(d, id, 200, func(i int) {
			in := w.lookup(id)
			switch i % 5 {
			case 0:
				in.Once = onceOf(byte(i%7), 1)
			case 1:
				if h, err := d.HoldCredits(t.Context(), HoldCredits{Request: w.request(), AccountID: id, Domain: "acme.com", Work: time.Minute}); err == nil {
					in.HoldID = h.ID
				}
			}
			receipt, err := d.ChargeLookup(t.Context(), in)
			if err == nil && i%11 == 0 {
				_, err = d.ReverseCharge(t.Context(), ReverseCharge{Request: w.request(), AccountID: id, ChargeID: receipt.ChargeID, Revision: receipt.Revision, Reason: account.ReasonOperator})
			}
			if err != nil && !errors.Is(err, account.ErrIdempotencyMismatch) {
				t.Error(err)
			}
		})
		w.drain(d)
		claims, err := SnapshotClaims(t.Context(), kept, id)
		if err != nil || len(claims) != 1 {
			t.Fatalf("%d claims, %v, want 1", len(claims), err)
		}
		if problems := w.audit(id, claims...); problems != nil {
			t.Errorf("problems = %q, want none", problems)
		}
	}
}

// A stream that is damaged or cannot be decoded is a finding; an unavailable log ends the audit.
func TestAudit_StreamThatCannotBeRead(t *testing.T) {
	w, _, id := opened(t, 0)
	w.log.set(func(f *faults) { f.reading = func(string) error { return eventlog.ErrCorrupt } })
	wantProblem(t, w.audit(id), "corrupt")
	w.log.set(func(f *faults) { f.reading = func(string) error { return unavailable() } })
	if _, _, err := AuditAccount(t.Context(), w.log, id, nil, nil); !errors.Is(err, eventlog.ErrUnavailable) {
		t.Error(err)
	}
}

func TestLeaveSnapshot_SavesWhatWriterLoads(t *testing.T) {
	kept := newMemorySnapshots()
	w, id := snapshotWorld(t, kept, 1000)
	left := newMemorySnapshots()
	testmust.Succeed(t, LeaveSnapshot(t.Context(), w.log, left, id, nil))
	if events, balance := w.readsOf(id, left); balance != 50 || events != 1 {
		t.Errorf("balance %d after reading %d events, want 50 and 1", balance, events)
	}
}
