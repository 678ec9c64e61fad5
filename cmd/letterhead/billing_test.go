package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	domain "letterhead/domain/billing"
	"letterhead/eventschemas"
	"letterhead/internal/resvg/resvgtest"
	"letterhead/internal/testmust"
	"letterhead/internal/testwait"
	"letterhead/node"
	"letterhead/node/datafolder"
	"letterhead/projections/inbox"
	"letterhead/projections/payments"
	"letterhead/workers/billing"
)

func openNode(t *testing.T, folder string) *node.Node {
	t.Helper()
	lock := testmust.Get(datafolder.Acquire(folder, datafolder.MustExist, version))(t)
	n := testmust.Get(node.Open(t.Context(), settingsOf(t, folder), lock, node.Options{Release: version, Logs: io.Discard, LogLevel: "error"}))(t)
	return n
}

func TestBillingInbox_ListsShowsReplaysAndDismisses(t *testing.T) {
	folder, account := openAccount(t)
	n := openNode(t, folder)
	for id, report := range map[string]eventschemas.BillingReported{
		"evt_unknown": {Problem: "events of this type are unknown"},
		"evt_refund":  {Kind: domain.KindRefund, Subject: "re_1", State: "succeeded", PaymentID: "pi_1", Money: &eventschemas.Money{Minor: 1, Currency: "EUR"}},
	} {
		report.Processor, report.EventID, report.Type = domain.Stripe, id, "test"
		testmust.Succeed(t, n.Writers.Billing.Record(t.Context(), n.Operator(), report))
	}
	unknown := domain.Stream(domain.Stripe, "evt_unknown")
	testmust.Succeed(t, n.Writers.Billing.Settle(t.Context(), n.Operator(), unknown, 1, eventschemas.BillingSettled{Outcome: domain.Inbox, Reason: "why not"}))
	testmust.Succeed(t, n.Close())
	states := func() map[string]string {
		all := map[string]string{}
		for line := range strings.Lines(output(t, folder, "billing", "inbox", "--json")) {
			var e inbox.Report
			testmust.Succeed(t, json.Unmarshal([]byte(line), &e))
			all[e.EventID] = e.State + " " + e.Reason
		}
		return all
	}
	if got := states(); len(got) != 2 || got["evt_unknown"] != "inbox why not" || got["evt_refund"] != "waiting its payment pi_1 was not granted yet" {
		t.Errorf("the inbox is %v", got)
	}
	if table := output(t, folder, "billing", "inbox"); !strings.Contains(table, "why not") || !strings.HasPrefix(table, "EVENT") {
		t.Errorf("the inbox is printed as\n%s", table)
	}
	if shown := output(t, folder, "billing", "inbox", "show", "stripe:evt_unknown"); !strings.Contains(shown, "BillingReported") || !strings.Contains(shown, "why not") {
		t.Errorf("the event is printed as\n%s", shown)
	}
	if said := output(t, folder, "billing", "inbox", "replay", "--all"); !strings.HasPrefix(said, "1 event(s)") {
		t.Errorf("replay prints %q", said)
	}
	if got := states()["evt_unknown"]; got != "new " {
		t.Errorf("after replay the event is %q", got)
	}
	output(t, folder, "billing", "inbox", "dismiss", "evt_unknown", "--reason", "test")
	output(t, folder, "billing", "link", "--customer", "cus_1", "--account", account)
	if got := states(); len(got) != 2 || got["evt_unknown"] != "" {
		t.Errorf("after dismissing one and linking a customer the inbox is %v", got)
	}
	for args, want := range map[string]string{
		"billing inbox replay evt_unknown":                                  "applied or dismissed already",
		"billing inbox replay evt_9":                                        "no report stripe:evt_9",
		"billing inbox dismiss evt_9":                                       "no report stripe:evt_9",
		"billing inbox show evt_9":                                          "no report stripe:evt_9",
		"billing inbox replay":                                              "--all",
		"billing inbox replay evt_1 --all":                                  "--all",
		"billing link --customer cus_1":                                     "--account",
		"billing link --customer cus_1 --account x":                         "x",
		"billing link --payment pi_1":                                       "--account",
		"billing link --account " + account:                                 "--payment",
		"billing link --payment pi_1 --account " + account:                  "no payment pi_1",
		"billing link --customer cus_1 --payment pi_1 --account " + account: "either --customer or --payment",
		"billing checkout --account " + account:                             "--pack",
		"billing checkout --pack small":                                     "--account",
		"billing checkout --pack small --account " + account:                "does not sell small; it sells nothing",
	} {
		if code, _, stderr := commandLine(t.Context(), append(strings.Fields(args), "--data", folder)...); code == exitOK || !strings.Contains(stderr, want) {
			t.Errorf("%s ends with %d and %q, want %q in it", args, code, stderr, want)
		}
	}
}

func TestBillingInboxShow_LongInboxAndHistory_ShowsEverything(t *testing.T) {
	folder, _ := openAccount(t)
	n := openNode(t, folder)
	const many = 300 // more than a page of either
	for i := range many {
		id := fmt.Sprintf("evt_%d", i)
		report := eventschemas.BillingReported{Processor: "acme", EventID: id, Type: "test", Problem: "unknown"}
		testmust.Succeed(t, n.Writers.Billing.Record(t.Context(), n.Operator(), report))
	}
	for range many {
		testmust.Succeed(t, n.Writers.Billing.Reopen(t.Context(), n.Operator(), domain.Stream("acme", "evt_0")))
	}
	testmust.Succeed(t, n.Close())
	for id, events := range map[string]int{"evt_0": 1 + many, fmt.Sprintf("evt_%d", many-1): 1} {
		if got := strings.Count(output(t, folder, "billing", "inbox", "show", id), "\n"); got != events {
			t.Errorf("show prints %d events of %s, want %d", got, id, events)
		}
	}
}

// gaugeValue returns the value of a gauge whose only label has a value; -1 if there is none.
func gaugeValue(t *testing.T, metrics prometheus.Gatherer, name, label string) float64 {
	t.Helper()
	families := testmust.Get(metrics.Gather())(t)
	for _, family := range families {
		for _, m := range family.GetMetric() {
			if family.GetName() == name && m.GetLabel()[0].GetValue() == label {
				return m.GetGauge().GetValue()
			}
		}
	}
	return -1
}

// TestBillingLink_PaymentGrantedByHand_ItsClaimsApply has a refund and a won dispute wait for a payment that an operator
// granted.
func TestBillingLink_PaymentGrantedByHand_ItsClaimsApply(t *testing.T) {
	folder, id := openAccount(t)
	output(t, folder, "credits", "grant", "--account", id, "--amount", "1000", "--payment-id", "pi_1", "--money", "4900", "--currency", "EUR", "--tax", "782", "--kind", "adjustment")
	// work records reports, and has a worker apply them until some are left, all of which it has found to wait.
	work := func(left int, reports ...eventschemas.BillingReported) {
		t.Helper()
		n := openNode(t, folder)
		for _, r := range reports {
			r.Processor, r.Type, r.PaymentID = domain.Stripe, "test", "pi_1"
			testmust.Succeed(t, n.Writers.Billing.Record(t.Context(), n.Operator(), r))
		}
		metrics := prometheus.NewRegistry()
		worker := testmust.Get(billing.New(billing.Config{Registerer: metrics}, n.Stores.Log, n.Writers.Accounts, n.Writers.Notices, n.Writers.Billing))(t)
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- worker.Run(ctx) }()
		open := 0
		_, ok := testwait.Until(time.Minute, func() bool {
			err := n.Operations.Reads.CatchUp(t.Context(), inbox.Name)
			if err == nil {
				_, open, err = n.Models.Inbox.List(t.Context(), inbox.Selection{}, 0)
			}
			return err == nil && open == left && gaugeValue(t, metrics, "letterhead_billing_open", domain.Waiting) == float64(left)
		})
		stop()
		if err := errors.Join(<-ended, n.Close()); err != nil || !ok {
			t.Fatalf("%d events are open, want %d; %v", open, left, err)
		}
	}
	money := func(minor int64) *eventschemas.Money { return &eventschemas.Money{Minor: minor, Currency: "EUR"} }
	work(2,
		eventschemas.BillingReported{EventID: "evt_1", Kind: domain.KindRefund, Subject: "re_1", State: "succeeded", Money: money(490)},
		eventschemas.BillingReported{EventID: "evt_2", Kind: domain.KindDispute, Subject: "dp_1", State: "under_review", Money: money(4900)})
	if said := output(t, folder, "billing", "link", "--payment", "pi_1", "--account", id); !strings.Contains(said, "payment pi_1 is linked to account "+id) {
		t.Errorf("link prints %q", said)
	}
	shown := func() (p payments.Payment) {
		t.Helper()
		testmust.Succeed(t, json.Unmarshal([]byte(output(t, folder, "payment", "show", "pi_1", "--json")), &p))
		return p
	}
	work(0)
	if p := shown(); p.Credits != 1000 || p.RefundedCredits != 1000 || p.RefundedMoney != 4900 {
		t.Errorf("after the link the payment is %+v", p)
	}
	work(0, eventschemas.BillingReported{EventID: "evt_3", Kind: domain.KindDispute, Subject: "dp_1", State: "won", Money: money(4900)})
	if p := shown(); p.Credits != 1000 || p.RefundedCredits != 100 || p.RefundedMoney != 490 {
		t.Errorf("after the dispute was won the payment is %+v", p)
	}
	output(t, folder, "billing", "link", "--payment", "pi_1", "--account", id)
	work(0)
	if p := shown(); p.Credits != 1000 || p.RefundedCredits != 100 {
		t.Errorf("after another link the payment is %+v", p)
	}

	other := strings.Fields(output(t, folder, "account", "create", "--name", "Other"))[1]
	output(t, folder, "credits", "grant", "--account", other, "--amount", "1000", "--payment-id", "pi_1", "--money", "4900", "--currency", "EUR", "--kind", "topup")
	if code, _, stderr := commandLine(t.Context(), "billing", "link", "--payment", "pi_1", "--account", other, "--data", folder); code == exitOK || !strings.Contains(stderr, "linked to account "+id+" already") {
		t.Errorf("a link to another account ends with %d and %q, want the first account in it", code, stderr)
	}
}

func TestServe_BillingFileIsWrong_NamesThePrice(t *testing.T) {
	file := filepath.Join(t.TempDir(), "billing.yaml")
	testmust.Succeed(t, os.WriteFile(file, []byte("packs:\n  - {price: price_1, name: a, credits: 1}\n  - {price: price_1, name: b, credits: 2}\n"), 0o600))
	t.Setenv("LETTERHEAD_BILLING_FILE", file)
	t.Setenv("LETTERHEAD_STARTER", "off")
	data := t.TempDir()
	resvgtest.Link(t, data)
	code, _, stderr := commandLine(t.Context(), "serve", "--listen", "127.0.0.1:0", "--data", data)
	if code == exitOK || !strings.Contains(stderr, "the price price_1 is in the file twice") || !strings.Contains(stderr, file) {
		t.Errorf("serve ends with %d and %q", code, stderr)
	}
}
