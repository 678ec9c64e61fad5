package reconcile_test

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"letterhead/domain/books"
	"letterhead/domain/reconcile"
	"letterhead/eventschemas"
	"letterhead/internal/testmust"
)

func day(n int) time.Time { return time.Date(2026, 11, n, 12, 0, 0, 0, time.UTC) }

func paid(id string, minor int64, currency string) eventschemas.CreditsGranted {
	return eventschemas.CreditsGranted{GrantID: id, Kind: "topup", Credits: 100, PaymentID: id, Money: &eventschemas.Money{Minor: minor, Currency: currency}}
}

func refunded(id, payment string, minor int64, currency string) eventschemas.PaymentRefunded {
	return eventschemas.PaymentRefunded{RefundID: id, PaymentID: payment, Credits: 1, Money: &eventschemas.Money{Minor: minor, Currency: currency}}
}

func fee(id, payment string, minor int64, currency string) eventschemas.PaymentFeeRecorded {
	return eventschemas.PaymentFeeRecorded{FeeID: id, PaymentID: payment, Money: eventschemas.Money{Minor: minor, Currency: currency}}
}

const header = "created_utc,reporting_category,currency,gross,fee,net,source_id,charge_id,payment_intent_id,invoice_id,customer_facing_amount,customer_facing_currency\n"

func compare(t *testing.T, ledger *reconcile.Ledger, export string, o reconcile.Options) *reconcile.Report {
	t.Helper()
	in := testmust.Get(reconcile.NewReader(strings.NewReader(export)))(t)
	report := testmust.Get(reconcile.Compare(ledger, in, o))(t)
	return report
}

// lines describes the differences.
func lines(report *reconcile.Report) []string {
	money := func(m *eventschemas.Money) string {
		if m == nil {
			return "none"
		}
		return fmt.Sprint(m.Minor, m.Currency)
	}
	var all []string
	for _, d := range report.Differences {
		all = append(all, strings.TrimSpace(fmt.Sprintf("%s %s %s/%s in %q, line %d: %s, ledger %s", d.Result, d.Kind, d.PaymentID, d.ID, d.AccountID, d.Line, money(d.Processor), money(d.Ledger))))
	}
	return all
}

func TestCompare_EachDifference_IsListed(t *testing.T) {
	for name, c := range map[string]struct {
		events []eventschemas.Event // of day 1, 2, ... of account a
		rows   string
		want   []string
	}{
		"payment by charge, intent, invoice or source": {
			[]eventschemas.Event{paid("ch_1", 4900, "EUR"), paid("pi_2", 800, "JPY"), paid("in_3", 16500, "KWD"), paid("py_4", 100, "EUR")},
			"2026-11-01 10:00:00,charge,eur,49.00,1.50,47.50,ch_1,ch_1,pi_1,,,\n" +
				"2026-11-02 10:00,charge,jpy,800,0,800,ch_2,ch_2,pi_2,,,\n" +
				"2026-11-03T10:00:00Z,charge,kwd,16.500,0,16.500,ch_3,ch_3,,in_3,,\n" +
				"2026-11-04,payment,eur,1.00,0,1.00,py_4,,,,,\n",
			nil,
		},
		"missing and extra": {
			[]eventschemas.Event{paid("pi_1", 4900, "EUR")},
			"2026-11-01,charge,eur,49.00,0,49.00,ch_2,ch_2,pi_2,,,\n",
			[]string{`missing payment pi_2/ in "", line 2: 4900EUR, ledger none`, `extra payment pi_1/ in "a", line 0: none, ledger 4900EUR`},
		},
		"different amount, currency, or no money in the ledger": {
			[]eventschemas.Event{paid("pi_1", 4900, "EUR"), paid("pi_2", 4900, "EUR"), eventschemas.CreditsGranted{GrantID: "g", Kind: "topup", Credits: 1, PaymentID: "pi_3"}},
			"2026-11-01,charge,eur,49.01,0,49.01,,,pi_1,,,\n2026-11-02,charge,usd,49.00,0,49.00,,,pi_2,,,\n2026-11-03,charge,eur,5.00,0,5.00,,,pi_3,,,\n",
			[]string{`different payment pi_1/ in "a", line 2: 4901EUR, ledger 4900EUR`, `different payment pi_2/ in "a", line 3: 4900USD, ledger 4900EUR`, `different payment pi_3/ in "a", line 4: 500EUR, ledger none`},
		},
		"fees are not compared with a ledger without fees": {
			[]eventschemas.Event{paid("pi_1", 4900, "EUR")},
			"2026-11-01,charge,eur,49.00,1.45,47.55,ch_1,,pi_1,,,\n",
			nil,
		},
		"fees by id, by amount, missing, different and extra": {
			[]eventschemas.Event{
				paid("pi_1", 4900, "EUR"), paid("pi_2", 4900, "EUR"), paid("pi_3", 4900, "EUR"), paid("pi_4", 4900, "EUR"),
				refunded("re_1", "pi_1", 100, "EUR"),
				fee("charge:ch_1", "pi_1", 145, "EUR"), fee("by hand", "pi_1", -30, "EUR"), // returned with the refund
				fee("charge:ch_2", "pi_2", 146, "EUR"), fee("more", "pi_4", 1, "EUR"),
			},
			"2026-11-01,charge,eur,49.00,1.45,47.55,ch_1,,pi_1,,,\n" +
				"2026-11-02,charge,eur,49.00,1.45,47.55,ch_2,,pi_2,,,\n" +
				"2026-11-03,charge,eur,49.00,1.45,47.55,ch_3,,pi_3,,,\n" +
				"2026-11-04,charge,eur,49.00,0.00,49.00,ch_4,,pi_4,,,\n" +
				"2026-11-05,refund,eur,-1.00,-0.30,-0.70,re_1,,,,,\n" +
				"2026-11-09,stripe_fee,eur,-2.00,0,-2.00,,,,,,\n",
			[]string{`different fee pi_2/charge:ch_2 in "a", line 3: 145EUR, ledger 146EUR`, `missing fee pi_3/charge:ch_3:145 in "a", line 4: 145EUR, ledger none`,
				`extra fee pi_4/more in "a", line 0: none, ledger 1EUR`},
		},
		"a payment that is captured in part": {
			[]eventschemas.Event{paid("pi_1", 4000, "EUR")},
			"2026-11-01,charge,eur,49.00,0,49.00,,,pi_1,,,\n2026-11-01,partial_capture_reversal,eur,-9.00,0,-9.00,,,pi_1,,,\n",
			nil,
		},
		"the same payment twice": {
			[]eventschemas.Event{paid("pi_1", 4900, "EUR")},
			"2026-11-01,charge,eur,49.00,0,49.00,,,pi_1,,,\n2026-11-01,charge,eur,49.00,0,49.00,,,pi_1,,,\n",
			[]string{`different payment pi_1/ in "a", line 2: 9800EUR, ledger 4900EUR`},
		},
		"converted by the processor": {
			[]eventschemas.Event{paid("pi_1", 4900, "EUR"), refunded("re_1", "pi_1", 900, "EUR")},
			"2026-11-01,charge,usd,53.20,0,53.20,,,pi_1,,49.00,eur\n2026-11-02,refund,usd,-9.77,0,-9.77,re_1,,pi_1,,9.00,eur\n",
			nil,
		},
		"refunds by id, by amount, and by payment": {
			[]eventschemas.Event{paid("pi_1", 4900, "EUR"), refunded("re_1", "pi_1", 100, "EUR"), refunded("x", "pi_1", 200, "EUR"), refunded("y", "pi_1", 300, "EUR"), refunded("z", "pi_1", 100, "EUR")},
			"2026-11-01,charge,eur,49.00,0,49.00,,,pi_1,,,\n" +
				"2026-11-02,refund,eur,-1.00,0,-1.00,re_9,,pi_1,,,\n" + // z, although re_1 has the same amount
				"2026-11-02,refund,eur,-1.00,0,-1.00,re_1,,pi_1,,,\n" +
				"2026-11-03,refund,eur,-2.00,0,-2.00,re_2,,pi_1,,,\n" +
				"2026-11-04,refund,eur,-3.50,0,-3.50,re_3,,pi_1,,,\n",
			[]string{`different refund pi_1/y in "a", line 6: -350EUR, ledger -300EUR`},
		},
		"a refund that is missing, and one that is extra": {
			[]eventschemas.Event{paid("pi_1", 4900, "EUR"), paid("pi_2", 100, "EUR"), refunded("re_2", "pi_2", 100, "EUR")},
			"2026-11-01,charge,eur,49.00,0,49.00,,,pi_1,,,\n2026-11-02,charge,eur,1.00,0,1.00,,,pi_2,,,\n2026-11-02,refund,eur,-49.00,0,-49.00,re_1,,pi_1,,,\n",
			[]string{`missing refund pi_1/re_1 in "", line 4: -4900EUR, ledger none`, `extra refund pi_2/re_2 in "a", line 0: none, ledger -100EUR`},
		},
		"a dispute that is won, and a refund that was reversed although the processor kept it": {
			[]eventschemas.Event{
				paid("pi_1", 4900, "EUR"), refunded("dp_1", "pi_1", 4900, "EUR"),
				eventschemas.RefundReversed{RefundID: "dp_1", PaymentID: "pi_1", Credits: 100, Money: &eventschemas.Money{Minor: 4900, Currency: "EUR"}},
				paid("pi_2", 100, "EUR"), refunded("re_2", "pi_2", 100, "EUR"),
				eventschemas.RefundReversed{RefundID: "re_2", PaymentID: "pi_2", Credits: 100, Money: &eventschemas.Money{Minor: 100, Currency: "EUR"}},
			},
			"2026-11-01,charge,eur,49.00,0,49.00,,,pi_1,,,\n2026-11-02,dispute,eur,-49.00,0,-49.00,dp_1,,pi_1,,,\n2026-11-03,dispute_reversal,eur,49.00,0,49.00,dp_1,,pi_1,,,\n" +
				"2026-11-04,charge,eur,1.00,0,1.00,,,pi_2,,,\n2026-11-05,refund,eur,-1.00,0,-1.00,re_2,,pi_2,,,\n",
			[]string{`missing refund pi_2/re_2 in "", line 6: -100EUR, ledger none`},
		},
		"a refund that fails": {
			[]eventschemas.Event{paid("pi_1", 4900, "EUR")},
			"2026-11-01,charge,eur,49.00,0,49.00,,,pi_1,,,\n2026-11-02,refund,eur,-9.00,0,-9.00,re_1,,pi_1,,,\n2026-11-03,refund_failure,eur,9.00,0,9.00,re_1,,pi_1,,,\n",
			nil,
		},
		"a refund that fails is still in the ledger": {
			[]eventschemas.Event{paid("pi_1", 4900, "EUR"), refunded("re_1", "pi_1", 900, "EUR")},
			"2026-11-01,charge,eur,49.00,0,49.00,,,pi_1,,,\n2026-11-02,refund,eur,-9.00,0,-9.00,re_1,,pi_1,,,\n2026-11-03,refund_failure,eur,9.00,0,9.00,re_1,,pi_1,,,\n",
			[]string{`different refund pi_1/re_1 in "a", line 3: 0EUR, ledger -900EUR`},
		},
		"disputes that are open, won, and booked as refund": {
			[]eventschemas.Event{paid("pi_1", 4900, "EUR"), paid("pi_2", 4900, "EUR"), paid("pi_3", 4900, "EUR"), refunded("dp_3", "pi_3", 4900, "EUR")},
			"2026-11-01,charge,eur,49.00,0,49.00,,,pi_1,,,\n2026-11-01,charge,eur,49.00,0,49.00,,,pi_2,,,\n2026-11-01,charge,eur,49.00,0,49.00,,,pi_3,,,\n" +
				"2026-11-02,dispute,eur,-49.00,15.00,-64.00,dp_1,,pi_1,,,\n2026-11-02,dispute,eur,-49.00,15.00,-64.00,dp_2,,pi_2,,,\n" +
				"2026-11-02,dispute,eur,-49.00,15.00,-64.00,dp_3,,pi_3,,,\n2026-11-03,dispute_reversal,eur,49.00,-15.00,64.00,dp_2,,pi_2,,,\n",
			[]string{`missing dispute pi_1/dp_1 in "", line 5: -4900EUR, ledger none`},
		},
		"a payment that fails was not granted": {
			nil,
			"2026-11-01,charge,eur,49.00,0,49.00,py_1,py_1,pi_1,,,\n2026-11-05,charge_failure,eur,-49.00,0,-49.00,py_1,py_1,pi_1,,,\n",
			nil,
		},
		"a payment that fails was refunded, another was not": {
			[]eventschemas.Event{paid("pi_1", 4900, "EUR"), refunded("r", "pi_1", 4900, "EUR"), paid("pi_2", 100, "EUR")},
			"2026-11-01,charge,eur,49.00,0,49.00,py_1,py_1,pi_1,,,\n2026-11-05,charge_failure,eur,-49.00,0,-49.00,py_1,py_1,pi_1,,,\n" +
				"2026-11-01,charge,eur,1.00,0,1.00,py_2,py_2,pi_2,,,\n2026-11-05,charge_failure,eur,-1.00,0,-1.00,py_2,py_2,pi_2,,,\n",
			[]string{`missing refund pi_2/ in "", line 5: -100EUR, ledger none`},
		},
		"a payment that failed in a later file": {
			[]eventschemas.Event{paid("pi_3", 700, "EUR")},
			"2026-11-05,charge_failure,eur,-49.00,0,-49.00,py_1,py_1,pi_1,,,\n2026-11-05,payment_failure_refund,eur,-1.00,0,-1.00,py_2,,,,,\n" +
				"2026-11-01,payment,eur,7.00,0,7.00,py_3,,pi_3,,,\n2026-11-06,payment_reversal,eur,-7.00,0,-7.00,,,pi_3,,,\n",
			[]string{`missing refund pi_3/ in "", line 5: -700EUR, ledger none`},
		},
		"a payment that fails, known by its source": {
			nil,
			"2026-11-01,payment,eur,49.00,0,49.00,py_1,,,,,\n2026-11-05,payment_failure_refund,eur,-49.00,0,-49.00,py_1,,,,,\n",
			nil,
		},
		"adjustments": {
			[]eventschemas.Event{paid("pi_1", 4900, "EUR")},
			"2026-11-01,charge,eur,49.00,0,49.00,,,pi_1,,,\n2026-11-05,adjustment,eur,-4.00,0,-4.00,dp_1,,pi_1,,,\n" +
				"2026-11-05,adjustment,eur,-5.00,0,-5.00,du_2,,pi_1,,,\n2026-11-06,adjustment,eur,5.00,0,5.00,du_2,,pi_1,,,\n2026-11-05,adjustment,eur,-6.00,0,-6.00,x_1,,pi_1,,,\n",
			[]string{`missing dispute pi_1/dp_1 in "", line 3: -400EUR, ledger none`},
		},
		"grants without a payment or money": {
			[]eventschemas.Event{eventschemas.CreditsGranted{GrantID: "free", Kind: "free", Credits: 50}, eventschemas.CreditsGranted{GrantID: "g", Kind: "topup", Credits: 1, PaymentID: "voucher"}},
			"2026-11-01,fee,eur,-2.00,0,-2.00,,,,,,\n",
			nil,
		},
	} {
		t.Run(name, func(t *testing.T) {
			ledger := reconcile.NewLedger()
			for i, ev := range c.events {
				ledger.Apply("a", ev, day(i+1))
			}
			report := compare(t, ledger, header+c.rows, reconcile.Options{From: day(1).Truncate(24 * time.Hour), Until: day(30)})
			if got := lines(report); !slices.Equal(got, c.want) {
				t.Errorf("differences:\n%s\nwant:\n%s", strings.Join(got, "\n"), strings.Join(c.want, "\n"))
			}
		})
	}
}

func TestCompare_OnePaymentIDInTwoAccounts_PrefersTheAmount(t *testing.T) {
	ledger := reconcile.NewLedger()
	ledger.Apply("a", paid("p", 100, "EUR"), day(1))
	ledger.Apply("b", paid("p", 200, "EUR"), day(1))
	report := compare(t, ledger, "date,type,currency,amount,payment_id\n2026-11-01,payment,EUR,2.00,p\n", reconcile.Options{})
	if got, want := lines(report), []string{`extra payment p/ in "a", line 0: none, ledger 100EUR`}; !slices.Equal(got, want) {
		t.Errorf("differences %q, want %q", got, want)
	}
}

func TestCompare_Range_CountsOnlyWhatIsInside(t *testing.T) {
	history := func() *reconcile.Ledger {
		ledger := reconcile.NewLedger()
		ledger.Apply("a", paid("early", 100, "EUR"), day(1))
		ledger.Apply("a", paid("midnight", 200, "EUR"), day(11).Truncate(24*time.Hour)) // the processor: a second before
		ledger.Apply("a", paid("late", 300, "EUR"), day(20))
		return ledger
	}
	export := "date,type,currency,amount,payment_id\n2026-11-10 23:59:59,payment,EUR,2.00,midnight\n2026-11-15,fee,EUR,-0.10,\n2026-11-25,payment,EUR,4.00,other\n"
	for name, c := range map[string]struct {
		from, until time.Time
		want        []string
		received    int64
	}{
		"of the export": {time.Time{}, time.Time{}, []string{`missing payment other/ in "", line 4: 400EUR, ledger none`, `extra payment late/ in "a", line 0: none, ledger 300EUR`}, 600},
		"a part":        {day(11).Truncate(24 * time.Hour), day(20), nil, 0},
		"from the first day": {day(1).Truncate(24 * time.Hour), day(20), []string{
			`extra payment early/ in "a", line 0: none, ledger 100EUR`}, 200},
	} {
		t.Run(name, func(t *testing.T) {
			report := compare(t, history(), export, reconcile.Options{From: c.from, Until: c.until})
			if got := lines(report); !slices.Equal(got, c.want) {
				t.Errorf("differences %q, want %q", got, c.want)
			}
			if len(report.Clearing) != 1 || report.Clearing[0].Received != c.received {
				t.Errorf("clearing %+v, want %d received", report.Clearing, c.received)
			}
		})
	}
}

func TestCompare_RefundsBeforeTheRange_AreNotThoseOfTheRange(t *testing.T) {
	const october, november = "2026-10-10,refund,eur,-10.00,0,-10.00,re_1,,pi_1,,,\n", "2026-11-12,refund,eur,-10.00,0,-10.00,re_2,,pi_1,,,\n"
	missing := []string{`missing refund pi_1/re_2 in "", line 2: -1000EUR, ledger none`}
	first := day(1).Truncate(24 * time.Hour)
	for name, c := range map[string]struct {
		refunds map[string]time.Time
		rows    string
		want    []string
	}{
		"a month before":               {map[string]time.Time{"own": day(-21)}, november, missing},
		"a month before, the same id":  {map[string]time.Time{"re_2": day(-21)}, november, nil},
		"a day before":                 {map[string]time.Time{"own": first.Add(-24 * time.Hour)}, november, nil},
		"more than a day before":       {map[string]time.Time{"own": first.Add(-24*time.Hour - time.Microsecond)}, november, missing},
		"in the file, newest first":    {map[string]time.Time{"own": day(-21), "own2": day(12)}, november + october, nil},
		"in the file, oldest first":    {map[string]time.Time{"own": day(-21), "own2": day(12)}, october + november, nil},
		"in the file, and one missing": {map[string]time.Time{"own": day(-21)}, november + october, missing},
	} {
		t.Run(name, func(t *testing.T) {
			ledger := reconcile.NewLedger()
			ledger.Apply("a", paid("pi_1", 4900, "EUR"), day(-25))
			for _, id := range slices.Sorted(maps.Keys(c.refunds)) {
				ledger.Apply("a", refunded(id, "pi_1", 1000, "EUR"), c.refunds[id])
			}
			report := compare(t, ledger, header+c.rows, reconcile.Options{From: first, Until: day(30)})
			if got := lines(report); !slices.Equal(got, c.want) {
				t.Errorf("differences %q, want %q", got, c.want)
			}
		})
	}
}

// TestCompare_RefundRecordedAgain_IsOneRefund has the refunds that account.SettlePayment makes of a claim: one that was recorded
// again with a credit less, and one that took the rest later.
func TestCompare_RefundRecordedAgain_IsOneRefund(t *testing.T) {
	reversed := func(id string, minor int64) eventschemas.RefundReversed {
		return eventschemas.RefundReversed{RefundID: id, PaymentID: "pi_1", Credits: 1, Money: &eventschemas.Money{Minor: minor, Currency: "EUR"}}
	}
	events := []struct {
		day int
		ev  eventschemas.Event
	}{
		{1, paid("pi_1", 9000, "EUR")},
		{2, refunded("re_1", "pi_1", 1000, "EUR")}, {3, refunded("dp_1", "pi_1", 4000, "EUR")}, {4, refunded("re_3", "pi_1", 900, "EUR")},
		{20, reversed("re_1", 1000)}, {20, refunded("re_1.2", "pi_1", 1000, "EUR")}, {20, refunded("re_2", "pi_1", 500, "EUR")},
		{21, reversed("re_3", 900)}, {21, refunded("dp_1.2", "pi_1", 900, "EUR")}, {22, refunded("order.2", "pi_1", 10, "EUR")},
	}
	const first = "2026-11-01,charge,eur,90.00,0,90.00,,,pi_1,,,\n2026-11-02,refund,eur,-10.00,0,-10.00,re_1,,pi_1,,,\n2026-11-03,dispute,eur,-49.00,0,-49.00,dp_1,,pi_1,,,\n"
	const second = "2026-11-20,refund,eur,-5.00,0,-5.00,re_2,,pi_1,,,\n2026-11-22,refund,eur,-0.10,0,-0.10,order.2,,pi_1,,,\n"
	for name, c := range map[string]struct {
		rows        string
		from, until int
	}{"all": {first + second, 1, 30}, "the first part": {first, 1, 10}, "the second part": {second, 10, 30}} {
		ledger := reconcile.NewLedger()
		for _, e := range events {
			ledger.Apply("a", e.ev, day(e.day))
		}
		report := compare(t, ledger, header+c.rows, reconcile.Options{From: day(c.from).Truncate(24 * time.Hour), Until: day(c.until)})
		if got := lines(report); len(got) > 0 {
			t.Errorf("%s: differences %q, want none", name, got)
		}
	}
}

func TestCompare_NothingToCompare_IsAnError(t *testing.T) {
	const row = "2026-11-15,fee,eur,-1.00,0,-1.00,,,,,,\n"
	for name, c := range map[string]struct {
		rows string
		o    reconcile.Options
		want string
	}{
		"no rows":              {"", reconcile.Options{}, "the file has no rows; give --from and --to"},
		"no rows, from":        {"", reconcile.Options{From: day(1)}, "the file has no rows; give --from and --to"},
		"no rows, both":        {"", reconcile.Options{From: day(1), Until: day(30)}, ""},
		"after the file":       {row, reconcile.Options{From: day(16)}, "no row of the file is in the range"},
		"before the file":      {row, reconcile.Options{Until: day(14)}, "no row of the file is in the range"},
		"outside, both limits": {row, reconcile.Options{From: day(1), Until: day(14)}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			in := testmust.Get(reconcile.NewReader(strings.NewReader(header + c.rows)))(t)
			if _, err := reconcile.Compare(reconcile.NewLedger(), in, c.o); (err == nil) != (c.want == "") || err != nil && err.Error() != c.want {
				t.Errorf("error %v, want %q", err, c.want)
			}
		})
	}
}

func TestCompare_Clearing_AddsUp(t *testing.T) {
	export := header + "2026-11-01,charge,eur,49.00,,47.50,ch_1,ch_1,pi_1,,,\n2026-11-02,refund,eur,-9.00,0.00,,re_1,,pi_1,,,\n" +
		"2026-11-02,dispute,eur,-40.00,15.00,-55.00,dp_1,,pi_1,,,\n2026-11-03,fee,eur,-2.00,0,-2.00,,,,,,\n2026-11-03,payout,eur,-30.00,0,-30.00,po_1,,,,,\n" +
		"2026-11-04,topup,eur,100.00,0,100.00,tu_1,,,,,\n2026-11-04,charge,usd,10.00,0,10.00,,,pi_2,,,\n"
	got := compare(t, reconcile.NewLedger(), export, reconcile.Options{Opening: map[string]int64{"EUR": 1000, "JPY": 7}}).Clearing
	want := []reconcile.Clearing{
		{Currency: "EUR", Opening: 1000, Received: 4900, Refunded: 900, Disputed: 4000, Fees: 150 + 1500 + 200, Payouts: 3000, Other: 10000, Closing: 1000 + 4750 - 900 - 5500 - 200 - 3000 + 10000},
		{Currency: "JPY", Opening: 7, Closing: 7},
		{Currency: "USD", Received: 1000, Closing: 1000},
	}
	if !slices.Equal(got, want) {
		t.Errorf("clearing %+v, want %+v", got, want)
	}
}

func TestReader_Header_IsFoundByNames(t *testing.T) {
	for _, export := range []string{
		"\ufeffAmount,Currency,Created (UTC),Type,Fee,Net,Payment Intent ID\n49.00,eur,2026-11-01 10:00,charge,1.50,47.50,pi_1\n",
		"\ufeff\"Amount\",\"Currency\",\"Created (UTC)\",Type,Fee,Net,\"Payment Intent ID\"\n49.00,eur,2026-11-01 10:00,charge,1.50,47.50,pi_1\n",
		"ignored,NET,currency,created,reporting_category,gross,payment_intent\nx,47.50,EUR,2026-11-01 10:00:00,Charge,49.00,pi_1\n", // the fee follows
	} {
		in := testmust.Get(reconcile.NewReader(strings.NewReader(export)))(t)
		row, err := in.Next()
		if err != nil || row.Gross != 4900 || row.Fee != 150 || row.Net != 4750 || row.Kind != reconcile.Payment || row.Line != 2 ||
			!slices.Equal(row.Payments, []string{"pi_1"}) || !row.At.Equal(day(1).Add(-2*time.Hour)) {
			t.Errorf("row %+v, %v", row, err)
		}
	}
}

func TestReader_Mistakes_NameLineAndColumn(t *testing.T) {
	const ok = "2026-11-01,charge,eur,49.00,0,49.00,,,pi_1,,,\n"
	for export, want := range map[string]string{
		"":                                    "line 1: there is no header",
		"date,type,currency\n":                "line 1: there is no column gross or amount",
		"date,type,amount,currency,Fee,fee\n": "line 1, column Fee: there are two columns of this name",
		header + ok + "yesterday,charge,eur,1,0,1,,,,,,\n":                      `line 3, column created_utc: "yesterday" is not a time like`,
		header + "2026-11-01,,eur,1,0,1,,,,,,\n":                                "line 2, column reporting_category: it is empty",
		header + "2026-11-01,charge,euro,1,0,1,,,,,,\n":                         `line 2, column currency: "euro" is not a currency`,
		header + "2026-11-01,charge,eur,\"49,00\",0,1,,,,,,\n":                  `line 2, column gross: "49,00" is not an amount`,
		header + "2026-11-01,charge,eur,1.005,0,1.005,,,,,,\n":                  `line 2, column gross: "1.005" is not an amount of EUR, which has 2 decimals`,
		header + "2026-11-01,charge,jpy,1.5,0,1.5,,,,,,\n":                      `line 2, column gross: "1.5" is not an amount of JPY, which has 0 decimals`,
		header + "2026-11-01,charge,eur,,0,1,,,,,,\n":                           `line 2, column gross: "" is not an amount`,
		header + "2026-11-01,charge,eur,1e3,0,1,,,,,,\n":                        `line 2, column gross: "1e3" is not an amount`,
		header + "2026-11-01,charge,eur,99999999999999999,0,1,,,,,,\n":          "line 2, column gross: 99999999999999999 is more than",
		header + "2026-11-01,refund,eur,1,0,1,,,,,,\n":                          "line 2, column gross: a refund has the wrong sign",
		header + "2026-11-01,charge,eur,49.00,1.50,47.49,,,,,,\n":               "line 2, column net: 47.49 is not gross less fee, which is 47.50",
		header + "2026-11-01,charge,eur,1,0,1,,,pi_1\x1b[2J,,,\n":               `line 2, column payment_intent_id: "pi_1\x1b[2J" has a control or invisible character`,
		header + "2026-11-01,charge\n":                                          "line 2: it has 2 fields, and the header has 12",
		header + ok + "\"2026-11-01,charge":                                     "line 3: byte",
		header + ok + "\"" + strings.Repeat("x", reconcile.MaxRecordBytes+8192): "line 3: a row has more than",
	} {
		in, err := reconcile.NewReader(strings.NewReader(export))
		if err == nil {
			_, err = reconcile.Compare(reconcile.NewLedger(), in, reconcile.Options{})
		}
		if err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%.120q: %v, want %q", export, err, want)
		}
	}
}

func TestReader_LongExport_HasNoLimitOfRows(t *testing.T) {
	var export strings.Builder
	export.WriteString("date,type,currency,amount,description\n")
	const rows = 3 * reconcile.MaxRecordBytes / 1000
	for range rows {
		export.WriteString("2026-11-01,fee,EUR,-0.01," + strings.Repeat("x", 1000) + "\n")
	}
	if fees := compare(t, reconcile.NewLedger(), export.String(), reconcile.Options{}).Clearing[0].Fees; fees != rows {
		t.Errorf("fees %d, want %d", fees, rows)
	}
}

// history is a random ledger with the export that a processor would make of it.
type history struct {
	ledger *reconcile.Ledger
	rows   []string
	net    map[string]int64
}

func drawHistory(t *rapid.T) *history {
	h := &history{ledger: reconcile.NewLedger(), net: map[string]int64{}}
	row := func(n int, category, currency string, gross, fee int64, source, payment string) {
		amount := func(minor int64) string { return string(books.AppendAmount(nil, minor, currency)) }
		h.rows = append(h.rows, fmt.Sprintf("%s,%s,%s,%s,%s,%s,%s,,%s,,,", day(n).Format(time.DateTime), category, strings.ToLower(currency), amount(gross), amount(fee), amount(gross-fee), source, payment))
		h.net[currency] += gross - fee
	}
	for p := range rapid.IntRange(1, 5).Draw(t, "payments") {
		currency := rapid.SampledFrom([]string{"EUR", "JPY", "KWD"}).Draw(t, "currency")
		account, id := rapid.SampledFrom([]string{"a", "b"}).Draw(t, "account"), fmt.Sprintf("pi_%d", p)
		minor := rapid.Int64Range(100, 10000).Draw(t, "minor")
		h.ledger.Apply(account, paid(id, minor, currency), day(p+1))
		row(p+1, "charge", currency, minor, rapid.Int64Range(0, 50).Draw(t, "fee"), "ch_"+id, id)
		for r := range rapid.IntRange(0, 3).Draw(t, "refunds") {
			part := rapid.Int64Range(1, 30).Draw(t, "part")
			name := fmt.Sprintf("re_%d_%d", p, r)
			known := name
			if rapid.Bool().Draw(t, "own id") {
				known = "other_" + name
			}
			h.ledger.Apply(account, refunded(known, id, part, currency), day(p+2))
			row(p+2, rapid.SampledFrom([]string{"refund", "dispute"}).Draw(t, "category"), currency, -part, 0, name, id)
		}
	}
	return h
}

func TestCompare_ExportOfTheLedger_HasNoDifference(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		h := drawHistory(rt)
		rows := rapid.Permutation(h.rows).Draw(rt, "rows")
		report := compare(t, h.ledger, header+strings.Join(rows, "\n")+"\n", reconcile.Options{From: day(1).Truncate(24 * time.Hour), Until: day(30)})
		if len(report.Differences) > 0 {
			rt.Errorf("differences %q", lines(report))
		}
		for _, c := range report.Clearing {
			if c.Closing != h.net[c.Currency] || c.Opening+c.Received-c.Refunded-c.Disputed-c.Fees-c.Payouts+c.Other != c.Closing {
				rt.Errorf("clearing %+v, want a closing balance of %d", c, h.net[c.Currency])
			}
		}
	})
}

func TestCompare_RowLeftOut_IsTheOnlyDifference(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		h := drawHistory(rt)
		at := rapid.IntRange(0, len(h.rows)-1).Draw(rt, "row")
		rows := slices.Delete(slices.Clone(h.rows), at, at+1)
		report := compare(t, h.ledger, header+strings.Join(rows, "\n")+"\n", reconcile.Options{From: day(1).Truncate(24 * time.Hour), Until: day(30)})
		if d := report.Differences; len(d) != 1 || d[0].Result != reconcile.Extra || d[0].Processor != nil || !strings.Contains(h.rows[at], d[0].PaymentID+",") {
			rt.Errorf("without the row %s: differences %q, want one extra", h.rows[at], lines(report))
		}
	})
}

func FuzzReader(f *testing.F) {
	f.Add(header + "2026-11-01 10:00:00,charge,eur,49.00,1.50,47.50,ch_1,ch_1,pi_1,,,\n2026-11-02,refund,eur,-9.00,0,-9.00,re_1,,pi_1,,,\n")
	f.Add("\ufeffdate,type,currency,amount\r\n\"2026-11-01\",\"fee\",JPY,-5\r\n")
	f.Add("net,gross,created,category,currency\n1,2,2026-01-01T00:00:00+05:00,payout,KWD\n")
	f.Add("date,type,currency,amount\n\"2026")
	f.Fuzz(func(t *testing.T, export string) {
		in, err := reconcile.NewReader(strings.NewReader(export))
		if err != nil {
			return
		}
		for {
			row, err := in.Next()
			if err != nil {
				break
			}
			if row.Net != row.Gross-row.Fee || len(row.Currency) != 3 || row.Kind == "" || row.Line < 2 || (row.Gross < 0) != (row.Paid.Minor < 0) && row.Gross != 0 && row.Paid.Minor != 0 {
				t.Fatalf("row %+v", row)
			}
			if text := string(books.AppendAmount(nil, row.Gross, row.Currency)); text != "" {
				if again, err := books.ParseAmount(text, row.Currency); err != nil || again != row.Gross {
					t.Fatalf("%d %s is written %s and read as %d, %v", row.Gross, row.Currency, text, again, err)
				}
			}
		}
	})
}

func TestCompare_EqualFeesInTwoFiles_AreTwoFees(t *testing.T) {
	for _, ids := range [][2]string{{"txn_1", "txn_2"}, {"txn_2", "txn_1"}, {"", ""}} {
		for _, disputes := range [][2]string{{"du_1", "du_2"}, {"du_2", "du_1"}} {
			ledger := func() *reconcile.Ledger {
				l := reconcile.NewLedger()
				l.Apply("a", paid("pi_1", 4900, "EUR"), day(1))
				return l
			}
			row := func(i int) string {
				return "date,category,currency,amount,fee,source_id,payment_intent_id,balance_transaction_id\n" +
					fmt.Sprintf("2026-11-%02d,dispute,EUR,-10.00,15.00,%s,pi_1,%s\n", i+2, disputes[i], ids[i])
			}
			feesOf := func(report *reconcile.Report) (missing []reconcile.Difference) {
				for _, d := range report.Differences {
					if d.Kind == reconcile.Fee {
						missing = append(missing, d)
					}
				}
				return missing
			}
			first := feesOf(compare(t, ledger(), row(0), reconcile.Options{Fees: true}))
			if len(first) != 1 || first[0].Result != reconcile.Missing {
				t.Fatalf("fees of the first file: %+v", first)
			}
			recorded := ledger()
			recorded.Apply("a", fee(first[0].ID, "pi_1", 1500, "EUR"), day(20))
			second := feesOf(compare(t, recorded, row(1), reconcile.Options{Fees: true}))
			if len(second) != 1 || second[0].Result != reconcile.Missing || second[0].ID == first[0].ID {
				t.Errorf("ids %q, disputes %q: fees of the second file: %+v, want one that is missing", ids, disputes, second)
			}
		}
	}
}

// feesOf returns the differences in fees as lines.
func feesOf(report *reconcile.Report) (fees []string) {
	for _, line := range lines(report) {
		if strings.Contains(line, " fee ") {
			fees = append(fees, line)
		}
	}
	return fees
}

func TestCompare_FeeOfAPaymentIDInTwoAccounts_IsOfNoneUnlessOneFits(t *testing.T) {
	const export = "date,category,currency,amount,fee,source_id,payment_intent_id\n2026-11-02,charge,EUR,2.00,0.10,ch_1,p\n2026-11-03,refund,EUR,-1.00,0.05,re_1,p\n"
	ofNone := []string{`missing fee p/charge:ch_1:10 in "", line 2: 10EUR, ledger none`, `missing fee p/refund:re_1:5 in "", line 3: 5EUR, ledger none`}
	for name, c := range map[string]struct {
		ofB  int64
		more func(*reconcile.Ledger)
		want []string
	}{
		"both accounts fit":    {200, nil, ofNone},
		"another amount":       {100, nil, []string{`missing fee p/charge:ch_1:10 in "a", line 2: 10EUR, ledger none`, ofNone[1]}},
		"the refund is of one": {200, func(l *reconcile.Ledger) { l.Apply("b", refunded("re_1", "p", 100, "EUR"), day(3)) }, []string{ofNone[0], strings.Replace(ofNone[1], `""`, `"b"`, 1)}},
		"recorded by hand for one": {200, func(l *reconcile.Ledger) {
			l.Apply("b", fee("by hand", "p", 10, "EUR"), day(3))
			l.Apply("a", fee("refund:re_1", "p", 5, "EUR"), day(3))
		}, nil},
	} {
		ledger := reconcile.NewLedger()
		ledger.Apply("a", paid("p", 200, "EUR"), day(1))
		ledger.Apply("b", paid("p", c.ofB, "EUR"), day(1))
		if c.more != nil {
			c.more(ledger)
		}
		if got := feesOf(compare(t, ledger, export, reconcile.Options{Fees: true})); !slices.Equal(got, c.want) {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}

func TestCompare_FeeOfAnExportWithoutTransactions_IsFoundWithThem(t *testing.T) {
	const export = "date,category,currency,amount,fee,source_id,payment_intent_id,balance_transaction_id\n2026-11-02,charge,EUR,49.00,1.45,ch_1,pi_1,txn_1\n"
	for id, want := range map[string][]string{
		"charge:ch_1": nil, "charge:ch_1:145": nil, "charge:pi_1": nil, "txn_1": nil, "by hand": nil,
		"charge:ch_2": {`missing fee pi_1/txn_1 in "a", line 2: 145EUR, ledger none`, `extra fee pi_1/charge:ch_2 in "a", line 0: none, ledger 145EUR`},
	} {
		ledger := reconcile.NewLedger()
		ledger.Apply("a", paid("pi_1", 4900, "EUR"), day(1))
		ledger.Apply("a", fee(id, "pi_1", 145, "EUR"), day(2))
		if got := feesOf(compare(t, ledger, export, reconcile.Options{})); !slices.Equal(got, want) {
			t.Errorf("recorded as %s: %q, want %q", id, got, want)
		}
	}
}

func TestCompare_FeesWithoutTransactionOfOneSource_AreFeesOfTheirOwn(t *testing.T) {
	const export = "date,category,currency,amount,fee,payment_intent_id\n2026-11-02,refund,EUR,-1.00,0.30,pi_1\n2026-11-03,refund,EUR,-1.00,0.30,pi_1\n2026-11-04,refund,EUR,-1.00,0.25,pi_1\n"
	recorded := []eventschemas.Event{fee("refund:pi_1:30", "pi_1", 30, "EUR"), fee("refund:pi_1:30:2", "pi_1", 30, "EUR"), fee("refund:pi_1:25", "pi_1", 25, "EUR")}
	for n := range len(recorded) + 1 {
		ledger := reconcile.NewLedger()
		ledger.Apply("a", paid("pi_1", 4900, "EUR"), day(1))
		for _, ev := range recorded[:n] {
			ledger.Apply("a", ev, day(9))
		}
		missing := feesOf(compare(t, ledger, export, reconcile.Options{Fees: true}))
		if len(missing) != len(recorded)-n {
			t.Errorf("with %d fees recorded: %q", n, missing)
		}
		for i, line := range missing {
			if id := recorded[n+i].(eventschemas.PaymentFeeRecorded).FeeID; !strings.Contains(line, "missing fee pi_1/"+id+" ") {
				t.Errorf("with %d fees recorded: %s, want %s", n, line, id)
			}
		}
	}
}

func TestCompare_FeeRecordedUnderAnotherID_IsFoundOnce(t *testing.T) {
	const with = "date,category,currency,amount,fee,payment_intent_id,balance_transaction_id\n" +
		"2026-11-02,refund,EUR,-1.00,0.30,pi_1,txn_1\n2026-11-03,refund,EUR,-1.00,0.30,pi_1,txn_2\n2026-11-01,charge,EUR,49.00,0,pi_1,txn_0\n"
	without := strings.NewReplacer(",balance_transaction_id", "", ",txn_0", "", ",txn_1", "", ",txn_2", "").Replace(with)
	for name, c := range map[string]struct {
		recorded []eventschemas.PaymentFeeRecorded
		export   string
		want     []string
	}{
		"without transactions, then with them": {
			[]eventschemas.PaymentFeeRecorded{fee("refund:pi_1:30", "pi_1", 30, "EUR"), fee("refund:pi_1:30:2", "pi_1", 30, "EUR")}, with, nil},
		"the second with another amount": {
			[]eventschemas.PaymentFeeRecorded{fee("refund:pi_1:30", "pi_1", 30, "EUR"), fee("refund:pi_1:30:2", "pi_1", 31, "EUR")}, with,
			[]string{`missing fee pi_1/txn_2 in "a", line 3: 30EUR, ledger none`, `extra fee pi_1/refund:pi_1:30:2 in "a", line 0: none, ledger 31EUR`}},
		"the sum of an earlier build of a shorter file": {
			[]eventschemas.PaymentFeeRecorded{fee("refund:pi_1", "pi_1", 60, "EUR")}, without + "2026-11-04,refund,EUR,-1.00,0.30,pi_1\n",
			[]string{`missing fee pi_1/refund:pi_1:30:3 in "a", line 5: 30EUR, ledger none`}},
		"the sum of an earlier build":                    {[]eventschemas.PaymentFeeRecorded{fee("refund:pi_1", "pi_1", 60, "EUR")}, without, nil},
		"the sum of an earlier build, with transactions": {[]eventschemas.PaymentFeeRecorded{fee("refund:pi_1", "pi_1", 60, "EUR")}, with, nil},
		"a sum of an earlier build that is recorded twice": {
			[]eventschemas.PaymentFeeRecorded{fee("refund:pi_1", "pi_1", 60, "EUR"), fee("refund:pi_1:30:2", "pi_1", 30, "EUR")}, without,
			[]string{`extra fee pi_1/refund:pi_1:30:2 in "a", line 0: none, ledger 30EUR`}},
		"with transactions, then without them": {
			[]eventschemas.PaymentFeeRecorded{fee("txn_1", "pi_1", 30, "EUR"), fee("txn_2", "pi_1", 30, "EUR")}, without, nil},
		"one with a transaction, then both without them": {
			[]eventschemas.PaymentFeeRecorded{fee("txn_1", "pi_1", 30, "EUR")}, without,
			[]string{`missing fee pi_1/refund:pi_1:30:2 in "a", line 3: 30EUR, ledger none`}},
		"another transaction": {
			[]eventschemas.PaymentFeeRecorded{fee("txn_1", "pi_1", 30, "EUR"), fee("txn_3", "pi_1", 30, "EUR")}, with,
			[]string{`missing fee pi_1/txn_2 in "a", line 3: 30EUR, ledger none`, `extra fee pi_1/txn_3 in "a", line 0: none, ledger 30EUR`}},
	} {
		ledger := reconcile.NewLedger()
		ledger.Apply("a", paid("pi_1", 4900, "EUR"), day(1))
		for _, ev := range c.recorded {
			ledger.Apply("a", ev, day(3))
		}
		if got := feesOf(compare(t, ledger, c.export, reconcile.Options{})); !slices.Equal(got, c.want) {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}

func TestCompare_SumTooLarge_NamesTheLine(t *testing.T) {
	const largest = "90071992547409.91" // 256 of them are within the limit of a sum
	export := header + strings.Repeat("2026-11-01,charge,eur,"+largest+",0,"+largest+",ch_1,ch_1,pi_1,,,\n", 300)
	for _, c := range []struct {
		name string
		o    reconcile.Options
		want string
	}{
		{"in the clearing account", reconcile.Options{}, "line 258: the sums of EUR are too large"},
		{"outside the range", reconcile.Options{From: day(20), Until: day(21)}, "line 258: the sum of the payment pi_1 is too large"},
		{"opening balance", reconcile.Options{Opening: map[string]int64{"EUR": math.MaxInt64}}, "the opening balance in EUR is too large"},
	} {
		in := testmust.Get(reconcile.NewReader(strings.NewReader(export)))(t)
		if _, err := reconcile.Compare(reconcile.NewLedger(), in, c.o); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: error %v, want %q", c.name, err, c.want)
		}
	}
}
