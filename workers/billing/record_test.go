package billing_test

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"letterhead/commands"
	"letterhead/commands/streamwriter"
	domain "letterhead/domain/billing"
	"letterhead/domain/notices"
	"letterhead/domain/plan"
	"letterhead/eventschemas"
	"letterhead/internal/eventlog"
	"letterhead/internal/eventlog/sqlite"
	"letterhead/internal/sqlstore"
	"letterhead/internal/testmust"
	"letterhead/internal/testwait"
	"letterhead/workers/billing"
)

// stores is a real log with the commands on it.
type stores struct {
	log      *sqlite.Log
	accounts *commands.AccountWriter
	notices  *commands.Notices
	billing  *commands.Billing
}

func openStores(t *testing.T) *stores {
	t.Helper()
	log := testmust.Get(sqlite.Open(t.Context(), sqlite.Config{Path: filepath.Join(t.TempDir(), "events.db")}))(t)
	store := testmust.Get(sqlstore.Open(t.Context(), sqlstore.Config{Path: filepath.Join(t.TempDir(), "letterhead.db")}))(t)
	snapshots, err := sqlstore.NewSnapshots(t.Context(), store)
	testmust.Succeed(t, err)
	now := func() time.Time { return start }
	s := &stores{log: log, billing: commands.NewBilling(log, eventschemas.Encoder{}, now)}
	if s.accounts, err = commands.NewAccountWriter(commands.AccountWriterConfig{Config: streamwriter.Config{Now: now}}, log, snapshots); err != nil {
		t.Fatal(err)
	}
	s.notices = commands.NewNotices(log, eventschemas.Encoder{}, now, s.accounts, nil)
	t.Cleanup(func() {
		if err := errors.Join(s.accounts.Drain(context.Background()), store.Close(), log.Close()); err != nil {
			t.Error(err)
		}
	})
	by := commands.Request{ID: "r", Actor: "operator:test"}
	testmust.Succeed(t, testmust.Err(s.accounts.OpenAccount(t.Context(), commands.OpenAccount{Request: by, AccountID: acme, Holder: "h", Plan: plan.Free})))
	return s
}

// open returns the reports that were not applied.
func (s *stores) open(t *testing.T) []*domain.Entry {
	t.Helper()
	page := testmust.Get(s.log.ReadAll(t.Context(), 0, billing.Filter, eventlog.MaxPage))(t)
	state := domain.NewState()
	for i := range page.Events {
		testmust.Succeed(t, billing.Fold(state, &page.Events[i]))
	}
	return state.Open()
}

func (s *stores) balance(t *testing.T) int64 {
	t.Helper()
	standing := testmust.Get(s.accounts.Standing(t.Context(), acme))(t)
	return standing.Balance
}

// TestRun_TwoWorkers_ApplyOnce runs two workers on one log, as after a change of the leader.
func TestRun_TwoWorkers_ApplyOnce(t *testing.T) {
	s := openStores(t)
	before, by := s.balance(t), commands.Request{ID: "r1", Actor: "system:stripe"}
	metrics := prometheus.NewRegistry()
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 2)
	for i := range 2 {
		cfg := billing.Config{Catalog: catalog(t, offers)}
		if i == 0 {
			cfg.Registerer = metrics
		}
		w := testmust.Get(billing.New(cfg, s.log, s.accounts, s.notices, s.billing))(t)
		go func() { ended <- w.Run(ctx) }()
	}
	for range 2 {
		for _, e := range []stripeEvent{
			refunded("evt_2", "re_1", "pi_1", "succeeded", 490, 1), packSession("evt_1", "paid", 0, "checkout.session.completed"),
			{"evt_3", "treasury.transaction.created", "{}", 0}, refunded("evt_4", "re_9", "pi_9", "succeeded", 490, 1),
			{"evt_5", "invoice.payment_failed", `{"id":"in_1","billing_reason":"subscription_cycle","attempt_count":1,"parent":{"subscription_details":{"metadata":{"account_id":"` + acme + `"}}}}`, 0},
		} {
			testmust.Succeed(t, s.billing.Record(t.Context(), by, e.report(t)))
		}
	}
	await(t, "the events are applied", func() bool {
		return len(s.open(t)) == 2 && s.balance(t) == before+450
	})
	await(t, "the metrics show the open events", func() bool {
		return strings.Contains(exposed(t, metrics), `letterhead_billing_open{state="inbox"} 1`) && strings.Contains(exposed(t, metrics), `letterhead_billing_open{state="waiting"} 1`)
	})
	stop()
	for range 2 {
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}
	failed, err := s.log.ReadStream(t.Context(), notices.Stream(acme), 0, eventlog.Forward, 10)
	if err != nil || len(failed) != 1 || failed[0].Type != (eventschemas.PaymentFailed{}).EventType() {
		t.Errorf("the stream of notices has the events %+v, %v, want one failed payment", failed, err)
	}
}

func TestRecord_AndReopen(t *testing.T) {
	s := openStores(t)
	by := commands.Request{ID: "r1", Actor: "operator:test"}
	record := func(r eventschemas.BillingReported) error { return s.billing.Record(t.Context(), by, r) }
	revisions := func(id string) int {
		events := testmust.Get(s.log.ReadStream(t.Context(), domain.Stream("stripe", id), 0, eventlog.Forward, 100))(t)
		return len(events)
	}
	for _, bad := range []eventschemas.BillingReported{
		{}, {Processor: "Stripe", EventID: "e"}, {Processor: "stripe"}, {Processor: "stripe", EventID: "a b"}, {Processor: "stripe", EventID: "e", Kind: "gift"},
		{Processor: "stripe", EventID: "e", Kind: "payment", GrantKind: "topup"}, {Processor: "stripe", EventID: "e", Kind: "payment", PaymentID: "p", GrantKind: "free"},
		{Processor: "stripe", EventID: "e", Kind: "payment", PaymentID: "p", GrantKind: "topup", Credits: -1},
		{Processor: "stripe", EventID: "e", Kind: "failure"}, {Processor: "stripe", EventID: "e", Kind: "failure", PaymentID: "p", Attempt: -1},
		{Processor: "stripe", EventID: "e", Kind: "refund", PaymentID: "p", Subject: "r", State: "succeeded"},
		{Processor: "stripe", EventID: "e", Kind: "payment", PaymentID: "p", GrantKind: "topup", Prices: []eventschemas.BillingPrice{{Quantity: 1}}},
	} {
		if err := record(bad); !errors.Is(err, commands.ErrInvalidReport) {
			t.Errorf("%+v: %v, want ErrInvalidReport", bad, err)
		}
	}
	// A report that is understood replaces one that was not, once.
	unknown := eventschemas.BillingReported{Processor: "stripe", EventID: "evt_1", Type: "x", Problem: "unknown", CreatedAt: start}
	known := stripeEvent{"evt_1", "refund.updated", refunded("", "re_1", "pi_1", "succeeded", 1, 0).object, 0}.report(t)
	for i, r := range []eventschemas.BillingReported{unknown, unknown, known, known, unknown} {
		testmust.Succeed(t, record(r))
		if got, want := revisions("evt_1"), []int{1, 1, 2, 2, 2}[i]; got != want {
			t.Errorf("after report %d the stream has %d events, want %d", i, got, want)
		}
	}
	if err := s.billing.Reopen(t.Context(), by, domain.Stream("stripe", "evt_9")); !errors.Is(err, commands.ErrUnknownReport) {
		t.Errorf("Reopen of an unknown event: %v", err)
	}
	stream := domain.Stream("stripe", "evt_1")
	testmust.Succeed(t, s.billing.Settle(t.Context(), by, stream, 2, eventschemas.BillingSettled{Outcome: domain.Inbox, Reason: "why"}))
	testmust.Succeed(t, s.billing.Reopen(t.Context(), by, stream))
	testmust.Succeed(t, s.billing.Settle(t.Context(), by, stream, 4, eventschemas.BillingSettled{Outcome: domain.Applied}))
	if err := s.billing.Dismiss(t.Context(), by, stream, "why"); !errors.Is(err, commands.ErrReportDone) {
		t.Errorf("Dismiss of an applied event: %v", err)
	}
	if err := s.billing.Reopen(t.Context(), by, stream); !errors.Is(err, commands.ErrReportDone) {
		t.Errorf("Reopen of an applied event: %v", err)
	}
}

// TestRecord_CopyWithoutProblem_ReplacesProblem records an event of another version of Stripe's API, whose problem was
// reopened many times, and then the same event without a problem.
func TestRecord_CopyWithoutProblem_ReplacesProblem(t *testing.T) {
	by := commands.Request{ID: "r1", Actor: "system:stripe"}
	stream := domain.Stream("stripe", "evt_1")
	good := packSession("evt_1", "paid", 0, "checkout.session.completed").report(t)
	problem := good
	problem.Problem = "the event has another API version"
	for _, reopened := range []int{0, 20} {
		s := openStores(t)
		record := func(r eventschemas.BillingReported) {
			t.Helper()
			testmust.Succeed(t, s.billing.Record(t.Context(), by, r))
		}
		stored := func() (all []eventschemas.Event) {
			t.Helper()
			events := testmust.Get(s.log.ReadStream(t.Context(), stream, 0, eventlog.Forward, 100))(t)
			for i := range events {
				ev := testmust.Get(eventlog.Decode(&events[i], eventschemas.Decode))(t)
				all = append(all, ev)
			}
			return all
		}
		record(problem)
		for i := range reopened {
			if err := errors.Join(
				s.billing.Settle(t.Context(), by, stream, uint64(2*i+1), eventschemas.BillingSettled{Outcome: domain.Inbox, Reason: problem.Problem}),
				s.billing.Reopen(t.Context(), by, stream),
			); err != nil {
				t.Fatal(err)
			}
		}
		record(problem)
		record(good)
		record(good)
		record(problem)
		all := stored()
		if last, ok := all[len(all)-1].(eventschemas.BillingReported); !ok || last.Problem != "" || len(all) != 2*reopened+2 {
			t.Errorf("reopened %d times: %d events, the last one %+v, want one report without a problem", reopened, len(all), all[len(all)-1])
		}
	}

	// An event that an operator applied as far as it could be read is done.
	s := openStores(t)
	if err := errors.Join(s.billing.Record(t.Context(), by, problem), s.billing.Settle(t.Context(), by, stream, 1, eventschemas.BillingSettled{Outcome: domain.Applied}),
		s.billing.Record(t.Context(), by, good)); err != nil {
		t.Fatal(err)
	}
	if events, err := s.log.ReadStream(t.Context(), stream, 0, eventlog.Forward, 10); err != nil || len(events) != 2 {
		t.Errorf("an event that is done has %d events, want 2; %v", len(events), err)
	}
}

func await(t *testing.T, what string, so func() bool) {
	t.Helper()
	if _, ok := testwait.Until(time.Minute, so); !ok {
		t.Fatalf("not in time: %s", what)
	}
}

func exposed(t *testing.T, g prometheus.Gatherer) string {
	t.Helper()
	families := testmust.Get(g.Gather())(t)
	var b strings.Builder
	for _, f := range families {
		for _, m := range f.GetMetric() {
			for _, l := range m.GetLabel() {
				fmt.Fprintf(&b, "%s{%s=%q} %v\n", f.GetName(), l.GetName(), l.GetValue(), m.GetGauge().GetValue())
			}
		}
	}
	return b.String()
}
