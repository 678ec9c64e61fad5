package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"letterhead/domain/reconcile"
	"letterhead/internal/testmust"
)

// output runs a command line that must succeed, and returns what it prints.
func output(t *testing.T, folder string, args ...string) string {
	t.Helper()
	code, stdout, stderr := commandLine(t.Context(), append(args, "--data", folder)...)
	if code != exitOK {
		t.Fatalf("%v ended with %d: %s%s", args, code, stdout, stderr)
	}
	return stdout
}

// openAccount creates an account in a new data folder.
func openAccount(t *testing.T) (folder, id string) {
	t.Helper()
	folder = filepath.Join(t.TempDir(), "data")
	testmust.Succeed(t, openFolder(t, folder).Close())
	var created struct{ Account struct{ ID string } }
	testmust.Succeed(t, json.Unmarshal([]byte(output(t, folder, "account", "create", "--name", "Acme", "--plan", "growth", "--json")), &created))
	return folder, created.Account.ID
}

func TestBillingReconcile_Export_ReportsDifferencesAndFails(t *testing.T) {
	folder, id := openAccount(t)
	output(t, folder, "credits", "grant", "--account", id, "--amount", "1000", "--payment-id", "pi_1", "--money", "4900", "--currency", "EUR")
	output(t, folder, "credits", "refund", "--account", id, "--payment-id", "pi_1", "--refund-id", "re_1", "--amount", "100")
	export := filepath.Join(t.TempDir(), "balance.csv")
	write := func(rows string) {
		testmust.Succeed(t, os.WriteFile(export, []byte("reporting_category,payment_intent_id,source_id,gross,fee,net,currency,created_utc\n"+rows), 0o600))
	}
	// The time of the file is not that of the ledger, which is now.
	const year = "2000-01-01 00:00:00"
	all := "charge,pi_1,ch_1,49.00,1.50,47.50,eur," + year + "\nrefund,pi_1,re_1,-4.90,0.00,-4.90,eur," + year + "\npayout,,po_1,-20.00,0.00,-20.00,eur," + year + "\n"
	write(all)
	want := `result,kind,processor_currency,processor,ledger_currency,ledger,payment,id,account,at,line
clearing,opening,EUR,1.00,,,,,,,
clearing,received,EUR,49.00,,,,,,,
clearing,refunded,EUR,4.90,,,,,,,
clearing,disputed,EUR,0.00,,,,,,,
clearing,fees,EUR,1.50,,,,,,,
clearing,payouts,EUR,20.00,,,,,,,
clearing,other,EUR,0.00,,,,,,,
clearing,closing,EUR,23.60,,,,,,,
`
	if got := output(t, folder, "billing", "reconcile", export, "--opening", "eur=1.00", "--csv"); got != want {
		t.Errorf("output\n%s\nwant\n%s", got, want)
	}
	write(strings.Replace(all, "-4.90,0.00,-4.90", "-5.90,0.00,-5.90", 1) + "charge,pi_2,ch_2,=1,0,0,eur," + year + "\n")
	code, stdout, stderr := commandLine(t.Context(), "billing", "reconcile", export, "--data", folder)
	if code != exitFailure || stdout != "" || !strings.Contains(stderr, export+": line 5, column gross") {
		t.Errorf("a file with a mistake ended with %d: %s%s", code, stdout, stderr)
	}
	write(strings.Replace(all, "-4.90,0.00,-4.90", "-5.90,0.00,-5.90", 1) + "charge,pi_2,ch_2,7.00,0,7.00,eur," + year + "\n")
	code, stdout, stderr = commandLine(t.Context(), "billing", "reconcile", export, "--json", "--data", folder)
	if code != exitFailure || !strings.Contains(stderr, "1 missing from the ledger, 0 extra in it, 1 different") {
		t.Errorf("a file with differences ended with %d: %s", code, stderr)
	}
	var first struct {
		Result, Kind, ID, Account string
		PaymentID                 string `json:"payment_id"`
		Processor, Ledger         struct {
			Minor    int64
			Currency string
		}
	}
	if err := json.Unmarshal([]byte(strings.SplitAfter(stdout, "\n")[0]), &first); err != nil || first.Result != "different" || first.Account != id ||
		first.ID != "re_1" || first.Processor.Minor != -590 || first.Ledger.Minor != -490 || strings.Count(stdout, "\n") != 3 {
		t.Errorf("output %s, %v", stdout, err)
	}
	if _, err := reconcileFile(folder, reconcile.Options{}, func() (*reconcile.Ledger, error) { panic("the ledger is read first") }); err == nil {
		t.Error("a folder is read as a file")
	}
	write(strings.Replace(all, "49.00,1.50,47.50,eur", "49.00,1.50,47.50,usd", 1))
	if _, stdout, _ := commandLine(t.Context(), "billing", "reconcile", export, "--csv", "--data", folder); !strings.Contains(stdout, "different,payment,USD,49.00,EUR,49.00,pi_1,,"+id) {
		t.Errorf("two currencies: %s", stdout)
	}
	for _, c := range [][]string{{"billing", "reconcile", export, "--opening", "EUR=1.001"}, {"billing", "reconcile", export, "--opening", "euro=1"},
		{"billing", "reconcile", export, "--opening", "EUR=1,EUR=1"}, {"billing", "reconcile", export, "--opening", "EUR"}, {"billing", "reconcile", export, "--from", "2026-12", "--to", "2026-11"}} {
		if code, _, stderr := commandLine(t.Context(), append(c, "--data", folder)...); code != exitUsage {
			t.Errorf("%v ended with %d: %s", c, code, stderr)
		}
	}
}

func TestBillingReconcile_RecordFees_RecordsThoseThatAreMissing(t *testing.T) {
	folder, id := openAccount(t)
	for _, payment := range []string{"pi_1", "pi_2"} {
		output(t, folder, "credits", "grant", "--account", id, "--amount", "1000", "--payment-id", payment, "--money", "4900", "--currency", "EUR")
	}
	if got := output(t, folder, "payment", "fee", "pi_2", "--money", "145", "--fee-id", "by hand"); got != "payment pi_2: fee by hand of 1.45 EUR recorded\n" {
		t.Errorf("payment fee printed %s", got)
	}
	if got := output(t, folder, "payment", "fee", "pi_2", "--money", "145", "--fee-id", "by hand"); !strings.Contains(got, "nothing changed") {
		t.Errorf("a repeated payment fee printed %s", got)
	}
	for _, c := range []struct {
		args []string
		exit int
		want string
	}{
		{[]string{"payment", "fee", "pi_2"}, exitUsage, "--money is the fee in minor units"},
		{[]string{"payment", "fee", "pi_9", "--money", "1"}, exitFailure, "there is no payment pi_9"},
		{[]string{"payment", "fee", "pi_2", "--money", "1", "--currency", "euro"}, exitUsage, "ISO 4217 code"},
		{[]string{"payment", "fee", "pi_2", "--money", "146", "--fee-id", "by hand"}, exitFailure, "145 minor units of EUR, not 146"},
	} {
		if code, stdout, stderr := commandLine(t.Context(), append(c.args, "--data", folder)...); code != c.exit || !strings.Contains(stderr, c.want) {
			t.Errorf("%v ended with %d: %s%s", c.args, code, stdout, stderr)
		}
	}
	export := filepath.Join(t.TempDir(), "balance.csv")
	const year = "2000-01-01 00:00:00"
	rows := "balance_transaction_id,reporting_category,payment_intent_id,source_id,gross,fee,net,currency,created_utc\n" +
		"txn_1,charge,pi_1,ch_1,49.00,1.50,47.50,eur," + year + "\ntxn_2,charge,pi_2,ch_2,49.00,1.45,47.55,eur," + year + "\n" +
		",stripe_fee,,,-2.00,0.00,-2.00,eur," + year + "\n"
	testmust.Succeed(t, os.WriteFile(export, []byte(rows), 0o600))
	code, stdout, stderr := commandLine(t.Context(), "billing", "reconcile", export, "--csv", "--data", folder)
	if code != exitFailure || !strings.Contains(stdout, "\nmissing,fee,EUR,1.50,,,pi_1,txn_1,"+id+",2000-01-01T00:00:00Z,2\n") || strings.Count(stdout, ",fee,") != 1 {
		t.Errorf("before the fee is recorded: %d: %s%s", code, stdout, stderr)
	}
	if got := output(t, folder, "billing", "reconcile", export, "--record-fees", "--csv"); !strings.Contains(got, "\nrecorded,fee,EUR,1.50,EUR,1.50,pi_1,txn_1,"+id) {
		t.Errorf("output %s", got)
	}
	for range 2 {
		if got := output(t, folder, "billing", "reconcile", export, "--record-fees", "--csv"); strings.Contains(got, ",fee,") {
			t.Errorf("again: %s", got)
		}
	}
	if got := output(t, folder, "payment", "show", "pi_1"); !strings.Contains(got, "\nfees      1.50 EUR\n") || !strings.Contains(got, "\ntxn_1 ") {
		t.Errorf("payment show printed %s", got)
	}
	if got := output(t, folder, "books", "revenue", "--by", "account", "--csv"); !strings.HasSuffix(got, id+",EUR,0.00,98.00,0.00,0.00,0.00,0.00,2.95,98.00,provisional\n") {
		t.Errorf("books revenue printed %s", got)
	}
	if got := output(t, folder, "books", "trial-balance", "--csv"); !strings.Contains(got, "\nEUR,payments,payments,95.05,0.00,provisional\n") || !strings.Contains(got, "\nEUR,processor-fees,processor-fees,2.95,0.00,provisional\n") {
		t.Errorf("books trial-balance printed %s", got)
	}
}

func TestBooksTrialBalance_Chart_CodesMoneyAndCredits(t *testing.T) {
	folder, id := openAccount(t)
	output(t, folder, "credits", "grant", "--account", id, "--amount", "1000", "--payment-id", "pi_1", "--money", "4900", "--currency", "EUR", "--tax", "782")
	chart := filepath.Join(t.TempDir(), "codes.yaml")
	testmust.Succeed(t, os.WriteFile(chart, []byte("payments: \"1200\"\ncredits: C1\n"), 0o600))
	want := `currency,account,code,debit,credit,state
CREDIT,credits,C1,1050,0,provisional
CREDIT,credits-paid,credits-paid,0,1000,provisional
CREDIT,credits-promotional,credits-promotional,0,50,provisional
EUR,payments,1200,49.00,0.00,provisional
EUR,tax,tax,0.00,7.82,provisional
EUR,deferred-revenue,deferred-revenue,0.00,41.18,provisional
`
	if got := output(t, folder, "books", "trial-balance", "--chart", chart, "--csv"); got != want {
		t.Errorf("output\n%s\nwant\n%s", got, want)
	}
	table := strings.Fields(output(t, folder, "books", "trial-balance"))
	if got := strings.Join(table[max(0, len(table)-10):], " "); got != "CREDIT total 1050 1050 provisional EUR total 49.00 49.00 provisional" {
		t.Errorf("the table ends with %s", got)
	}
	if got := output(t, folder, "books", "trial-balance", "--at", "2020-01", "--csv"); got != "currency,account,code,debit,credit,state\n" {
		t.Errorf("before all events: %s", got)
	}
}

func TestBillingReconcile_OneFeeIsRejected_OthersAreRecorded(t *testing.T) {
	folder, id := openAccount(t)
	for _, payment := range []string{"pi_1", "pi_2"} {
		output(t, folder, "credits", "grant", "--account", id, "--amount", "1000", "--payment-id", payment, "--money", "4900", "--currency", "EUR")
	}
	output(t, folder, "payment", "fee", "pi_2", "--money", "100", "--fee-id", "txn_1") // the id of a fee of pi_1
	export := filepath.Join(t.TempDir(), "balance.csv")
	const year = "2000-01-01 00:00:00"
	rows := "balance_transaction_id,reporting_category,payment_intent_id,source_id,gross,fee,net,currency,created_utc\n" +
		"txn_1,charge,pi_1,ch_1,49.00,1.50,47.50,eur," + year + "\ntxn_2,charge,pi_2,ch_2,49.00,1.45,47.55,eur," + year + "\n"
	testmust.Succeed(t, os.WriteFile(export, []byte(rows), 0o600))
	code, stdout, stderr := commandLine(t.Context(), "billing", "reconcile", export, "--record-fees", "--csv", "--data", folder)
	if code != exitFailure || !strings.Contains(stderr, "record fee txn_1 of payment pi_1") || strings.Contains(stderr, "txn_2") ||
		!strings.Contains(stdout, "\nmissing,fee,EUR,1.50,,,pi_1,txn_1,") || !strings.Contains(stdout, "\nrecorded,fee,EUR,1.45,EUR,1.45,pi_2,txn_2,") {
		t.Errorf("a rejected fee ended with %d: %s%s", code, stdout, stderr)
	}
}

func TestBillingReconcile_PaymentIDOfTwoAccounts_RecordsNoFee(t *testing.T) {
	folder, id := openAccount(t)
	var created struct{ Account struct{ ID string } }
	testmust.Succeed(t, json.Unmarshal([]byte(output(t, folder, "account", "create", "--name", "Other", "--json")), &created))
	for _, account := range []string{id, created.Account.ID} {
		output(t, folder, "credits", "grant", "--account", account, "--amount", "1000", "--payment-id", "pi_1", "--money", "4900", "--currency", "EUR")
	}
	export := filepath.Join(t.TempDir(), "balance.csv")
	rows := "balance_transaction_id,reporting_category,payment_intent_id,source_id,gross,fee,net,currency,created_utc\ntxn_1,charge,pi_1,ch_1,49.00,1.50,47.50,eur,2000-01-01 00:00:00\n"
	testmust.Succeed(t, os.WriteFile(export, []byte(rows), 0o600))
	reconciled := func(exit int) string {
		t.Helper()
		code, stdout, stderr := commandLine(t.Context(), "billing", "reconcile", export, "--record-fees", "--csv", "--data", folder)
		if code != exit {
			t.Errorf("ended with %d: %s%s", code, stdout, stderr)
		}
		return stdout
	}
	if got := reconciled(exitFailure); !strings.Contains(got, "\nmissing,fee,EUR,1.50,,,pi_1,txn_1,,2000-01-01T00:00:00Z,2\n") {
		t.Errorf("output %s", got)
	}
	output(t, folder, "payment", "fee", "pi_1", "--account", created.Account.ID, "--money", "150")
	if got := reconciled(exitOK); strings.Contains(got, ",fee,") {
		t.Errorf("after the fee was recorded by hand: %s", got)
	}
}
