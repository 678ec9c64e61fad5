package journal

import (
	"bytes"
	"context"
	"encoding/csv"
	"encoding/json"
	"fmt"
	"math/big"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"letterhead/domain/account"
	"letterhead/eventschemas"
	"letterhead/internal/eventlog"
	"letterhead/internal/eventlog/sqlite"
	"letterhead/internal/eventlog/sqlite/sqlitetest"
	"letterhead/internal/testmust"
)

// world is a log with a history.
type world struct {
	t       testing.TB
	log     *sqlite.Log
	n       uint64         // events
	pending []eventlog.Run // appended but not stored yet
	rev     map[string]uint64
}

func newWorld(t testing.TB) *world {
	return &world{t: t, log: sqlitetest.Open(t), rev: map[string]uint64{}}
}

// append appends events of an account that occur at a time.
func (w *world) append(at time.Time, accountID string, events ...eventschemas.Event) {
	w.t.Helper()
	var proposed []eventlog.Proposed
	for _, ev := range events {
		enc := testmust.Get(eventschemas.Encode(ev))(w.t)
		w.n++
		proposed = append(proposed, eventlog.Proposed{ID: uuid.NewSHA1(uuid.NameSpaceOID, fmt.Append(nil, w.n)), Type: enc.Type, SchemaVersion: enc.SchemaVersion, OccurredAt: at, Data: enc.Data})
	}
	w.pending = append(w.pending, eventlog.Run{Stream: account.Stream(accountID), Expected: eventlog.After(w.rev[accountID]), Events: proposed})
	w.rev[accountID] += uint64(len(events))
}

// stored returns the log with all events.
func (w *world) stored() *sqlite.Log {
	w.t.Helper()
	for len(w.pending) > 0 {
		runs, events := 0, 0
		for runs < len(w.pending) && events+len(w.pending[runs].Events) <= eventlog.MaxImportEvents {
			events += len(w.pending[runs].Events)
			runs++
		}
		testmust.Succeed(w.t, w.log.Import(context.Background(), w.pending[:runs]))
		w.pending = w.pending[runs:]
	}
	return w.log
}

// write returns an export.
func (w *world) write(o Options) []byte {
	w.t.Helper()
	if o.Chart == (Chart{}) {
		o.Chart = DefaultChart()
	}
	var b bytes.Buffer
	testmust.Succeed(w.t, Write(context.Background(), w.stored(), o, &b))
	return b.Bytes()
}

// transaction is a line of an export in JSONL.
type transaction struct {
	Transaction string `json:"transaction"`
	Date        string `json:"date"`
	Time        string `json:"time"`
	Event       string `json:"event"`
	Account     string `json:"account"`
	Revision    *int   `json:"revision"`
	PaymentID   string `json:"payment_id"`
	Reference   string `json:"reference"`
	LateFor     string `json:"late_for"`
	Plan        string `json:"plan"`
	Postings    []struct {
		Code          string `json:"code"`
		LedgerAccount string `json:"ledger_account"`
		Account       string `json:"account"`
		Commodity     string `json:"commodity"`
		Amount        string `json:"amount"`
	} `json:"postings"`
}

func (t transaction) String() string {
	var postings []string
	for _, p := range t.Postings {
		postings = append(postings, fmt.Sprintf("%s %s %s", p.Code, p.Amount, p.Commodity))
	}
	return t.Event + ": " + strings.Join(postings, ", ")
}

func (w *world) transactions(o Options) []transaction {
	w.t.Helper()
	o.Format = JSONL
	return parsed(w.t, w.write(o))
}

// parsed returns the transactions of an export in JSONL.
func parsed(tb testing.TB, export []byte) []transaction {
	tb.Helper()
	var all []transaction
	for line := range strings.Lines(string(export)) {
		var t transaction
		if err := json.Unmarshal([]byte(line), &t); err != nil {
			tb.Fatalf("%v in %s", err, line)
		}
		all = append(all, t)
	}
	return all
}

// sums adds the amounts of transactions by ledger account, customer and commodity.
func sums(t testing.TB, all []transaction) map[string]*big.Rat {
	t.Helper()
	total := map[string]*big.Rat{}
	for _, tx := range all {
		zero := map[string]*big.Rat{}
		for _, p := range tx.Postings {
			add(total, p.LedgerAccount+" "+p.Account+" "+p.Commodity, rat(t, p.Amount))
			add(zero, p.Commodity, rat(t, p.Amount))
		}
		for commodity, sum := range zero {
			if sum.Sign() != 0 {
				t.Errorf("transaction %s sums to %s %s", tx.Transaction, sum, commodity)
			}
		}
	}
	for name, sum := range total {
		if sum.Sign() == 0 {
			delete(total, name)
		}
	}
	return total
}

func add(to map[string]*big.Rat, name string, amount *big.Rat) {
	if to[name] == nil {
		to[name] = new(big.Rat)
	}
	to[name].Add(to[name], amount)
}

func rat(t testing.TB, text string) *big.Rat {
	t.Helper()
	r, ok := new(big.Rat).SetString(text)
	if !ok {
		t.Fatalf("amount %q is not a number", text)
	}
	return r
}

// rows returns the rows of an export in CSV, with the header.
func (w *world) rows(o Options) [][]string {
	w.t.Helper()
	o.Format = CSV
	rows := testmust.Get(csv.NewReader(bytes.NewReader(w.write(o))).ReadAll())(w.t)
	return rows
}

const (
	first  = "0b8f41f2-50ae-4f4c-9a3c-1de0a4a5c001"
	second = "f0c4a521-6f0e-4c35-9a55-1d1c2d3e4f50"
)

func day(month time.Month, day int) time.Time {
	return time.Date(2026, month, day, 12, 30, 0, 5000, time.UTC)
}

func granted(id string, credits, minor int64, currency string, tax int64) eventschemas.Event {
	g := eventschemas.CreditsGranted{GrantID: id, Kind: "topup", Credits: credits, PaymentID: id}
	if currency != "" {
		g.Money, g.Tax = &eventschemas.Money{Minor: minor, Currency: currency}, tax
	}
	return g
}

func promotional(id string, credits int64) eventschemas.Event {
	return eventschemas.CreditsGranted{GrantID: id, Kind: "free", Credits: credits}
}

func charged(id string, credits int64) eventschemas.Event {
	return eventschemas.CreditsCharged{ChargeID: id, Credits: credits, RequestID: "r-" + id, BrandID: "7f0c4a52-6f0e-5c35-9a55-1d1c2d3e4f50", Domain: "example.com", KeyID: "key-1"}
}

func reversed(id string, credits int64) eventschemas.Event {
	return eventschemas.ChargeReversed{ChargeID: id, Credits: credits, RequestID: "r-" + id, Reason: "operator"}
}

func refunded(id, payment string, credits int64) eventschemas.Event {
	return eventschemas.PaymentRefunded{RefundID: id, PaymentID: payment, Credits: credits}
}

func fee(id, payment string, minor int64) eventschemas.Event {
	return eventschemas.PaymentFeeRecorded{FeeID: id, PaymentID: payment, Money: eventschemas.Money{Minor: minor, Currency: "EUR"}}
}

// story is a short history of two accounts over three months. Its texts are those that formats must quote.
func story(t testing.TB) *world {
	w := newWorld(t)
	w.append(day(9, 1), first, eventschemas.AccountOpened{AccountID: first, Holder: "h", Plan: "free"}, promotional("free", 10))
	w.append(day(9, 30), first, granted("=pi,\"1\"\n;(2)", 100, 11900, "EUR", 1900))
	w.append(day(10, 2), second, granted("pi_2", 3, 1000, "JPY", 91), granted("pi_3", 1, 1, "KWD", 0))
	w.append(day(10, 5), first, charged("c1", 12))
	w.append(day(10, 5), second, charged("c2", 4))
	w.append(day(10, 6), first, reversed("c1", 12))
	w.append(day(11, 3), second, refunded("re_1", "pi_2", 3))
	w.append(day(11, 4), first, charged("c3", 10), refunded("-re_2", "=pi,\"1\"\n;(2)", 50))
	return w
}
