package e2e

import (
	"database/sql"
	"maps"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"letterhead/internal/testmust"
)

// Commands print the same fields whether or not a server uses the folder. Scripts depend on them.
func TestCommands_WithAndWithoutServer_PrintTheSame(t *testing.T) {
	for _, served := range []bool{true, false} {
		name := "without a server"
		if served {
			name = "with a server"
		}
		t.Run(name, func(t *testing.T) {
			data := folderWithoutStarter(t)
			n := start(t, data, "LETTERHEAD_STARTER=off")
			if !served {
				n.stop()
			}
			acc, _ := account(t, data, "growth")
			id := acc.Account.ID
			if acc.Account.Name != "Acme" || acc.Account.Plan != "growth" || acc.Account.Status != "active" || acc.Credits.Balance != 50 || len(acc.Keys) != 2 {
				t.Fatalf("account create printed %+v", acc)
			}

			var key struct{ ID, Kind, Key, Last4 string }
			decode(t, ok(t, data, "key", "issue", "--account", id, "--kind", "secret", "--name", "ci", "--json"), &key)
			if key.Kind != "secret" || !strings.HasSuffix(key.Key, key.Last4) || !strings.HasPrefix(key.Key, "lh_sk_") {
				t.Fatalf("key issue printed %+v", key)
			}
			if list := ok(t, data, "key", "list", "--account", id); !strings.Contains(list, "ci") || strings.Contains(list, key.Key) {
				t.Fatalf("key list printed %s", list)
			}

			var granted struct {
				Balance  int64
				Repeated bool
			}
			grant := []string{"credits", "grant", "--account", id, "--amount", "1000", "--kind", "topup", "--payment-id", "p1", "--money", "4900", "--currency", "EUR", "--json"}
			decode(t, ok(t, data, grant...), &granted)
			if granted.Balance != 1050 || granted.Repeated {
				t.Fatalf("credits grant printed %+v", granted)
			}
			decode(t, ok(t, data, grant...), &granted)
			if granted.Balance != 1050 || !granted.Repeated {
				t.Fatalf("the repeated credits grant printed %+v", granted)
			}
			decode(t, ok(t, data, "credits", "refund", "--account", id, "--payment-id", "p1", "--amount", "400", "--json"), &granted)
			if granted.Balance != 650 {
				t.Fatalf("credits refund printed %+v", granted)
			}

			type refund struct {
				ID      string `json:"refund_id"`
				Credits int64
				Money   struct {
					Minor    int64
					Currency string
				}
			}
			type refunded struct {
				Balance  int64
				Repeated bool
				Refund   *refund
			}
			refundOf := func(args ...string) (r refunded) {
				decode(t, ok(t, data, append(append([]string{"credits", "refund", "--account", id, "--json"}, "--payment-id"), args...)...), &r)
				return r
			}
			second := refundOf("p1", "--amount", "100") // without --refund-id, a refund of its own
			if second.Balance != 550 || second.Repeated || second.Refund.Money.Minor != 490 || second.Refund.Money.Currency != "EUR" {
				t.Fatalf("the second partial refund printed %+v, %+v", second, second.Refund)
			}
			for _, repeated := range []bool{false, true} {
				third := refundOf("p1", "--refund-id", "r3", "--amount", "1", "--money", "48", "--currency", "EUR")
				if third.Balance != 549 || third.Repeated != repeated || third.Refund.ID != "r3" || third.Refund.Money.Minor != 48 {
					t.Fatalf("refund r3 printed %+v, %+v, want repeated = %t", third, third.Refund, repeated)
				}
			}
			for code, bad := range map[int][][]string{
				1: {{"--money", "4900", "--currency", "EUR"}, {"--refund-id", "r3", "--amount", "2"}},
				2: {{"--money", "1"}, {"--currency", "EUR"}, {"--money", "-1", "--currency", "EUR"}, {"--money", "1", "--currency", "USD"}},
			} {
				for _, args := range bad {
					if _, errs, got := letterhead(t, data, append([]string{"credits", "refund", "--account", id, "--payment-id", "p1"}, args...)...); got != code || errs == "" {
						t.Errorf("credits refund %v exited %d with %q, want %d with an error", args, got, errs, code)
					}
				}
			}
			if shown := ok(t, data, "payment", "show", "p1"); strings.Count(shown, "EUR") != 6 || !strings.Contains(shown, "state     partly_refunded") {
				t.Fatalf("payment show printed %s", shown)
			}
			if list := ok(t, data, "payment", "list", "--account", id, "--state", "partly_refunded", "--sort", "-paid"); !strings.Contains(list, "p1") || !strings.Contains(list, "49.00 EUR") {
				t.Fatalf("payment list printed %s", list)
			}
			decode(t, ok(t, data, "credits", "grant", "--account", id, "--amount", "1000", "--payment-id", "p2", "--money", "3000", "--currency", "EUR", "--tax", "479", "--json"), &granted)
			if nothing := refundOf("p2", "--amount", "100", "--money", "0", "--currency", "EUR"); nothing.Balance != 1449 || nothing.Refund.Money.Minor != 0 {
				t.Fatalf("a refund of no money printed %+v, %+v", nothing, nothing.Refund)
			}
			if rest := refundOf("p2"); rest.Balance != 549 || rest.Repeated || rest.Refund.Credits != 900 || rest.Refund.Money.Minor != 3000 {
				t.Fatalf("the refund of the rest printed %+v, %+v", rest, rest.Refund)
			}
			if again := refundOf("p2"); again.Balance != 549 || !again.Repeated || again.Refund != nil {
				t.Fatalf("the repeated refund of the rest printed %+v, %+v", again, again.Refund)
			}
			if list := ok(t, data, "account", "list", "--sort", "-balance", "--plan", "growth"); !strings.Contains(list, id) {
				t.Fatalf("account list printed %s", list)
			}
			if list := ok(t, data, "key", "list", "--account", id, "--kind", "publishable", "--sort", "-used"); strings.Count(list, "\n") != 2 || !strings.Contains(list, "publishable") {
				t.Fatalf("key list printed %s", list)
			}
			show := func(args ...string) string {
				return ok(t, data, append([]string{"ledger", "show", "--account", id}, args...)...)
			}
			if shown := show("--payment-id", "p2", "--from", "2026-01", "--to", "9999-12"); !strings.Contains(shown, "30.00 EUR") || !strings.Contains(shown, "-30.00 EUR") {
				t.Fatalf("ledger show printed %s", shown)
			}
			if shown, all := show(), show("--all"); strings.Contains(shown, "KeyIssued") || !strings.Contains(all, "KeyIssued") || !strings.Contains(show("--type", "KeyIssued"), "publishable") {
				t.Fatalf("ledger show printed %s\nwith --all %s", shown, all)
			}
			for _, bad := range [][]string{{"--type", "Nothing"}, {"--from", "2026-13"}, {"--as-of", "2026", "--json"}, {"--to", "2026", "--as-of", "2026-11"}} {
				if _, errs, code := letterhead(t, data, append([]string{"ledger", "show", "--account", id}, bad...)...); code != 2 || !strings.Contains(errs, bad[0][2:]) {
					t.Errorf("ledger show %v exited %d with %q, want 2 with the name of the option", bad, code, errs)
				}
			}

			checkBooks(t, data, id)

			lines := ledgerOf(t, data, id)
			if last := lines[len(lines)-1]; last.Type != "PaymentRefunded" || last.Amount != -900 || last.Balance != 549 {
				t.Fatalf("the ledger ends with %+v", last)
			}
			if one := ledgerOf(t, data, id, "--last", "1"); len(one) != 1 || one[0] != lines[len(lines)-1] {
				t.Fatalf("ledger show --last 1 printed %+v", one)
			}
			ok(t, data, "ledger", "verify", "--account", id)
			ok(t, data, "account", "plan", id, "custom")
			if show := ok(t, data, "account", "show", id, "--json"); !strings.Contains(show, `"plan":"custom"`) || !strings.Contains(show, `"name":"Acme"`) {
				t.Fatalf("account show printed %s", show)
			}
			ok(t, data, "projections", "list")
			ok(t, data, "projections", "rebuild", "--all")
			ok(t, data, "projections", "verify")
			ok(t, data, "doctor")

			for _, bad := range [][]string{
				{"account", "show", "nobody"}, {"key", "revoke", "nothing"}, {"account", "plan", id, "gold"},
				{"credits", "grant", "--account", id, "--amount", "-5"}, {"credits", "grant", "--account", id, "--amount", "5", "--kind", "topup"},
				{"ledger", "show"}, {"frobnicate"}, {"projections", "rebuild", "nope"}, {"account", "create"},
				{"credits", "refund", "--account", id, "--payment-id", "p1", "--amount", "99999", "--refund-id", "r9"},
			} {
				out, errs, code := letterhead(t, data, bad...)
				if code == 0 || !strings.HasPrefix(errs, "letterhead: ") || strings.Count(errs, "letterhead: ") != 1 {
					t.Errorf("letterhead %s ended with %d: %q %q", strings.Join(bad, " "), code, out, errs)
				}
			}
		})
	}
}

// The path of a data folder may be longer than a Unix socket's path can be.
func TestSocket_LongFolderPath_IsReachable(t *testing.T) {
	data := filepath.Join(t.TempDir(), strings.Repeat("deep/", 20), "data")
	testmust.Succeed(t, os.MkdirAll(filepath.Dir(data), 0o700))
	n := start(t, data, "LETTERHEAD_STARTER=off")
	raw, err := os.ReadFile(filepath.Join(data, "admin.sock.path"))
	if err != nil {
		t.Fatalf("read the file with the path of the socket: %v", err)
	}
	ok(t, data, "account", "list")
	n.stop()
	if _, err := os.Stat(strings.TrimSpace(string(raw))); err == nil {
		t.Error("the socket still exists after the server ended")
	}
}

// checkBooks checks the reports about an account that paid 49 EUR for 1000 credits and 30 EUR, 4.79 of it tax, for
// 1000 others, and has refunded 501 of the first and all of the others.
func checkBooks(t *testing.T, data, account string) {
	t.Helper()
	lines := func(args ...string) (rows []map[string]any) {
		for line := range strings.Lines(ok(t, data, append(append([]string{"books"}, args...), "--json")...)) {
			var row map[string]any
			decode(t, line, &row)
			rows = append(rows, row)
		}
		return rows
	}
	const received, refunded = 4900 + 3000 - 479, 1960 + 490 + 48 + 3000 - 479 // without tax
	rows := lines("revenue", "--by", "account")
	want := map[string]any{"account": account, "currency": "EUR", "opening_deferred": 0., "received": float64(received), "tax": 0.,
		"refunded": float64(refunded), "recognized": 0., "breakage": 0., "fees": 0., "closing_deferred": float64(received - refunded), "provisional": true}
	if len(rows) != 1 || !maps.Equal(rows[0], want) {
		t.Errorf("books revenue printed %v, want %v", rows, want)
	}
	if rows := lines("revenue"); len(rows) == 0 || rows[len(rows)-1]["closing_deferred"] != float64(received-refunded) || rows[len(rows)-1]["provisional"] != true {
		t.Errorf("books revenue by month printed %v, want the running month last, marked", rows)
	}
	credits, all, deferred := 0., 0., 0.
	for _, row := range lines("deferred") {
		all += row["credits"].(float64) - row["deficit"].(float64)
		if row["account"] == account {
			credits += row["credits"].(float64) - row["deficit"].(float64)
			deferred += row["deferred"].(float64)
		}
	}
	if credits != 549 {
		t.Errorf("books deferred has %v credits of the account, want its balance of 549", credits)
	}
	balance, sums := map[string]float64{}, map[string]float64{}
	for _, row := range lines("trial-balance", "--at", time.Now().UTC().Format(time.DateOnly)) {
		amount := row["debit"].(float64) - row["credit"].(float64)
		balance[row["account"].(string)] = amount
		sums[row["currency"].(string)] += amount
	}
	for name, want := range map[string]float64{"payments": received - refunded, "tax": 0, "deferred-revenue": -deferred, "revenue": 0, "credits": all} {
		if balance[name] != want {
			t.Errorf("the trial balance is %v, want %v of %s", balance, want, name)
		}
	}
	if want := map[string]float64{"EUR": 0, "CREDIT": 0}; !maps.Equal(sums, want) {
		t.Errorf("the sums of the trial balance are %v, want %v", sums, want)
	}
	if plans := ok(t, data, "books", "revenue", "--by", "plan", "--csv"); !strings.Contains(plans, "\ngrowth,EUR,,74.21,0.00,50.19,0.00,0.00,0.00,,provisional\n") {
		t.Errorf("books revenue by plan printed %s", plans)
	}
	if past := ok(t, data, "books", "usage", "--to", "2020-01", "--csv"); past != "month,paid_granted,paid_used,paid_broken,paid_refunded,promotional_granted,promotional_used,promotional_broken,promotional_refunded,state\n" {
		t.Errorf("books usage before all events printed %q", past)
	}
	month := time.Now().UTC().Format("2006-01")
	if out, errs, code := letterhead(t, data, "books", "close", month); code != 1 || !strings.Contains(errs, "has not ended") {
		t.Errorf("books close of the running month ended with %d: %q %q", code, out, errs)
	}
	if out, errs, code := letterhead(t, data, "books", "close", "November"); code != 2 || !strings.Contains(errs, "2026-11") {
		t.Errorf("books close November ended with %d: %q %q", code, out, errs)
	}
	if status := ok(t, data, "books", "status"); !strings.Contains(status, "running") {
		t.Errorf("books status printed %q, want the running month", status)
	}
	checkJournal(t, data, account, 549, float64(received-refunded)/100)
}

// Rule 14.
func TestBooksClose_GeneratedHistory_MonthsInOrder(t *testing.T) {
	data := filepath.Join(t.TempDir(), "data")
	ok(t, data, "dev", "generate", "--accounts", "5", "--events", "600", "--months", "4", "--until", "2026-04")
	fails := func(want string, args ...string) {
		t.Helper()
		if out, errs, code := letterhead(t, data, args...); code != 1 || !strings.Contains(errs, want) {
			t.Errorf("%v ended with %d: %q %q, want 1 and %q", args, code, out, errs, want)
		}
	}
	fails("2026-01 must be closed first", "books", "close", "2026-02")
	closing := ok(t, data, "books", "close", "2026-01", "--json")
	n := start(t, data, "LETTERHEAD_STARTER=off")
	if again := ok(t, data, "books", "close", "2026-01", "--json"); again != closing {
		t.Errorf("closing again printed %q, want %q", again, closing)
	}
	ok(t, data, "books", "close", "2026-02") // inside the server
	n.stop()
	if status := ok(t, data, "books", "status", "--json"); !strings.HasPrefix(status, closing) || strings.Count(status, `"closed"`) != 2 {
		t.Errorf("books status printed %q, want two closed months, the first as %q", status, closing)
	}
	january := filepath.Join(t.TempDir(), "january.jsonl")
	ok(t, data, "journal", "export", "--from", "2026-01", "--to", "2026-01", "--format", "jsonl", "-o", january)

	// The next month is not closed while the ledger has a fault.
	db, err := sql.Open("sqlite", filepath.Join(data, "letterhead.db"))
	testmust.Succeed(t, err)
	defer db.Close()
	var table string
	if err := db.QueryRow("SELECT name FROM sqlite_master WHERE type = 'table' AND name LIKE 'accounts%' AND sql LIKE '%balance%' ORDER BY name DESC").Scan(&table); err != nil {
		t.Fatal(err)
	}
	if _, err := db.Exec("UPDATE " + table + " SET balance = balance + 1 WHERE id IN (SELECT min(id) FROM " + table + ")"); err != nil {
		t.Fatal(err)
	}
	fails("2026-03 was not closed: the ledger has 1 fault(s)", "books", "close", "2026-03")
	if months := ok(t, data, "books", "status", "--json"); strings.Count(months, `"closed"`) != 2 {
		t.Errorf("books status printed %q, want two closed months", months)
	}
}

// checkJournal checks that the journal of an account closes at its balance and its deferred revenue.
func checkJournal(t *testing.T, data, account string, credits, deferred float64) {
	t.Helper()
	name := filepath.Join(t.TempDir(), "journal.jsonl")
	ok(t, data, "journal", "export", "--account", account, "--format", "jsonl", "-o", name)
	raw, err := os.ReadFile(name)
	testmust.Succeed(t, err)
	if out := ok(t, data, "journal", "export", "--account", account, "--format", "jsonl", "-o", "-"); out != string(raw) {
		t.Error("the journal on standard output differs from the file")
	}
	got := map[string]float64{}
	for line := range strings.Lines(string(raw)) {
		var tx struct {
			Postings []struct {
				LedgerAccount string  `json:"ledger_account"`
				Amount        float64 `json:"amount,string"`
			} `json:"postings"`
		}
		decode(t, line, &tx)
		for _, p := range tx.Postings {
			got[p.LedgerAccount] += p.Amount
		}
	}
	if got["credits"] != credits || math.Abs(got["deferred-revenue"]+deferred) > 0.001 {
		t.Errorf("the journal closes at %v credits and %v EUR deferred, want %v and %v", got["credits"], -got["deferred-revenue"], credits, deferred)
	}
	for _, bad := range [][]string{{}, {"-o", "x", "--format", "xml"}, {"-o", "x", "--from", "2026-02", "--to", "2026-01"}, {"-o", "x", "--account", "nobody"}, {"-o", "x", "--chart", "missing.yaml"}} {
		if out, errs, code := letterhead(t, data, append([]string{"journal", "export"}, bad...)...); code == 0 || !strings.HasPrefix(errs, "letterhead: ") {
			t.Errorf("journal export %v ended with %d: %q %q", bad, code, out, errs)
		}
	}
}
