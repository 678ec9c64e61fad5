package checkpoint_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"golang.org/x/mod/sumdb/note"
	"golang.org/x/sync/errgroup"

	"letterhead/commands"
	"letterhead/domain/account"
	"letterhead/domain/proof"
	"letterhead/domain/statement"
	"letterhead/eventschemas"
	"letterhead/internal/assets"
	"letterhead/internal/eventlog"
	"letterhead/internal/eventlog/sqlite"
	"letterhead/internal/sqlstore"
	"letterhead/internal/testmust"
	"letterhead/projections/accounts"
	"letterhead/projections/engine"
	"letterhead/projections/projectionstest"
	"letterhead/workers/checkpoint"
)

const (
	origin = "brands.example.com/ledger"
	first  = "1c0c4a52-6f0e-4c35-9a55-1d1c2d3e4f51"
	second = "2c0c4a52-6f0e-4c35-9a55-1d1c2d3e4f52"
)

var november = time.Date(2026, 11, 1, 0, 0, 0, 0, time.UTC)

// world is a log with accounts, their read model, and a maker of checkpoints.
type world struct {
	*testing.T
	log     *sqlite.Log
	store   *sqlstore.Store
	heads   map[string]eventschemas.Hash
	next    map[string]uint64
	private string
	now     time.Time
	maker   *checkpoint.Maker
}

func newWorld(t *testing.T) *world {
	e := projectionstest.Open(t)
	w := &world{T: t, log: e.Log, store: e.Store, heads: map[string]eventschemas.Hash{}, next: map[string]uint64{}, now: november.AddDate(0, 0, 20)}
	var err error
	if w.private, err = proof.NewKey(origin); err != nil {
		t.Fatal(err)
	}
	model := accounts.New(e.Store)
	r, _ := e.Start(engine.Config{}, model)
	w.maker = &checkpoint.Maker{
		Ledger: checkpoint.Ledger{Log: e.Log, Accounts: model, CaughtUp: r.CatchUp, Keeper: newKeeper(t),
			Keys: func() (note.Verifiers, error) {
				return proof.ParseKeys(testmust.Get(proof.PublicKey(w.private))(t))
			}},
		Now: func() time.Time { return w.now },
		Key: func(string) (note.Signer, error) { return note.NewSigner(w.private) },
	}
	return w
}

func newKeeper(t *testing.T) *assets.Store {
	store := testmust.Get(assets.Open(t.Context(), "file://"+t.TempDir()))(t)
	t.Cleanup(func() { testmust.Succeed(t, store.Close()) })
	return store
}

// append appends events to an account's stream.
func (w *world) append(at time.Time, id string, bodies ...eventschemas.Event) {
	w.Helper()
	stream := account.Stream(id)
	for _, body := range bodies {
		enc := testmust.Get(eventschemas.Encode(body))(w)
		n := w.next[id]
		ev := eventlog.Proposed{ID: uuid.NewSHA1(uuid.NameSpaceOID, fmt.Append(nil, id, n)), Type: enc.Type, SchemaVersion: enc.SchemaVersion,
			OccurredAt: at, Data: enc.Data, Metadata: eventlog.Metadata{Actor: "operator:test", RequestID: "r"}}
		w.heads[id] = commands.Chain.Link(w.heads[id], stream, n, &ev)
		testmust.Succeed(w, testmust.Err(w.log.Append(w.Context(), stream, eventlog.After(n), []eventlog.Proposed{ev})))
		w.next[id]++
	}
}

// open opens an account and grants credits.
func (w *world) open(at time.Time, id string) {
	w.Helper()
	w.append(at, id, eventschemas.AccountOpened{AccountID: id, Holder: "h", Plan: "free"}, eventschemas.CreditsGranted{GrantID: "g", Kind: "free", Credits: 50})
}

func charged(id string) eventschemas.CreditsCharged {
	return eventschemas.CreditsCharged{ChargeID: id, Credits: 1, RequestID: id, BrandID: "b", Domain: "acme.com", RecordRevision: 1}
}

func (w *world) make() *checkpoint.Made {
	w.Helper()
	made := testmust.Get(w.maker.Make(w.Context()))(w)
	return made
}

func (w *world) prove(o checkpoint.Options) (string, error) {
	var file bytes.Buffer
	err := w.maker.Prove(context.Background(), o, &file)
	return file.String(), err
}

// check returns what a proof of an account's month shows.
func (w *world) check(o checkpoint.Options) *proof.Report {
	w.Helper()
	file := testmust.Get(w.prove(o))(w)
	public := testmust.Get(proof.PublicKey(w.private))(w)
	keys := testmust.Get(proof.ParseKeys(public))(w)
	var earlier *proof.Earlier
	if o.Since != nil {
		earlier = &proof.Earlier{Note: o.Since}
	}
	report := testmust.Get(proof.Check(strings.NewReader(file), keys, earlier))(w)
	return report
}

func TestMake_CoversWhatPrecedesIt(t *testing.T) {
	w := newWorld(t)
	if _, err := w.prove(checkpoint.Options{AccountID: first, Month: november}); !errors.Is(err, checkpoint.ErrNone) {
		t.Errorf("a proof without a checkpoint: %v, want ErrNone", err)
	}
	if empty := w.make(); empty.Accounts != 0 || empty.Note.Size != 1 {
		t.Errorf("the first checkpoint is %+v, want one of no accounts", empty)
	}
	w.open(november, second)
	w.open(november, first)
	made := w.make()
	if made.Accounts != 2 || made.Note.Size != 2 || !made.Time.Equal(w.now) || made.Note.Origin != origin {
		t.Errorf("the checkpoint is %+v, want one of two accounts", made)
	}
	// Later events and accounts are not in it.
	w.append(november, first, charged("c1"), charged("c2"))
	w.open(november, "3c0c4a52-6f0e-4c35-9a55-1d1c2d3e4f53")
	for _, id := range []string{first, second} {
		if r := w.check(checkpoint.Options{AccountID: id, Month: november}); r.Events != 2 || !r.Provisional || r.Checkpoint != made.Checkpoint {
			t.Errorf("the proof of %s shows %+v, want two events", id, r)
		}
	}
	if _, err := w.prove(checkpoint.Options{AccountID: "3c0c4a52-6f0e-4c35-9a55-1d1c2d3e4f53", Month: november}); !errors.Is(err, checkpoint.ErrNotInCheckpoint) {
		t.Errorf("proof of a later account: %v, want ErrNotInCheckpoint", err)
	}
	w.now = november.AddDate(0, 1, 0)
	if w.make(); w.check(checkpoint.Options{AccountID: first, Month: november}).Events != 4 {
		t.Error("the next checkpoint lacks events")
	}
	if _, err := w.prove(checkpoint.Options{AccountID: first, Month: november.AddDate(0, 2, 0)}); !errors.Is(err, statement.ErrNotBegun) {
		t.Errorf("proof of a month that has not begun: %v, want ErrNotBegun", err)
	}
	if _, err := w.prove(checkpoint.Options{AccountID: first, Month: november.AddDate(0, -1, 0)}); !errors.Is(err, statement.ErrNoEvents) {
		t.Errorf("proof of a month before the account: %v, want ErrNoEvents", err)
	}
}

// TestProve_ManyAccountsAndLaterEvents_LeadsToEachAccount has more accounts than a page, and more events after the
// checkpoint than are read at a time.
func TestProve_ManyAccountsAndLaterEvents_LeadsToEachAccount(t *testing.T) {
	w := newWorld(t)
	for i := range 600 {
		id := fmt.Sprintf("5f0c6a1e-6f0b-4f6e-9d51-%012d", i*7919%600)
		w.append(november, id, eventschemas.AccountOpened{AccountID: id, Holder: "h", Plan: "free"})
	}
	w.open(november, first)
	if made := w.make(); made.Accounts != 601 {
		t.Fatalf("%d accounts, want 601", made.Accounts)
	}
	for i := range 300 {
		w.append(november, first, charged(fmt.Sprint(i)))
	}
	// Accounts that were opened later are not in the checkpoint, however many events they have.
	for i := range 40 {
		id := fmt.Sprintf("6f0c6a1e-6f0b-4f6e-9d51-%012d", i)
		w.append(november, id, eventschemas.AccountOpened{AccountID: id, Holder: "h", Plan: "free"})
		for n := range i {
			w.append(november, id, charged(fmt.Sprint(n)))
		}
	}
	for _, id := range []string{first, "5f0c6a1e-6f0b-4f6e-9d51-000000000000", "5f0c6a1e-6f0b-4f6e-9d51-000000000512", "5f0c6a1e-6f0b-4f6e-9d51-000000000599"} {
		if r := w.check(checkpoint.Options{AccountID: id, Month: november}); r.AccountID != id || id == first && r.Events != 2 {
			t.Errorf("the proof of %s shows %+v", id, r)
		}
	}
}

func TestEnsure_RecentCheckpoint_IsReturned(t *testing.T) {
	w := newWorld(t)
	made := w.make()
	w.now = w.now.Add(time.Hour)
	for _, since := range []time.Time{{}, november, made.Time} {
		if got, err := w.maker.Ensure(t.Context(), since); err != nil || got.Note.Size != 1 {
			t.Errorf("since %s: %+v, %v, want the first checkpoint", since, got, err)
		}
	}
	for i, since := range []time.Time{made.Time.Add(time.Microsecond), w.now.AddDate(1, 0, 0)} {
		got, err := w.maker.Ensure(t.Context(), since)
		if err != nil || got.Note.Size != uint64(2) || !got.Time.Equal(w.now) {
			t.Errorf("%d: since %s: %+v, %v, want one of now", i, since, got, err)
		}
	}
	w.now = w.now.Add(-30 * time.Minute) // the clock was set back
	if got := w.make(); !got.Time.Equal(made.Time.Add(time.Hour)) {
		t.Errorf("the checkpoint has the time %s, before that of the one before it", got.Time)
	}
}

func TestEnsure_Interrupted_IsContinued(t *testing.T) {
	w := newWorld(t)
	w.open(november, first)
	key := w.maker.Key
	calls := 0
	w.maker.Key = func(origin string) (note.Signer, error) {
		if calls++; calls == 2 { // between the two events
			return nil, errors.New("the process ended")
		}
		return key(origin)
	}
	if _, err := w.maker.Make(t.Context()); err == nil {
		t.Fatal("the interrupted checkpoint succeeds")
	}
	begun := w.now
	w.now = w.now.Add(time.Hour)
	w.append(november, first, charged("c"))
	made, err := w.maker.Ensure(t.Context(), time.Time{})
	if err != nil || made.Note.Size != 1 || !made.Time.Equal(begun) {
		t.Errorf("%+v, %v, want the checkpoint that had begun", made, err)
	}
	if r := w.check(checkpoint.Options{AccountID: first, Month: november}); r.Events != 2 {
		t.Errorf("the proof has %d events, want those before the checkpoint began", r.Events)
	}
	if last := w.make(); last.Note.Size != 2 {
		t.Errorf("Make after it returns %+v, want another checkpoint", last)
	}
}

func TestMake_ManyAtOnce_MakeOneLog(t *testing.T) {
	w := newWorld(t)
	w.open(november, first)
	var group errgroup.Group
	for range 8 {
		group.Go(func() error {
			_, err := w.maker.Make(context.Background())
			return err
		})
	}
	testmust.Succeed(t, group.Wait())
	old := testmust.Get(w.maker.Ensure(t.Context(), time.Time{}))(t)
	w.make()
	if r := w.check(checkpoint.Options{AccountID: first, Month: november, Since: old.Note}); r.Since.Size != old.Note.Size {
		t.Errorf("the proof shows %+v, want that it continues checkpoint %d", r, old.Note.Size)
	}
}

func TestProve_Since_OnlyOwnCheckpoints(t *testing.T) {
	w := newWorld(t)
	w.open(november, first)
	var notes []*proof.Note
	for range 5 {
		notes = append(notes, w.make().Note)
		w.now = w.now.Add(time.Second)
	}
	for _, old := range notes {
		w.check(checkpoint.Options{AccountID: first, Month: november, Since: old})
	}
	other := *notes[1]
	other.Root[0]++
	longer := *notes[4]
	longer.Size++
	elsewhere := *notes[1]
	elsewhere.Origin = "other.example.com"
	for _, since := range []*proof.Note{&other, &longer, &elsewhere} {
		if _, err := w.prove(checkpoint.Options{AccountID: first, Month: november, Since: since}); !errors.Is(err, checkpoint.ErrOtherLog) {
			t.Errorf("proof since %+v: %v, want ErrOtherLog", since, err)
		}
	}
}

// TestProve_EventsWereReplaced_Fails copies the checkpoints behind another history.
func TestProve_EventsWereReplaced_Fails(t *testing.T) {
	w, other := newWorld(t), newWorld(t)
	w.open(november, first)
	w.make()
	other.append(november, first, eventschemas.AccountOpened{AccountID: first, Holder: "h", Plan: "free"}, eventschemas.CreditsGranted{GrantID: "g", Kind: "free", Credits: 51})
	copyStream(t, w.log, other.log, eventschemas.CheckpointsStream)
	testmust.Succeed(t, other.maker.CaughtUp(t.Context()))
	if _, err := other.prove(checkpoint.Options{AccountID: first, Month: november}); !errors.Is(err, checkpoint.ErrChanged) {
		t.Errorf("proof of a replaced history: %v, want ErrChanged", err)
	}
}

// TestHeads_LaterEvents_FindsTheLastOneBefore puts the checkpoint after each number of an account's events.
func TestHeads_LaterEvents_FindsTheLastOneBefore(t *testing.T) {
	for before := range 8 {
		w := newWorld(t)
		w.open(november, first)
		for i := range before {
			w.append(november, first, charged(fmt.Sprint(i)))
		}
		w.make()
		for i := range 9 {
			if r := w.check(checkpoint.Options{AccountID: first, Month: november}); r.Events != uint64(2+before) {
				t.Errorf("with %d events before and %d after it, the proof has %d events", 2+before, i, r.Events)
			}
			w.append(november, first, charged(fmt.Sprint("later", i)))
		}
	}
}

func TestProve_ReadModelLacksAccounts_SaysSo(t *testing.T) {
	w := newWorld(t)
	w.open(november, first)
	w.open(november, second)
	w.make()
	w.maker.Accounts = only{w.maker.Accounts, first}
	w.check(checkpoint.Options{AccountID: first, Month: november}) // by the accounts that are kept
	w.maker.Keeper = newKeeper(t)
	if _, err := w.prove(checkpoint.Options{AccountID: first, Month: november}); err == nil || errors.Is(err, checkpoint.ErrChanged) || !strings.Contains(err.Error(), "1 of 2 accounts: the read model of accounts lacks accounts") {
		t.Errorf("proof without an account: %v, want an error about the read model", err)
	}
}

// only lists one account.
type only struct {
	checkpoint.Accounts
	id string
}

func (o only) List(ctx context.Context, after string, limit int) ([]accounts.Account, error) {
	all, err := o.Accounts.List(ctx, after, limit)
	return slices.DeleteFunc(all, func(a accounts.Account) bool { return a.ID != o.id }), err
}

func TestProve_SinceWithoutItsSignature_HasTheStoredNote(t *testing.T) {
	w := newWorld(t)
	w.open(november, first)
	old := *w.make().Note
	want := old.Text
	w.make()
	old.Text = strings.Replace(old.Text, "— ", "— other.", 1)
	file, err := w.prove(checkpoint.Options{AccountID: first, Month: november, Since: &old})
	if err != nil || !strings.Contains(file, "\nsince\n"+want) {
		t.Errorf("the proof: %v\n%s\nwant the checkpoint\n%s", err, file, want)
	}
}

// TestProve_CopiedLog_GivesTheSameProof copies a history to a log with other positions, as a migration does.
func TestProve_CopiedLog_GivesTheSameProof(t *testing.T) {
	w, other := newWorld(t), newWorld(t)
	w.open(november, second)
	w.open(november, first)
	w.make()
	// Events of another stream move the positions.
	testmust.Succeed(t, testmust.Err(other.log.Append(t.Context(), "brand-acme.com", eventlog.NoStream(), []eventlog.Proposed{{ID: uuid.New(), Type: "BrandClaimed", SchemaVersion: 1, OccurredAt: november, Data: []byte("{}")}})))
	copyStream(t, w.log, other.log, account.Stream(first)) // in another order
	copyStream(t, w.log, other.log, account.Stream(second))
	copyStream(t, w.log, other.log, eventschemas.CheckpointsStream)
	testmust.Succeed(t, other.maker.CaughtUp(t.Context()))
	want, err := w.prove(checkpoint.Options{AccountID: first, Month: november})
	got, otherErr := other.prove(checkpoint.Options{AccountID: first, Month: november})
	if err != nil || otherErr != nil || got != want {
		t.Errorf("the proof from the copy: %v\n%s\nwant: %v\n%s", otherErr, got, err, want)
	}
}

// copyStream appends a stream to another log.
func copyStream(t *testing.T, from, to *sqlite.Log, stream string) {
	t.Helper()
	events := testmust.Get(from.ReadStream(t.Context(), stream, 0, eventlog.Forward, 1000))(t)
	testmust.Succeed(t, testmust.Err(to.Append(t.Context(), stream, eventlog.NoStream(), eventlog.Proposals(events))))
}

// listed counts the pages of accounts that are listed.
type listed struct {
	checkpoint.Accounts
	pages int
}

func (l *listed) List(ctx context.Context, after string, limit int) ([]accounts.Account, error) {
	l.pages++
	return l.Accounts.List(ctx, after, limit)
}

// A proof reads no list of accounts if the accounts of the checkpoint are kept.
func TestProve_KeptAccounts_AreThoseOfTheLastCheckpoint(t *testing.T) {
	w := newWorld(t)
	pages := &listed{Accounts: w.maker.Accounts}
	w.maker.Accounts = pages
	w.open(november, first)
	w.open(november, second)
	w.make()
	o := checkpoint.Options{AccountID: first, Month: november}
	want := testmust.Get(w.prove(o))(t)
	w.append(november, first, charged("c")) // after the checkpoint
	before := pages.pages
	if got, err := w.prove(o); err != nil || got != want || pages.pages != before {
		t.Errorf("the second proof reads %d pages of accounts, want none: %v\n%s", pages.pages-before, err, got)
	}
	w.check(checkpoint.Options{AccountID: second, Month: november})
	w.make()
	before = pages.pages
	if r := w.check(o); r.Events != 3 || pages.pages != before {
		t.Errorf("after another checkpoint the proof has %d events, want 3", r.Events)
	}
	o.MaxEvents = 3
	w.check(o)
	o.MaxEvents = 2
	if file, err := w.prove(o); !errors.Is(err, checkpoint.ErrTooManyEvents) || file != "" {
		t.Errorf("a proof of 3 events, at most 2: %v, %s", err, file)
	}
}
