package journal

import (
	"bytes"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"math/big"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/parquet-go/parquet-go"
	"github.com/xuri/excelize/v2"
	"pgregory.net/rapid"

	"letterhead/domain/account"
	"letterhead/domain/books"
	"letterhead/eventschemas"
	"letterhead/internal/testmust"
)

func accountOpened(plan string) eventschemas.Event {
	return eventschemas.AccountOpened{AccountID: first, Holder: "h", Plan: plan}
}

func planned(from, to string) eventschemas.Event {
	return eventschemas.PlanChanged{From: from, To: to}
}

// changes adds the amounts of a summary or of the detail by period, ledger account and commodity. The period is the
// month, and for ByDay the day.
func changes(t testing.TB, all []transaction, by Summary) map[string]string {
	t.Helper()
	total := map[string]*big.Rat{}
	for _, tx := range all {
		zero := map[string]*big.Rat{}
		for _, p := range tx.Postings {
			add(total, tx.Date[:len(layout(by))]+" "+p.LedgerAccount+" "+p.Commodity, rat(t, p.Amount))
			add(zero, p.Commodity, rat(t, p.Amount))
		}
		for commodity, sum := range zero {
			if sum.Sign() != 0 {
				t.Errorf("transaction %s sums to %s %s", tx.Transaction, sum, commodity)
			}
		}
	}
	return nonzero(total)
}

func layout(by Summary) string {
	if by == ByDay {
		return time.DateOnly
	}
	return books.MonthLayout
}

func nonzero(total map[string]*big.Rat) map[string]string {
	for name, sum := range total {
		if sum.Sign() == 0 {
			delete(total, name)
		}
	}
	return texts(total)
}

// read returns the changes of months in an export of any format, as an independent reader of the format sees them.
func read(t testing.TB, format Format, export []byte) map[string]string {
	t.Helper()
	total := map[string]*big.Rat{}
	table := func(rows [][]string) {
		date, account, commodity, amount := slices.Index(rows[0], "date"), slices.Index(rows[0], "ledger_account"), slices.Index(rows[0], "commodity"), slices.Index(rows[0], "amount")
		for _, row := range rows[1:] {
			add(total, row[date][:7]+" "+row[account]+" "+row[commodity], rat(t, row[amount]))
		}
	}
	switch format {
	case JSONL:
		return changes(t, parsed(t, export), ByMonth)
	case CSV:
		table(testmust.Get(csv.NewReader(bytes.NewReader(export)).ReadAll())(t))
	case Parquet:
		for _, p := range testmust.Get(parquet.Read[parquetRow](bytes.NewReader(export), int64(len(export))))(t) {
			month := time.Unix(int64(p.Date)*24*60*60, 0).UTC().Format(books.MonthLayout)
			add(total, month+" "+p.LedgerAccount+" "+p.Commodity, rat(t, unscaled(p.Amount)))
		}
	case XLSX:
		f := testmust.Get(excelize.OpenReader(bytes.NewReader(export)))(t)
		defer f.Close()
		for _, name := range f.GetSheetList() {
			rows := testmust.Get(f.GetRows(name, excelize.Options{RawCellValue: true}))(t)
			for _, row := range rows[1:] {
				days := testmust.Get(strconv.Atoi(row[1]))(t)
				row[1] = time.Date(1899, 12, 30+days, 0, 0, 0, 0, time.UTC).Format(time.DateOnly)
			}
			table(rows)
		}
	case HLedger, Beancount:
		month, ends := "", false
		for line := range strings.Lines(string(export)) {
			if head := transactionLine.FindStringSubmatch(line); head != nil {
				month, ends = head[1], strings.Contains(line, "Balances at the end")
			}
			if p := postingLine.FindStringSubmatch(line); p != nil && !ends {
				add(total, month+" "+strings.ToLower(p[1])+" "+p[3], rat(t, p[2]))
			}
		}
	}
	return nonzero(total)
}

var (
	transactionLine = regexp.MustCompile(`^(\d{4}-\d\d)-\d\d \*`)
	postingLine     = regexp.MustCompile(`^    [A-Za-z]+:([A-Za-z-]+)\S*  (-?[\d.]+) ([A-Z]+)\n`)
)

// TestSummary_AnyHistory_HasTheSumsOfTheDetail compares detail and summary in every format over random histories:
// reversals, refunds, reversed refunds, breakage, fees, changes of plan within a day, closed months and late events.
// Rule 14.
func TestSummary_AnyHistory_HasTheSumsOfTheDetail(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		w := newWorld(t)
		planOf := draw(rt, w)
		o := Options{}
		if rapid.Bool().Draw(rt, "from") {
			o.From = day(1, 1).Add(time.Duration(rapid.IntRange(0, 24*200).Draw(rt, "hours")) * time.Hour)
		}
		if rapid.Bool().Draw(rt, "until") {
			o.Until = o.From.Add(time.Duration(rapid.IntRange(1, 24*200).Draw(rt, "length")) * time.Hour)
			if o.From.IsZero() {
				o.Until = day(1, 1).AddDate(0, 0, rapid.IntRange(1, 200).Draw(rt, "days"))
			}
		}
		if rapid.IntRange(0, 3).Draw(rt, "one") == 0 {
			o.AccountID = first
		}
		detail := w.transactions(o)
		plans := map[string]*big.Rat{}
		for _, tx := range detail {
			plan := planOf[tx.Transaction]
			for _, p := range tx.Postings {
				add(plans, strings.Join([]string{tx.Date[:7], plan, tx.LateFor, p.LedgerAccount, p.Commodity}, " "), rat(t, p.Amount))
			}
		}
		for _, by := range []Summary{ByDay, ByMonth} {
			o.Summary = by
			summary, got, ids := w.transactions(o), map[string]*big.Rat{}, map[string]bool{}
			if got, want := changes(t, summary, by), changes(t, detail, by); !reflect.DeepEqual(got, want) {
				rt.Fatalf("the summary by %s of %s to %s sums to\n%v, the detail to\n%v", by, o.From, o.Until, got, want)
			}
			for _, tx := range summary {
				if ids[tx.Transaction] {
					rt.Fatalf("two transactions by %s are %s", by, tx.Transaction)
				}
				ids[tx.Transaction] = true
				for _, p := range tx.Postings {
					add(got, strings.Join([]string{tx.Date[:7], tx.Plan, tx.LateFor, p.LedgerAccount, p.Commodity}, " "), rat(t, p.Amount))
				}
			}
			if got, want := nonzero(got), nonzero(plans); !reflect.DeepEqual(got, want) {
				rt.Fatalf("the plans of the summary by %s sum to\n%v, those of the detail to\n%v", by, got, want)
			}
		}
		for _, o.Format = range Formats() {
			o.Summary = ""
			want := read(t, o.Format, w.write(o))
			for _, o.Summary = range []Summary{ByDay, ByMonth} {
				if got := read(t, o.Format, w.write(o)); !reflect.DeepEqual(got, want) {
					rt.Fatalf("%s: the summary by %s sums to\n%v, the detail to\n%v", o.Format, o.Summary, got, want)
				}
			}
		}
	})
}

// draw appends a random history of two accounts, of which at most five months are closed, and returns the plan of each
// transaction.
func draw(rt *rapid.T, w *world) map[string]string {
	planOf := map[string]string{}
	ids := []string{first, second}
	at, plan, state := map[string]time.Time{}, map[string]string{}, map[string]*account.Account{}
	payments, charges, refunds := map[string][]string{}, map[string][]eventschemas.CreditsCharged{}, map[string][]eventschemas.PaymentRefunded{}
	appended := func(id string, ev eventschemas.Event) {
		planOf[fmt.Sprintf("%s/%d", id, w.rev[id])] = plan[id]
		state[id].Apply(ev, at[id])
		w.append(at[id], id, ev)
	}
	for _, id := range ids {
		at[id], plan[id], state[id] = day(1, 1), "free", account.New(id)
		appended(id, accountOpened("free"))
	}
	month := time.Month(1)
	for n := range rapid.IntRange(1, 50).Draw(rt, "events") {
		id, name, credits := rapid.SampledFrom(ids).Draw(rt, "account"), strconv.Itoa(n), rapid.Int64Range(1, 50).Draw(rt, "credits")
		at[id] = at[id].Add(time.Duration(rapid.IntRange(0, 4*24*60).Draw(rt, "minutes")) * time.Minute)
		switch rapid.IntRange(0, 9).Draw(rt, "kind") {
		case 0, 1:
			money := rapid.Int64Range(0, 5000).Draw(rt, "money")
			appended(id, granted(name, credits, money, rapid.SampledFrom([]string{"EUR", "JPY", "KWD"}).Draw(rt, "currency"), money*rapid.SampledFrom([]int64{0, 7, 19, 50}).Draw(rt, "tax")/119))
			payments[id] = append(payments[id], name)
		case 2:
			appended(id, promotional(name, credits))
		case 3, 4:
			ev := charged(name, credits)
			appended(id, ev)
			charges[id] = append(charges[id], ev.(eventschemas.CreditsCharged))
		case 5:
			if last := len(charges[id]) - 1; last >= 0 {
				appended(id, reversed(charges[id][last].ChargeID, charges[id][last].Credits))
				charges[id] = charges[id][:last]
			}
		case 6:
			if len(payments[id]) > 0 {
				ev := refunded(name, rapid.SampledFrom(payments[id]).Draw(rt, "payment"), 1)
				appended(id, ev)
				refunds[id] = append(refunds[id], ev.(eventschemas.PaymentRefunded))
			}
		case 7:
			appended(id, fee(name, "p", credits-25))
		case 8:
			if state[id].Balance() > 0 {
				appended(id, eventschemas.BreakageRecognized{Credits: state[id].Balance(), Policy: "terms"})
			}
		case 9:
			to := rapid.SampledFrom([]string{"free", "starter", "growth"}).Draw(rt, "plan")
			ev := planned(plan[id], to)
			plan[id] = to
			appended(id, ev)
		}
		if last := len(refunds[id]) - 1; last >= 0 && rapid.IntRange(0, 4).Draw(rt, "reverse") == 0 {
			was := refunds[id][last]
			appended(id, eventschemas.RefundReversed{RefundID: was.RefundID, PaymentID: was.PaymentID, Credits: was.Credits})
			refunds[id] = refunds[id][:last]
		}
		if rapid.IntRange(0, 9).Draw(rt, "close") == 0 && month < 5 {
			w.close(month, monthAt(month+1))
			month++
		}
	}
	return planOf
}

// The rates are those of the lots whose credits are used and refunded, and a plan counts from its change on.
func TestSummary_PlansAndTaxRates_HaveTransactionsOfTheirOwn(t *testing.T) {
	w := newWorld(t)
	w.append(day(9, 1), first, accountOpened("free"), promotional("free", 10), granted("pi_1", 100, 11900, "EUR", 1900), fee("txn_1", "pi_1", 145))
	w.append(day(9, 2), first, charged("c1", 60), planned("free", "growth"), granted("pi_2", 100, 10770, "EUR", 770), charged("c2", 60))
	w.append(day(9, 2), first, charged("c3", 5), reversed("c3", 5), refunded("re_1", "pi_2", 100))
	w.append(day(9, 3), second, accountOpened("free"), granted("pi_3", 10, 490, "EUR", 78), granted("pi_4", 10, 100, "EUR", 0))
	w.append(day(10, 1), second, charged("c4", 20))
	got := func(o Options) (lines []string) {
		for _, tx := range w.transactions(o) {
			lines = append(lines, tx.Date+" "+tx.Transaction+" "+tx.String())
		}
		return lines
	}
	want := []string{
		"2026-09-03 2026-09/CREDIT/free Summary: credits 70 CREDIT, credits-paid -120 CREDIT, credits-promotional -10 CREDIT, credits-used 60 CREDIT",
		"2026-09-02 2026-09/CREDIT/growth Summary: credits -60 CREDIT, credits-paid -100 CREDIT, credits-used 60 CREDIT, credits-refunded 100 CREDIT",
		"2026-09-01 2026-09/EUR/free Summary: payments -1.45 EUR, processor-fees 1.45 EUR",
		"2026-09-03 2026-09/EUR/free/0 Summary: payments 1.00 EUR, deferred-revenue -1.00 EUR",
		"2026-09-03 2026-09/EUR/free/19 Summary: payments 123.90 EUR, tax -19.78 EUR, deferred-revenue -54.12 EUR, revenue -50.00 EUR",
		"2026-09-02 2026-09/EUR/growth/19 Summary: deferred-revenue 50.00 EUR, revenue -50.00 EUR",
		"2026-10-01 2026-10/CREDIT/free Summary: credits -20 CREDIT, credits-used 20 CREDIT",
		"2026-10-01 2026-10/EUR/free/0 Summary: deferred-revenue 1.00 EUR, revenue -1.00 EUR",
		"2026-10-01 2026-10/EUR/free/19 Summary: deferred-revenue 4.12 EUR, revenue -4.12 EUR",
	}
	if got := got(Options{Summary: ByMonth}); !slices.Equal(got, want) {
		t.Errorf("transactions\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	want = []string{
		"2026-10-01 opening/CREDIT OpeningBalance: credits 10 CREDIT, opening-balances -10 CREDIT",
		"2026-10-01 opening/EUR OpeningBalance: payments 123.45 EUR, tax -19.78 EUR, deferred-revenue -5.12 EUR, opening-balances -98.55 EUR",
	}
	if got := got(Options{Summary: ByDay, From: monthAt(10)}); len(got) != 5 || !slices.Equal(got[:2], want) {
		t.Errorf("transactions from October on\n%s\nwant 5 that begin with\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

func TestSummary_LateEvent_HasItsMonth(t *testing.T) {
	w := story(t)
	w.close(9, day(11, 20))
	w.close(10, day(11, 20))
	w.append(day(10, 31), "late", accountOpened("starter"), charged("late", 2))
	var got []string
	for _, tx := range w.transactions(Options{Summary: ByDay, From: monthAt(11), Until: monthAt(12)}) {
		if tx.LateFor != "" {
			got = append(got, tx.Date+" "+tx.Transaction+" "+tx.LateFor)
		}
	}
	if want := []string{"2026-11-01 2026-11-01/CREDIT/starter//2026-10 2026-10"}; !slices.Equal(got, want) {
		t.Errorf("late transactions %q, want %q", got, want)
	}
}

// Rule 14.
func TestSummary_ClosedMonth_IsComparedWithItsDigest(t *testing.T) {
	w := story(t)
	w.close(9, day(11, 20))
	o := Options{Format: CSV, Summary: ByMonth, From: monthAt(9), Until: monthAt(10), Chart: DefaultChart()}
	w.write(o)
	w = story(t)
	w.books(0, eventschemas.PeriodEnded{Month: "2026-09"}, eventschemas.PeriodClosed{Month: "2026-09", Digest: strings.Repeat("0", 64)})
	if err := Write(t.Context(), w.stored(), o, io.Discard); !errors.Is(err, ErrDigest) {
		t.Errorf("a summary of a closed month with another digest: %v, want ErrDigest", err)
	}
	name := filepath.Join(t.TempDir(), "september")
	if err := WriteFile(t.Context(), w.log, o, name); !errors.Is(err, ErrDigest) {
		t.Errorf("a file of it: %v, want ErrDigest", err)
	}
	if _, err := os.Stat(name); !os.IsNotExist(err) {
		t.Errorf("the failed export left a file (%v)", err)
	}
}

func TestSummary_XLSX_HasASheetForEachMonth(t *testing.T) {
	w := story(t)
	for _, c := range []struct {
		o    Options
		want []string
	}{
		{Options{Summary: ByDay}, []string{"2026-09", "2026-10", "2026-11"}},
		{Options{Summary: ByMonth, From: day(10, 3)}, []string{"2026-10", "2026-11"}},
		{Options{Summary: ByDay, Until: day(10, 1), maxSheetRows: 6}, []string{"2026-09", "Journal 2"}},
		{Options{Summary: ByDay, Until: day(1, 1)}, []string{"Journal 1"}},
	} {
		c.o.Format = XLSX
		f := testmust.Get(excelize.OpenReader(bytes.NewReader(w.write(c.o))))(t)
		if got := f.GetSheetList(); !slices.Equal(got, c.want) {
			t.Errorf("sheets %q, want %q", got, c.want)
		}
		for _, name := range c.want {
			rows := testmust.Get(f.GetRows(name))(t)
			if want := []string{"transaction", "date", "time", "event", "account", "revision", "code", "ledger_account", "commodity", "amount", "late_for", "plan", "tax_rate"}; !slices.Equal(rows[0], want) {
				t.Errorf("%s begins with %q, want %q", name, rows[0], want)
			}
			for _, row := range rows[1:] {
				if len(name) == len("2026-09") && row[1][:7] != name {
					t.Errorf("%s has a row of %s", name, row[1])
				}
			}
		}
		testmust.Succeed(t, f.Close())
	}
	w.append(day(12, 1), first, granted("large", 1, 123456789, "EUR", 0))
	f := testmust.Get(excelize.OpenReader(bytes.NewReader(w.write(Options{Format: XLSX, Summary: ByMonth, From: monthAt(12)}))))(t)
	defer f.Close()
	rows := testmust.Get(f.GetRows("2026-12"))(t)
	if !slices.ContainsFunc(rows, func(row []string) bool { return len(row) > 9 && row[9] == "1,234,567.89" }) {
		t.Errorf("the rows %q have no amount 1,234,567.89", rows)
	}
}
