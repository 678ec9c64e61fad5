package journal

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
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
	"letterhead/internal/eventlog"
	"letterhead/internal/testmust"
)

func TestWrite_Story_EveryEventIsATransaction(t *testing.T) {
	w := story(t)
	want := []string{
		"CreditsGranted: credits 10 CREDIT, credits-promotional -10 CREDIT",
		"CreditsGranted: payments 119.00 EUR, tax -19.00 EUR, deferred-revenue -100.00 EUR, credits 100 CREDIT, credits-paid -100 CREDIT",
		"CreditsGranted: payments 1000 JPY, tax -91 JPY, deferred-revenue -909 JPY, credits 3 CREDIT, credits-paid -3 CREDIT",
		"CreditsGranted: payments 0.001 KWD, deferred-revenue -0.001 KWD, credits 1 CREDIT, credits-paid -1 CREDIT",
		"CreditsCharged: deferred-revenue 2.00 EUR, revenue -2.00 EUR, credits -12 CREDIT, credits-used 12 CREDIT",
		"CreditsCharged: deferred-revenue 909 JPY, revenue -909 JPY, deferred-revenue 0.001 KWD, revenue -0.001 KWD, credits -4 CREDIT, credits-used 4 CREDIT",
		"ChargeReversed: deferred-revenue -2.00 EUR, revenue 2.00 EUR, credits 12 CREDIT, credits-used -12 CREDIT",
		"PaymentRefunded: payments -1000 JPY, tax 91 JPY, revenue 909 JPY, credits -3 CREDIT, credits-refunded 3 CREDIT",
		"CreditsCharged: credits -10 CREDIT, credits-used 10 CREDIT",
		"PaymentRefunded: payments -59.50 EUR, tax 9.50 EUR, deferred-revenue 50.00 EUR, credits -50 CREDIT, credits-refunded 50 CREDIT",
	}
	var got []string
	for _, tx := range w.transactions(Options{}) {
		got = append(got, tx.String())
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("transactions:\n%s\nwant:\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

func TestWrite_LaterStart_OpensWithOneTransactionForEachAccount(t *testing.T) {
	w := story(t)
	all := w.transactions(Options{From: time.Date(2026, 11, 1, 0, 0, 0, 0, time.UTC)})
	if len(all) != 5 {
		t.Fatalf("%d transactions, want 5", len(all))
	}
	for _, tx := range all[:2] {
		if tx.Time != "2026-11-01T00:00:00.000000Z" || tx.Revision != nil {
			t.Errorf("the opening %+v is not at the start, or has a revision", tx)
		}
	}
	if got, want := all[0].String(), "OpeningBalance: credits 110 CREDIT, opening-balances -110 CREDIT, payments 119.00 EUR, tax -19.00 EUR, deferred-revenue -100.00 EUR"; got != want {
		t.Errorf("opening of the first account: %s, want %s", got, want)
	}
	if got, want := all[1].String(), "OpeningBalance: payments 1000 JPY, tax -91 JPY, opening-balances -909 JPY, payments 0.001 KWD, opening-balances -0.001 KWD"; got != want {
		t.Errorf("opening of the second account: %s, want %s", got, want)
	}
	if one := w.transactions(Options{From: day(11, 1), AccountID: second}); len(one) != 2 || one[1].Reference != "re_1" {
		t.Errorf("the export of one account is %v, want its opening and the refund", one)
	}
}

// TestWrite_AnyHistory_BalancesClose folds random histories of accounts whose events occur in another order than they
// lie in the log, as with nodes whose clocks differ.
// Rule 14.
func TestWrite_AnyHistory_BalancesClose(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		w := newWorld(t)
		ids := []string{first, second, "3c0c4a52-6f0e-4c35-9a55-1d1c2d3e4f51"}
		accounts := map[string]*account.Account{}
		at := map[string]time.Time{}
		payments, charges := map[string][]string{}, map[string][]string{}
		for _, id := range ids {
			accounts[id] = account.New(id)
			at[id] = day(1, 1).Add(time.Duration(rapid.IntRange(0, 5*24).Draw(rt, "hours")) * time.Hour)
		}
		for n := range rapid.IntRange(1, 60).Draw(rt, "events") {
			id := rapid.SampledFrom(ids).Draw(rt, "account")
			at[id] = at[id].Add(time.Duration(rapid.IntRange(0, 15*24*60).Draw(rt, "minutes")) * time.Minute)
			var ev eventschemas.Event
			switch credits, name := rapid.Int64Range(1, 50).Draw(rt, "credits"), strconv.Itoa(n); rapid.IntRange(0, 6).Draw(rt, "kind") {
			case 0:
				money := rapid.Int64Range(0, 5000).Draw(rt, "money")
				ev = granted(name, credits, money, rapid.SampledFrom([]string{"EUR", "JPY", "KWD"}).Draw(rt, "currency"), rapid.Int64Range(0, money).Draw(rt, "tax"))
				payments[id] = append(payments[id], name)
			case 1:
				ev = promotional(name, credits)
			case 2, 3:
				ev = charged(name, credits)
				charges[id] = append(charges[id], name)
			case 4:
				if len(payments[id]) == 0 {
					continue
				}
				ev = refunded(name, rapid.SampledFrom(payments[id]).Draw(rt, "payment"), 1)
			case 5:
				ev = fee(name, "p", credits-25)
			case 6:
				if accounts[id].Balance() <= 0 {
					continue
				}
				ev = eventschemas.BreakageRecognized{Credits: accounts[id].Balance(), Policy: "terms"}
			}
			accounts[id].Apply(ev, at[id])
			w.append(at[id], id, ev)
		}
		whole := sums(t, w.transactions(Options{}))
		for _, id := range ids {
			want := big.NewRat(accounts[id].Balance(), 1)
			got := whole["credits "+id+" CREDIT"]
			if got == nil {
				got = new(big.Rat)
			}
			if got.Cmp(want) != 0 {
				rt.Fatalf("credits of %s close at %s, want %s", id, got, want)
			}
		}
		// A part that opens later closes at the same balances, but for those that the opening carries.
		from := day(1, 1).Add(time.Duration(rapid.IntRange(0, 24*300).Draw(rt, "from")) * time.Hour)
		before, after := w.transactions(Options{Until: from}), w.transactions(Options{From: from})
		parts := sums(t, append(before, after[openings(after):]...))
		if !reflect.DeepEqual(texts(parts), texts(whole)) {
			rt.Fatalf("two parts close at %v, want %v", texts(parts), texts(whole))
		}
		later := sums(t, after)
		for name, sum := range whole {
			if kind, _, _ := strings.Cut(name, " "); kind == "credits" || kind == "payments" || kind == "tax" || kind == "deferred-revenue" {
				if later[name] == nil || later[name].Cmp(sum) != 0 {
					rt.Fatalf("%s closes at %v from %s on, want %s", name, later[name], from, sum)
				}
			}
		}
	})
}

func TestWrite_FeesAndBreakage(t *testing.T) {
	w := newWorld(t)
	w.append(day(9, 1), first, promotional("free", 10), granted("pi_1", 100, 11900, "EUR", 1900), fee("txn_1", "pi_1", 145), charged("c1", 60))
	w.append(day(9, 2), first, eventschemas.AccountClosed{}, eventschemas.BreakageRecognized{Credits: 50, Policy: "terms"}, refunded("re_1", "pi_1", 100), fee("txn_2", "pi_1", -100))
	var got []string
	for _, tx := range w.transactions(Options{}) {
		got = append(got, tx.String())
	}
	want := []string{
		"CreditsGranted: credits 10 CREDIT, credits-promotional -10 CREDIT",
		"CreditsGranted: payments 119.00 EUR, tax -19.00 EUR, deferred-revenue -100.00 EUR, credits 100 CREDIT, credits-paid -100 CREDIT",
		"PaymentFeeRecorded: payments -1.45 EUR, processor-fees 1.45 EUR",
		"CreditsCharged: deferred-revenue 50.00 EUR, revenue -50.00 EUR, credits -60 CREDIT, credits-used 60 CREDIT",
		"BreakageRecognized: deferred-revenue 50.00 EUR, breakage -50.00 EUR, credits -50 CREDIT, credits-broken 50 CREDIT",
		"PaymentRefunded: payments -119.00 EUR, tax 19.00 EUR, revenue 50.00 EUR, breakage 50.00 EUR, credits -100 CREDIT, credits-refunded 100 CREDIT",
		"PaymentFeeRecorded: payments 1.00 EUR, processor-fees -1.00 EUR",
	}
	if !slices.Equal(got, want) {
		t.Errorf("transactions\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

func openings(all []transaction) int {
	for i, tx := range all {
		if tx.Event != Opening {
			return i
		}
	}
	return len(all)
}

func texts(sums map[string]*big.Rat) map[string]string {
	all := map[string]string{}
	for name, sum := range sums {
		all[name] = sum.RatString()
	}
	return all
}

func TestWrite_TableFormats_HoldTheSameRows(t *testing.T) {
	w := story(t)
	rows := w.rows(Options{})
	if want := "'=pi,\"1\"\n;(2)"; rows[3][12] != want {
		t.Errorf("payment id is the cell %q, want %q", rows[3][12], want)
	}
	if got := rows[len(rows)-1][13]; got != "'-re_2" {
		t.Errorf("refund id is the cell %q, want an apostrophe before -", got)
	}
	plain := func(text string) string { return strings.TrimPrefix(text, "'") }

	b := w.write(Options{Format: Parquet})
	stored := testmust.Get(parquet.Read[parquetRow](bytes.NewReader(b), int64(len(b))))(t)
	if len(stored) != len(rows)-1 {
		t.Fatalf("%d rows in parquet, %d in CSV", len(stored), len(rows)-1)
	}
	for i, p := range stored {
		want := rows[i+1]
		got := []string{p.Transaction, time.Unix(int64(p.Date)*24*60*60, 0).UTC().Format(time.DateOnly), time.UnixMicro(p.Time).UTC().Format("2006-01-02T15:04:05.000000Z"), p.Event, p.Account,
			strconv.FormatInt(*p.Revision, 10), p.Code, p.LedgerAccount, p.Commodity, unscaled(p.Amount), p.LateFor, p.Kind, p.PaymentID, p.Reference, p.RequestID, p.Domain, p.KeyID}
		for c := range want {
			wanted := plain(want[c])
			if c == 9 {
				wanted = rat(t, want[c]).FloatString(books.MaxDecimals)
			}
			if got[c] != wanted {
				t.Errorf("row %d, %s: %q in parquet, %q in CSV", i, columns[c], got[c], wanted)
			}
		}
	}

	// Three sheets, each with a header.
	b = w.write(Options{Format: XLSX, maxSheetRows: 16})
	f := testmust.Get(excelize.OpenReader(bytes.NewReader(b)))(t)
	defer f.Close()
	var cells [][]string
	for i, name := range f.GetSheetList() {
		sheet := testmust.Get(f.GetRows(name, excelize.Options{RawCellValue: true}))(t)
		if name != fmt.Sprintf("Journal %d", i+1) || len(sheet) > 16 || !reflect.DeepEqual(sheet[0], Options{}.Summary.columns()) {
			t.Errorf("sheet %d is %q with %d rows that begin with %v", i+1, name, len(sheet), sheet[0])
		}
		cells = append(cells, sheet[1:]...)
	}
	if len(cells) != len(rows)-1 || len(f.GetSheetList()) < 3 {
		t.Fatalf("%d rows on %d sheets, %d in CSV", len(cells), len(f.GetSheetList()), len(rows)-1)
	}
	for i, row := range cells {
		for c, cell := range row {
			want := plain(rows[i+1][c])
			switch columns[c] {
			case "date":
				continue
			case "amount":
				if rat(t, cell).Cmp(rat(t, want)) != 0 {
					t.Errorf("row %d: amount %s, want %s", i, cell, want)
				}
			default:
				if cell != want {
					t.Errorf("row %d, %s: %q, want %q", i, columns[c], cell, want)
				}
			}
		}
	}
	if kind, err := f.GetCellType("Journal 1", "J2"); err != nil || kind != excelize.CellTypeNumber && kind != excelize.CellTypeUnset {
		t.Errorf("an amount has cell type %v (%v), want a number", kind, err)
	}
	if formula, err := f.GetCellFormula("Journal 1", "M4"); err != nil || formula != "" {
		t.Errorf("the payment id is the formula %q (%v)", formula, err)
	}
	if date, err := f.GetCellValue("Journal 1", "B2"); err != nil || date != "2026-09-01" {
		t.Errorf("date %q (%v), want 2026-09-01", date, err)
	}
}

// unscaled formats an amount of a parquet file.
func unscaled(b [16]byte) string {
	n := new(big.Int).SetBytes(b[:])
	if b[0]&0x80 != 0 {
		n.Sub(n, new(big.Int).Lsh(big.NewInt(1), 128))
	}
	return new(big.Rat).SetFrac(n, big.NewInt(10000)).FloatString(books.MaxDecimals)
}

func TestWrite_LargestAmounts_AreExact(t *testing.T) {
	w := newWorld(t)
	w.append(day(1, 1), first, granted("p", account.MaxCredits, account.MaxMoney, "JPY", 0))
	b := w.write(Options{Format: Parquet})
	rows, err := parquet.Read[parquetRow](bytes.NewReader(b), int64(len(b)))
	if err != nil || unscaled(rows[0].Amount) != "9007199254740991.0000" || unscaled(rows[1].Amount) != "-9007199254740991.0000" {
		t.Errorf("amounts %v, %v (%v)", unscaled(rows[0].Amount), unscaled(rows[1].Amount), err)
	}
}

func TestWrite_Repeated_SameBytes(t *testing.T) {
	w := story(t)
	for _, format := range Formats() {
		for _, from := range []time.Time{{}, day(10, 4)} {
			o := Options{Format: format, From: from, maxSheetRows: 8} // several sheets
			first := w.write(o)
			for range 5 {
				if !bytes.Equal(w.write(o), first) {
					t.Errorf("two exports as %s from %s differ", format, from)
					break
				}
			}
		}
	}
}

func TestWrite_Assertions_OnlyAtEndedMonths(t *testing.T) {
	w := story(t)
	count := func(o Options) (hledger, beancount int) {
		o.Format = HLedger
		hledger = strings.Count(string(w.write(o)), "end of the month")
		o.Format = Beancount
		months := map[string]bool{}
		for _, line := range strings.Split(string(w.write(o)), "\n") {
			if fields := strings.Fields(line); len(fields) > 1 && fields[1] == "balance" {
				months[fields[0]] = true
			}
		}
		return hledger, len(months)
	}
	for _, c := range []struct {
		o    Options
		want int
	}{
		{Options{}, 2},                  // November runs: no event is later
		{Options{Until: day(11, 1)}, 2}, // October has ended
		{Options{Until: day(10, 8)}, 1}, // the end of October is not in the export
		{Options{Until: day(10, 1)}, 1},
		{Options{From: day(10, 1)}, 1},
		{Options{AccountID: second}, 1},
	} {
		if hledger, beancount := count(c.o); hledger != c.want || beancount != c.want {
			t.Errorf("from %s until %s: assertions at the ends of %d months in hledger and %d in beancount, want %d", c.o.From, c.o.Until, hledger, beancount, c.want)
		}
	}
}

func TestWriteFile_Interrupted_ChangesNothing(t *testing.T) {
	w := newWorld(t)
	w.append(day(1, 1), first, promotional("free", 1_000_000))
	for n := range 3 {
		var events []eventschemas.Event
		for i := range 1000 {
			events = append(events, charged(fmt.Sprintf("c%d-%d", n, i), 1))
		}
		w.append(day(1, 2), first, events...)
	}
	for range 3 {
		w.append(day(2, 2), first, manyCharges(w, 1000)...)
	}
	for _, format := range Formats() {
		name := filepath.Join(t.TempDir(), "journal")
		testmust.Succeed(t, os.WriteFile(name, []byte("an older export"), 0o600))
		ctx, cancel := context.WithCancel(t.Context())
		o := Options{Format: format, Chart: DefaultChart(), Progress: func(uint64, eventlog.Position, eventlog.Position) { cancel() }}
		if err := WriteFile(ctx, w.stored(), o, name); !errors.Is(err, context.Canceled) {
			t.Fatalf("%s: interrupted export: %v, want context.Canceled", format, err)
		}
		if b, err := os.ReadFile(name); err != nil || string(b) != "an older export" {
			t.Errorf("%s: the interrupted export changed the file", format)
		}
		if files, err := os.ReadDir(filepath.Dir(name)); err != nil || len(files) != 1 {
			t.Errorf("%s: files %v remain (%v), want the older export", format, files, err)
		}
		o.Progress = nil
		testmust.Succeed(t, WriteFile(t.Context(), w.stored(), o, name))
		got, err := os.ReadFile(name)
		if err != nil || !bytes.Equal(got, w.write(Options{Format: format})) {
			t.Errorf("%s: the export after it differs from a whole one (%v)", format, err)
		}
	}
}

func manyCharges(w *world, n int) (events []eventschemas.Event) {
	for i := range n {
		events = append(events, charged(fmt.Sprintf("d%d-%d", w.n, i), 1))
	}
	return events
}

func TestWriteFile_SecondWriter_BothComplete(t *testing.T) {
	w := story(t)
	name := filepath.Join(t.TempDir(), "journal.csv")
	o := Options{Format: CSV, Chart: DefaultChart()}
	var second error
	o.Progress = func(uint64, eventlog.Position, eventlog.Position) {
		other := o
		other.Progress = nil
		second = WriteFile(t.Context(), w.log, other, name)
	}
	if err := WriteFile(t.Context(), w.stored(), o, name); err != nil || second != nil {
		t.Errorf("two exports to one file: %v and %v", err, second)
	}
	if got, err := os.ReadFile(name); err != nil || !bytes.Equal(got, w.write(Options{Format: CSV})) {
		t.Errorf("the file is not an export (%v)", err)
	}
	if files, err := os.ReadDir(filepath.Dir(name)); err != nil || len(files) != 1 {
		t.Errorf("files %v remain (%v), want the export", files, err)
	}
	if err := WriteFile(t.Context(), w.log, o, filepath.Dir(name)); err == nil || !strings.Contains(err.Error(), "is not a file") {
		t.Errorf("export to a folder: %v", err)
	}
}

func TestWrite_DamagedEvent_FailsWithItsPosition(t *testing.T) {
	w := newWorld(t)
	w.append(day(1, 1), first, promotional("free", 1))
	testmust.Succeed(t, testmust.Err(w.stored().Append(t.Context(), account.Stream(first), eventlog.Exact(0), []eventlog.Proposed{{ID: [16]byte{9}, Type: "CreditsCharged", SchemaVersion: 99, OccurredAt: day(1, 2), Data: []byte("{}")}})))
	err := Write(t.Context(), w.stored(), Options{Format: CSV, Chart: DefaultChart()}, new(bytes.Buffer))
	if err == nil || !strings.Contains(err.Error(), "event at position 2") {
		t.Errorf("error %v, want one that names position 2", err)
	}
}

func TestReadChart(t *testing.T) {
	chart, err := ReadChart(strings.NewReader("# codes of our ledger\nrevenue: 4000\ntax: \"2200.1\"\n"))
	if err != nil || chart[books.Revenue] != "4000" || chart[books.TaxDue] != "2200.1" || chart[books.Payments] != "payments" {
		t.Errorf("chart %v (%v)", chart, err)
	}
	if empty, err := ReadChart(strings.NewReader("")); err != nil || empty != DefaultChart() {
		t.Errorf("an empty file gives %v (%v), want the names", empty, err)
	}
	for text, want := range map[string]string{
		"revenues: 4000":                "line 1: there is no ledger account \"revenues\"",
		"tax: 1\nrevenue: 4000\ntax: 2": "line 3: tax has a code already",
		"revenue: -4":                   "line 1: the code of revenue must have",
		"revenue: [1]":                  "line 1: the code of revenue must have",
		"revenue: a  b":                 "line 1: the code of revenue must have",
		"revenue: 1\ntax: 1":            "have the same code 1",
		"revenue: PAYMENTS":             "have the same code",
		"- revenue":                     "must be YAML with lines",
		"tax: 1\n---\nrevenue: 2":       "second YAML document",
		"revenue: 'x":                   "must be YAML with lines",
		strings.Repeat("#", 65<<10):     "more than",
	} {
		if _, err := ReadChart(strings.NewReader(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("ReadChart(%.20q) = %v, want %q", text, err, want)
		}
	}
}

func TestDocument_Chart_IsComplete(t *testing.T) {
	page := testmust.Get(os.ReadFile("../../docs/books.md"))(t)
	for _, e := range books.Chart {
		yes := ""
		if e.ByCustomer {
			yes = "yes "
		}
		if row := fmt.Sprintf("| `%s` | %s | %s| %s |", e.Name, e.Class, yes, e.Means); !strings.Contains(string(page), row) {
			t.Errorf("docs/books.md lacks the row %s", row)
		}
	}
	if list := "`" + strings.Join(columns[5:], "`, `") + "`"; !strings.Contains(regexp.MustCompile(` \([^)]*\)`).ReplaceAllString(string(page), ""), list) {
		t.Errorf("docs/books.md lacks the columns %s", list)
	}
}

func FuzzReadChart(f *testing.F) {
	f.Add("revenue: 4000\ntax: 2200\n")
	f.Add("? [a]\n: b")
	f.Add("revenue: &a 1\ntax: *a")
	f.Fuzz(func(t *testing.T, text string) {
		chart, err := ReadChart(strings.NewReader(text))
		if err != nil {
			return
		}
		seen := map[string]bool{}
		for _, code := range chart {
			if !codePattern.MatchString(code) || seen[strings.ToLower(code)] {
				t.Errorf("code %q is invalid or appears twice", code)
			}
			seen[strings.ToLower(code)] = true
		}
	})
}

// Earlier releases did not limit the sums of money, and a report must not show one that has overflowed.
func TestReports_SumBeyondInt64_IsAnErrorThatNamesTheEvent(t *testing.T) {
	w := newWorld(t)
	for i := range 3 {
		w.append(day(time.November, 3), "acc_1", granted("p"+strconv.Itoa(i), 1, math.MaxInt64/2, "EUR", 0))
	}
	log := w.stored()
	_, trialBalance := Balances(t.Context(), log, time.Time{}, nil)
	_, fold := Fold(t.Context(), log, books.NewLedger(), 0, time.Time{}, func(time.Time, *books.Holder, string, books.Movement) {})
	for name, err := range map[string]error{
		"balances": trialBalance,
		"fold":     fold,
		"export":   Write(t.Context(), log, Options{Format: CSV, Chart: DefaultChart()}, io.Discard),
	} {
		if !errors.Is(err, books.ErrSum) || !strings.Contains(err.Error(), "EUR") || !strings.Contains(err.Error(), "acc_1") {
			t.Errorf("%s: error %v, want one that names the currency and the account", name, err)
		}
	}
}

func TestBeancount_AnyIDs_HaveNamesOfTheirOwn(t *testing.T) {
	w, ids, longer := newWorld(t), map[string]bool{}, []string{""}
	for range 3 {
		var next []string
		for _, id := range longer {
			for _, part := range []string{"a", "A", "x", "X", "0", "2e", ".", "-"} {
				next = append(next, id+part)
				ids[id+part] = true
			}
		}
		longer = next
	}
	known := map[string]string{"a": "A", "aA": "AA", "2e-": "2e-", "x2e": "X2e", "aX": "AX", "a.": "AX2e", ".": "0X2e", "-a": "0X2da", "00": "00"}
	for _, id := range slices.Sorted(maps.Keys(ids)) {
		w.append(day(time.November, 3), id, granted("p", 1, 0, "EUR", 0))
	}
	names := map[string]string{}
	var id string
	for line := range strings.Lines(string(w.write(Options{Format: Beancount}))) {
		if of, ok := strings.CutPrefix(line, "  account: "); ok {
			var err error
			if id, err = strconv.Unquote(strings.TrimSpace(of)); err != nil {
				t.Fatal(err)
			}
		}
		name, ok := strings.CutPrefix(line, "    Assets:Credits:")
		if !ok {
			continue
		}
		name, _, _ = strings.Cut(name, " ")
		if other, twice := names[name]; twice {
			t.Errorf("%q and %q have the name %s", other, id, name)
		}
		if want, ok := known[id]; ok && name != want {
			t.Errorf("%q has the name %s, want %s", id, name, want)
		}
		names[name] = id
	}
	if len(names) < len(ids) {
		t.Errorf("%d names for %d ids", len(names), len(ids))
	}
}
