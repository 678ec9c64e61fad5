package operations_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"letterhead/commands"
	"letterhead/domain/account"
	"letterhead/eventschemas"
	"letterhead/internal/assets"
	"letterhead/internal/eventlog"
	"letterhead/internal/sqlstore"
	"letterhead/internal/testmust"
	"letterhead/operations"
	"letterhead/projections"
	"letterhead/projections/accounts"
	"letterhead/projections/engine"
	"letterhead/projections/projectionstest"
	"letterhead/workers/backup"
	"letterhead/workers/checkpoint"
)

// audited is a log with accounts, and the parts of an audit.
type audited struct {
	*projectionstest.Env
	t         *testing.T
	heads     map[string]eventschemas.Hash
	counts    map[string]uint64
	model     *accounts.Model
	runner    *engine.Runner
	stop      func()
	snapshots *sqlstore.Snapshots
	audits    *operations.Audits
}

func openAudited(t *testing.T, e *projectionstest.Env) *audited {
	w := &audited{Env: e, t: t, heads: map[string]eventschemas.Hash{}, counts: map[string]uint64{}, model: accounts.New(e.Store)}
	w.runner, w.stop = e.Start(engine.Config{}, w.model)
	w.snapshots = testmust.Get(sqlstore.NewSnapshots(t.Context(), e.Store))(t)
	reads := &operations.Reads{Log: e.Log, Runner: w.runner, Alive: t.Context(), Indexed: func(context.Context, eventlog.Position) error { return nil }}
	w.audits = &operations.Audits{Reads: reads, Log: e.Log, Model: w.model, Ledger: &checkpoint.Ledger{Log: e.Log, Accounts: w.model, Keeper: testmust.Get(assets.Open(t.Context(), "file://"+t.TempDir()))(t)}, Snapshots: w.snapshots, VerifyLog: func(context.Context) error { return nil }}
	return w
}

// append appends events to the stream of an account. change, which may be nil, changes the last one after it was hashed.
func (w *audited) append(id string, change func(*eventlog.Proposed), events ...eventschemas.Event) {
	w.t.Helper()
	stream, first := account.Stream(id), w.counts[id]
	var proposed []eventlog.Proposed
	for i, ev := range events {
		enc := testmust.Get(eventschemas.Encode(ev))(w.t)
		p := eventlog.Proposed{ID: eventschemas.EventID(stream, fmt.Sprint(w.counts[id]), enc.Type, ""), Type: enc.Type,
			SchemaVersion: enc.SchemaVersion, OccurredAt: time.Date(2026, 11, 1, 0, 0, int(w.counts[id]), 0, time.UTC), Data: enc.Data}
		w.heads[id] = commands.Chain.Link(w.heads[id], stream, w.counts[id], &p)
		if change != nil && i == len(events)-1 {
			change(&p)
		}
		proposed, w.counts[id] = append(proposed, p), w.counts[id]+1
	}
	testmust.Get(w.Log.Append(w.t.Context(), stream, eventlog.After(first), proposed))(w.t)
}

// open opens an account with 10 credits, of which it spends 1.
func (w *audited) open(ids ...string) {
	w.t.Helper()
	for _, id := range ids {
		w.append(id, nil, eventschemas.AccountOpened{AccountID: id, Holder: "holder-" + id, Plan: "free"},
			eventschemas.CreditsGranted{GrantID: "g", Kind: "free", Credits: 10}, charged(1))
	}
}

func charged(credits int64) eventschemas.Event {
	return eventschemas.CreditsCharged{ChargeID: fmt.Sprint("c", credits), BrandID: "b", Domain: "acme.com", Credits: credits}
}

// rows changes the read model. The text has its table as {accounts}.
func (w *audited) rows(statement string) {
	w.t.Helper()
	var text string
	testmust.Succeed(w.t, w.model.Handle().Read(func(_ projections.Queryer, tables *projections.Tables) error {
		text = tables.SQL(statement)
		return nil
	}))
	w.Exec(text)
}

func (w *audited) audit(id string) (operations.Audit, []string) {
	w.t.Helper()
	audit, err := w.audits.Audit(w.Context(), id, func(backup.Progress) {})
	testmust.Succeed(w.t, err)
	var texts []string
	for _, f := range audit.Findings {
		texts = append(texts, f.Error())
	}
	return audit, texts
}

// The audit of all accounts finds what the audit of each finds, and reports it with the same words.
// Rule 1.
func TestAudit_AllAccounts_FindsWhatEachAuditFinds(t *testing.T) {
	projectionstest.Each(t, func(t *testing.T, e *projectionstest.Env) {
		w := openAudited(t, e)
		for i := range 50 {
			w.open(fmt.Sprint("good", i))
		}
		faults := map[string]string{
			"chain":    "hash chain is broken at revision 3 of account-chain: its hash is not that of its content",
			"negative": "account negative at revision 3: CreditsCharged takes the balance to -91, which only a refund may",
			"balance":  "account balance at revision 2: its row in the read model: balance is 5000, but the events add up to 9",
			"status":   `account status at revision 2: its row in the read model: it says "closed", the events say "active"`,
			"plan":     `account plan at revision 2: its row in the read model: it says plan "pro", the events say "free"`,
			"holder":   "account holder at revision 2: its row in the read model: it names another holder than the events",
			"lost":     "account lost at revision 0: the read model lacks the account",
			"behind":   "account behind at revision 2: its row in the read model lacks this event and those after it",
			"ahead":    "account ahead at revision 99: its row in the read model is past the stream's end, which has 3 events",
			"snapshot": "account snapshot at revision 2: its snapshot: balance is 5000, but the events add up to 9",
			"future":   "account future at revision 99: its snapshot is past the stream's end, which has 3 events",
			"damaged":  "snapshot is damaged",
		}
		for id := range faults {
			w.open(id)
		}
		w.append("chain", func(p *eventlog.Proposed) { p.OccurredAt = p.OccurredAt.Add(time.Second) }, charged(2))
		w.append("negative", nil, charged(100))
		w.append("good1", nil, eventschemas.PlanChanged{From: "free", To: "growth"}, eventschemas.AccountSuspended{Reason: "r"})
		w.append("good2", nil, eventschemas.PaymentRefunded{RefundID: "r", PaymentID: "p", Credits: 100})
		e.CatchUp(w.runner)
		for _, id := range []string{"good3", "snapshot", "future", "damaged"} {
			testmust.Succeed(t, commands.LeaveSnapshot(t.Context(), e.Log, w.snapshots, id, nil))
		}
		change := func(id string, revision uint64, from, to string) {
			t.Helper()
			_, state, _, err := w.snapshots.Load(t.Context(), account.Stream(id), account.FoldVersion)
			testmust.Succeed(t, err)
			changed := strings.Replace(string(state), from, to, 1)
			testmust.Succeed(t, w.snapshots.Discard(t.Context(), account.Stream(id), account.FoldVersion))
			testmust.Succeed(t, w.snapshots.Save(t.Context(), account.Stream(id), account.FoldVersion, revision, []byte(changed)))
		}
		change("snapshot", 2, `"balance":9,`, `"balance":5000,`)
		change("future", 99, "", "")
		e.Exec("UPDATE stream_snapshots SET revision = revision - 1 WHERE stream = 'account-damaged'")
		w.append("good3", nil, charged(3))
		e.CatchUp(w.runner)

		all, texts := w.audit("")
		if all.Accounts != 50+len(faults) || all.Events < 3*62 || len(texts) != 5 {
			t.Errorf("before the rows are damaged: %+v", all)
		}
		w.rows(`UPDATE {accounts} SET balance = 5000 WHERE id = 'balance'`)
		w.rows(`UPDATE {accounts} SET status = 'closed' WHERE id = 'status'`)
		w.rows(`UPDATE {accounts} SET plan = 'pro' WHERE id = 'plan'`)
		w.rows(`UPDATE {accounts} SET holder = 'another' WHERE id = 'holder'`)
		w.rows(`UPDATE {accounts} SET revision = 1, balance = 10 WHERE id = 'behind'`)
		w.rows(`UPDATE {accounts} SET revision = 99 WHERE id = 'ahead'`)
		w.rows(`DELETE FROM {accounts} WHERE id = 'lost'`)
		all, texts = w.audit("")
		if len(texts) != all.Broken {
			t.Errorf("%d findings, of which %d are listed", all.Broken, len(texts))
		}
		var each []string
		for id, want := range faults {
			_, found := w.audit(id)
			if !slices.ContainsFunc(found, func(text string) bool { return strings.Contains(text, want) }) {
				t.Errorf("the audit of %s: %q, want %q", id, found, want)
			}
			each = append(each, found...)
		}
		slices.Sort(each)
		slices.Sort(texts)
		if !slices.Equal(texts, each) {
			t.Errorf("of all accounts: %q\nof each: %q", texts, each)
		}
		w.rows(`UPDATE {accounts} SET id = 'nobody' WHERE id = 'holder'`)
		const extra = "account nobody at revision 2: its row in the read model is past the stream's end, which has 0 events"
		if _, texts = w.audit(""); !slices.Contains(texts, extra) || len(texts) != len(each)+1 {
			t.Errorf("with a row of no account: %q, want also %q", texts, extra)
		}
	})
}

// Events that this release cannot decode stop the fold of the read model, and are findings.
// Rule 1.
func TestAudit_EventsThatCannotBeDecoded_AreFound(t *testing.T) {
	projectionstest.Each(t, func(t *testing.T, e *projectionstest.Env) {
		w := openAudited(t, e)
		w.open("good", "bad")
		w.append("bad", func(p *eventlog.Proposed) { p.Data = []byte(`{"credits":"many"}`) }, charged(2))
		w.append("good", nil, charged(2))
		broken := errors.New("a page of the log is damaged")
		w.audits.VerifyLog = func(context.Context) error { return broken }
		audit, texts := w.audit("")
		if audit.Accounts != 2 || len(texts) != 3 || texts[0] != broken.Error() || !strings.Contains(texts[1], "could not be compared") ||
			!strings.Contains(texts[2], "hash chain is broken at revision 3 of account-bad") {
			t.Errorf("%+v: %q", audit, texts)
		}
	})
}

// beside calls do after the audit has waited for the read model, as if a server ran beside it.
type beside struct {
	*sqlstore.Snapshots
	do func()
}

func (b beside) Each(ctx context.Context, f func(stream string, foldVersion int, revision uint64) error) error {
	b.do()
	return b.Snapshots.Each(ctx, f)
}

// Events of a server beside the audit may not be in the read model yet.
func TestAudit_EventsDuringTheAudit_AreNoFindings(t *testing.T) {
	projectionstest.Each(t, func(t *testing.T, e *projectionstest.Env) {
		w := openAudited(t, e)
		w.open("good")
		w.audits.Snapshots = beside{w.snapshots, func() {
			w.stop()
			w.append("good", nil, charged(2))
			w.open("later")
		}}
		if audit, texts := w.audit(""); audit.Accounts != 1 || len(texts) != 0 {
			t.Errorf("%+v", audit)
		}
	})
}

// emptied is a log that has deleted a stream, but still has its events in the global order, as EventStoreDB has them
// until it is scavenged.
type emptied struct {
	eventlog.Log
	stream string
}

func (l emptied) ReadStream(ctx context.Context, stream string, from uint64, d eventlog.Direction, limit int) ([]eventlog.Recorded, error) {
	if stream == l.stream {
		return nil, nil
	}
	return l.Log.ReadStream(ctx, stream, from, d, limit)
}

// A shared event store verifies itself, but an operator can delete a stream in it.
// Rule 1.
func TestAudit_DeletedStream_IsFound(t *testing.T) {
	projectionstest.Each(t, func(t *testing.T, e *projectionstest.Env) {
		w := openAudited(t, e)
		w.open("good", "deleted")
		w.audits.Log, w.audits.VerifyLog = emptied{e.Log, account.Stream("deleted")}, nil
		const want = "account deleted at revision 2: its row in the read model is past the stream's end, which has 0 events"
		if audit, texts := w.audit(""); audit.Accounts != 2 || !slices.Equal(texts, []string{want}) {
			t.Errorf("%+v, want %q", audit, want)
		}
	})
}

// away is a store that cannot be reached.
type away struct{ checkpoint.Keeper }

func (away) Kept(context.Context, string, int64) ([]byte, error) {
	return nil, assets.ErrUnavailable
}

func TestAudit_KeptCheckpointsCannotBeReached_IsNoFaultOfTheLedger(t *testing.T) {
	w := openAudited(t, projectionstest.Open(t))
	w.audits.Ledger.Keeper = away{}
	if found, err := w.audits.Audit(t.Context(), "", func(backup.Progress) {}); !errors.Is(err, assets.ErrUnavailable) {
		t.Errorf("%d faults, %v; want the error of the store", found.Broken, err)
	}
}
