package journal

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"letterhead/domain/books"
	"letterhead/internal/testmust"
	"letterhead/internal/testservices"
)

// oddStory is story with accounts whose ids have every kind of first character. Stored ids are UUIDs; the formats do not
// depend on that.
func oddStory(t testing.TB) (*world, []string) {
	w := story(t)
	ids := []string{"-dash", "Capital", "(round);  [square]", "a:b", "1|2", "ünï", "*\"\\\n", "9", "X-1", "=1+1"}
	for i, id := range ids {
		w.append(day(9, 2+i), id, granted("pi\\"+id, 100, 1000, "EUR", 100), charged(id, 7))
		w.append(day(11, 2+i), id, charged(id+"2", 1))
	}
	return w, append(ids, first, second)
}

func (w *world) file(o Options, name string) string {
	w.t.Helper()
	path := filepath.Join(w.t.TempDir(), name)
	if o.Chart == (Chart{}) {
		o.Chart = DefaultChart()
	}
	testmust.Succeed(w.t, WriteFile(w.t.Context(), w.stored(), o, path))
	return path
}

func run(t testing.TB, name string, args ...string) string {
	t.Helper()
	out, err := exec.Command(name, args...).CombinedOutput()
	if err != nil {
		t.Fatalf("%s %v: %v\n%s", filepath.Base(name), args, err, out)
	}
	return string(out)
}

// parts are exports of the whole history and of parts of it.
var parts = map[string]Options{
	"whole":   {},
	"October": {From: time.Date(2026, 10, 1, 0, 0, 0, 0, time.UTC), Until: time.Date(2026, 11, 1, 0, 0, 0, 0, time.UTC)},
	"a start": {Until: day(10, 5)},
	"an end":  {From: day(10, 5)},
	"account": {AccountID: second},
	"codes":   {Chart: codes()},

	"days":                  {Summary: ByDay},
	"months":                {Summary: ByMonth},
	"days of October":       {Summary: ByDay, From: time.Date(2026, 10, 1, 0, 0, 0, 0, time.UTC), Until: time.Date(2026, 11, 1, 0, 0, 0, 0, time.UTC)},
	"months of an account":  {Summary: ByMonth, AccountID: second, From: day(10, 5)},
	"months, and the codes": {Summary: ByMonth, Chart: codes(), Until: day(11, 4)},
}

// codes returns codes of every form.
func codes() Chart {
	c := DefaultChart()
	c[books.Payments], c[books.Revenue], c[books.Credits], c[books.TaxDue] = "1200", "4000.1_a", "Z-9", "9"
	return c
}

func TestHLedger_Check_Passes(t *testing.T) {
	hledger := testservices.Command(t, "hledger")
	w, ids := oddStory(t)
	for name, o := range parts {
		o.Format = HLedger
		path := w.file(o, "x.journal")
		run(t, hledger, "-f", path, "check", "--strict")
		if name == "whole" {
			out := run(t, hledger, "-f", path, "balance", "assets:credits", "--flat", "-N", "-O", "csv")
			if strings.Count(out, "CREDIT") != len(ids) {
				t.Errorf("balances of credits:\n%s\nwant one for each of %d accounts", out, len(ids))
			}
		}
	}
	// The summary has the balances of the detail.
	var balances []string
	for _, by := range []Summary{"", ByDay, ByMonth} {
		path := w.file(Options{Format: HLedger, Summary: by}, "x.journal")
		balances = append(balances, run(t, hledger, "-f", path, "balance", "--depth", "2", "--flat", "-N", "-M", "-O", "csv"))
	}
	if balances[1] != balances[0] || balances[2] != balances[0] {
		t.Errorf("balances of the detail:\n%s\nby day:\n%s\nby month:\n%s", balances[0], balances[1], balances[2])
	}
	// The check is able to fail.
	path := w.file(Options{Format: HLedger}, "x.journal")
	text := testmust.Get(os.ReadFile(path))(t)
	text = bytes.Replace(text, []byte("payments  119.00 EUR"), []byte("payments  119.01 EUR"), 1)
	testmust.Succeed(t, os.WriteFile(path, text, 0o600))
	if err := exec.Command(hledger, "-f", path, "check").Run(); err == nil {
		t.Error("hledger check passes a journal with a changed amount")
	}
}

func TestBeancount_Check_Passes(t *testing.T) {
	check := testservices.Command(t, "bean-check")
	w, _ := oddStory(t)
	for _, o := range parts {
		o.Format = Beancount
		run(t, check, w.file(o, "x.beancount"))
	}
	path := w.file(Options{Format: Beancount}, "x.beancount")
	text := testmust.Get(os.ReadFile(path))(t)
	text = bytes.Replace(text, []byte("Payments  119.00 EUR"), []byte("Payments  119.01 EUR"), 1)
	testmust.Succeed(t, os.WriteFile(path, text, 0o600))
	if err := exec.Command(check, path).Run(); err == nil {
		t.Error("bean-check passes a journal with a changed amount")
	}
}

// TestDuckDB_Parquet_SumsToZero reads the file with an implementation that is not the one that wrote it.
func TestDuckDB_Parquet_SumsToZero(t *testing.T) {
	duckdb := testservices.Command(t, "duckdb")
	w, ids := oddStory(t)
	path := w.file(Options{Format: Parquet}, "x.parquet")
	query := func(sql string) string {
		return strings.TrimSpace(run(t, duckdb, "-csv", "-noheader", "-c", sql))
	}
	from := " FROM read_parquet('" + path + "')"
	if got := query("SELECT count(*) FROM (SELECT 1" + from + " GROUP BY transaction, commodity HAVING sum(amount) <> 0)"); got != "0" {
		t.Errorf("%s sums of a transaction in a commodity are not zero", got)
	}
	if got := query("SELECT sum(amount)" + from + " WHERE ledger_account = 'credits'"); got != strconv.Itoa(50-3+10*92)+".0000" {
		t.Errorf("credits = %s, want 50 of the first account, -3 of the second and 92 of each other", got)
	}
	if got := query("SELECT typeof(amount), typeof(date), typeof(time), min(date)" + from + " GROUP BY ALL"); !strings.HasPrefix(got, `"DECIMAL(38,4)",DATE,`) {
		t.Errorf("types %s", got)
	}
	for _, by := range []Summary{ByDay, ByMonth} {
		summary := w.file(Options{Format: Parquet, Summary: by}, "summary.parquet")
		sums := "SELECT date_trunc('month', date) AS month, ledger_account, commodity, sum(amount) AS amount FROM read_parquet('%s') GROUP BY ALL HAVING sum(amount) <> 0"
		detail, summed := fmt.Sprintf(sums, path), fmt.Sprintf(sums, summary)
		if got := query("SELECT count(*) FROM ((" + detail + ") EXCEPT (" + summed + ")) UNION ALL SELECT count(*) FROM ((" + summed + ") EXCEPT (" + detail + "))"); got != "0\n0" {
			t.Errorf("%s sums of the detail and of the summary by %s differ", got, by)
		}
	}
	if got := query("SELECT count(DISTINCT account)" + from); got != strconv.Itoa(len(ids)) {
		t.Errorf("%s accounts, want %d", got, len(ids))
	}
}
