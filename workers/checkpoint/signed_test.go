package checkpoint_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/mod/sumdb/note"

	"letterhead/domain/account"
	"letterhead/domain/proof"
	"letterhead/eventschemas"
	"letterhead/internal/assets"
	"letterhead/internal/eventlog"
	"letterhead/internal/testmust"
	"letterhead/workers/checkpoint"
)

const third = "3c0c4a52-6f0e-4c35-9a55-1d1c2d3e4f53"

// rewritten returns a ledger with three checkpoints, and another history of it behind what was kept outside its log: the
// grant of the first account was changed and its chain hashed again. Without checkpoints, those were dropped as well.
func rewritten(t *testing.T, checkpoints bool) (w, other *world) {
	w, other = newWorld(t), newWorld(t)
	w.open(november, first)
	w.open(november, second)
	for i := range 3 {
		w.make()
		w.append(november, second, charged(fmt.Sprint("c", i)))
	}
	w.make()
	other.append(november, first, eventschemas.AccountOpened{AccountID: first, Holder: "h", Plan: "free"}, eventschemas.CreditsGranted{GrantID: "g", Kind: "free", Credits: 51})
	other.open(november, second)
	for i := range 3 {
		other.append(november, second, charged(fmt.Sprint("c", i)))
	}
	if checkpoints {
		copyStream(t, w.log, other.log, eventschemas.CheckpointsStream)
	}
	other.append(november, first, charged("later"))
	other.private, other.maker.Keeper = w.private, w.maker.Keeper
	testmust.Succeed(t, other.maker.CaughtUp(t.Context()))
	return w, other
}

// refuses fails unless nothing is signed, with an error that has these words.
func (w *world) refuses(words ...string) {
	w.Helper()
	_, compared := w.maker.Compare(w.Context(), true, nil)
	_, made := w.maker.Make(w.Context())
	_, ensured := w.maker.Ensure(w.Context(), w.now)
	for what, err := range map[string]error{"comparison": compared, "checkpoint": made, "checkpoint since now": ensured} {
		if !errors.Is(err, checkpoint.ErrChanged) {
			w.Errorf("%s: %v, want ErrChanged", what, err)
			continue
		}
		for _, word := range words {
			if !strings.Contains(err.Error(), word) {
				w.Errorf("%s: %v, want %q in it", what, err, word)
			}
		}
	}
}

func TestMake_InsiderRewroteAnAccount_NamesItAndSignsNothing(t *testing.T) {
	for _, checkpoints := range []bool{true, false} {
		t.Run(fmt.Sprintf("checkpoints are left: %t", checkpoints), func(t *testing.T) {
			_, w := rewritten(t, checkpoints)
			w.refuses("account "+first, "revision 1", "checkpoint 4")
			if _, err := w.maker.Quick(t.Context()); !errors.Is(err, checkpoint.ErrChanged) {
				t.Errorf("quick comparison: %v, want ErrChanged", err)
			}
			if _, err := w.prove(checkpoint.Options{AccountID: first, Month: november}); !errors.Is(err, checkpoint.ErrChanged) || !strings.Contains(err.Error(), first) {
				t.Errorf("proof of the account: %v, want ErrChanged that names it", err)
			}
		})
	}
}

func TestMake_OnlyTheLastCheckpointWasDropped_SignsNothing(t *testing.T) {
	w, other := newWorld(t), newWorld(t)
	for _, x := range []*world{w, other} {
		x.open(november, first)
	}
	w.make()
	copyStream(t, w.log, other.log, eventschemas.CheckpointsStream)
	other.private, other.maker.Keeper = w.private, w.maker.Keeper
	w.make()
	other.refuses("it lacks checkpoint 2 of " + origin)
}

func TestMake_KeptAccountsAreLost_ComparesTheRoot(t *testing.T) {
	lose := func(w *world) { w.maker.Keeper = newKeeper(w.T) }
	tamper := func(w *world) {
		for i := range 3 {
			name := fmt.Sprintf("%d.gz", i)
			lines := testmust.Get(io.ReadAll(testmust.Get(gzip.NewReader(bytes.NewReader(testmust.Get(w.maker.Keeper.Kept(w.Context(), name, 0))(w))))(w)))(w)
			var file bytes.Buffer
			zip := gzip.NewWriter(&file)
			testmust.Succeed(w, errors.Join(testmust.Err(zip.Write(bytes.ReplaceAll(lines, []byte(`"revision":1,`), []byte(`"revision":0,`)))), zip.Close()))
			testmust.Succeed(w, w.maker.Keeper.Keep(w.Context(), name, file.Bytes()))
		}
	}
	cut := func(w *world) {
		for i := range 3 {
			name := fmt.Sprintf("%d.gz", i)
			testmust.Succeed(w, w.maker.Keeper.Keep(w.Context(), name, testmust.Get(w.maker.Keeper.Kept(w.Context(), name, 0))(w)[:40]))
		}
	}
	for name, change := range map[string]func(*world){"missing": lose, "tampered with": tamper, "cut": cut} {
		t.Run(name, func(t *testing.T) {
			w, other := rewritten(t, true)
			change(other)
			other.refuses("checkpoint 4")
			change(w)
			text := testmust.Get(w.maker.Compare(t.Context(), true, nil))(t)
			if !strings.Contains(text, "only the root of checkpoint 4 was compared") || name != "missing" && !strings.Contains(text, "damaged") {
				t.Errorf("comparison of an unchanged log: %q, want that only the root was compared", text)
			}
			w.make()
			if text := testmust.Get(w.maker.Compare(t.Context(), true, nil))(t); !strings.Contains(text, "2 account(s) are as they were signed in checkpoint 5") {
				t.Errorf("after the next checkpoint: %q", text)
			}
		})
	}
}

// An account is missing in the log and in the read models: that is no fault of the read models.
func TestMake_AccountWasDeleted_IsAChange(t *testing.T) {
	w, other := newWorld(t), newWorld(t)
	w.open(november, first)
	w.open(november, second)
	w.make()
	other.open(november, first)
	copyStream(t, w.log, other.log, eventschemas.CheckpointsStream)
	other.open(november, third) // after the checkpoint
	other.private = w.private
	testmust.Succeed(t, other.maker.CaughtUp(t.Context()))
	other.refuses("checkpoint 1", "1 of 2 accounts")
	other.maker.Accept = "the account was erased by order of a court"
	all := other.maker.Accounts
	other.maker.Accounts = only{all, first}
	if _, err := other.maker.Make(t.Context()); !errors.Is(err, checkpoint.ErrLacks) {
		t.Errorf("the read model lacks another account: %v, want ErrLacks", err)
	}
	other.maker.Accounts = all
	if made := other.make(); made.Accounts != 2 {
		t.Errorf("the accepted checkpoint has %d accounts, want 2", made.Accounts)
	}
}

func TestMake_ReadModelLacksAnAccount_CannotBeAccepted(t *testing.T) {
	for _, kept := range []bool{true, false} {
		w := newWorld(t)
		w.open(november, first)
		w.open(november, second)
		w.make()
		if !kept {
			w.maker.Keeper = newKeeper(t)
		}
		all := w.maker.Accounts
		w.maker.Accounts, w.maker.Accept = only{all, first}, "it seems to be all right"
		if _, err := w.maker.Make(t.Context()); !errors.Is(err, checkpoint.ErrLacks) || errors.Is(err, checkpoint.ErrChanged) {
			t.Errorf("accounts are kept: %t; a checkpoint of a read model without an account: %v, want ErrLacks", kept, err)
		}
		w.maker.Accounts, w.maker.Accept = all, ""
		if made := w.make(); made.Accounts != 2 {
			t.Errorf("the next checkpoint has %d accounts, want 2", made.Accounts)
		}
	}
}

func TestMake_ChangeIsAccepted_LeavesAnEventAndGoesOn(t *testing.T) {
	for _, checkpoints := range []bool{true, false} {
		w, other := rewritten(t, checkpoints)
		old := testmust.Get(w.maker.Ensure(t.Context(), time.Time{}))(t)
		other.refuses(first)
		before := testmust.Get(other.log.Head(t.Context()))(t)
		other.maker.Accept = "the grant was corrected by hand"
		made := other.make()
		other.maker.Accept = ""
		page := testmust.Get(other.log.ReadStream(t.Context(), eventschemas.LogStream, 0, eventlog.Forward, 10))(t)
		if len(page) != 1 {
			t.Fatalf("%d events on the stream log, want one", len(page))
		}
		accepted := testmust.Get(eventschemas.Decode(page[0].Type, page[0].SchemaVersion, page[0].Data))(t).(eventschemas.LossAccepted)
		if accepted.Reason != "the grant was corrected by hand" || accepted.Head != uint64(before) || len(accepted.Witnesses) != 1 || !strings.Contains(accepted.Witnesses[0].Detail, fmt.Sprintf("%x", old.Note.Root)) {
			t.Errorf("the event is %+v, want the reason and the root of checkpoint 4", accepted)
		}
		if text := testmust.Get(other.maker.Compare(t.Context(), true, nil))(t); !strings.Contains(text, fmt.Sprintf("in checkpoint %d", made.Note.Size)) {
			t.Errorf("comparison: %q", text)
		}
		for range 4 {
			other.append(november, second, charged(fmt.Sprint("more", other.next[second])))
			other.make()
		}
	}
}

// The read model is behind, the keys were rotated or cannot be read, or the log continues: none of these is a change.
func TestMake_NothingChanged_IsNoAlarm(t *testing.T) {
	w := newWorld(t)
	w.open(november, first)
	w.open(november, second)
	w.make()
	all := w.maker.Accounts
	w.maker.Accounts = only{all, first}
	if _, err := w.maker.Make(t.Context()); !errors.Is(err, checkpoint.ErrLacks) || errors.Is(err, checkpoint.ErrChanged) {
		t.Errorf("a read model without an account: %v, want ErrLacks", err)
	}
	w.maker.Accounts = all
	w.private = testmust.Get(proof.NewKey(origin))(t) // keys are those of w.private
	if text := testmust.Get(w.maker.Compare(t.Context(), true, nil))(t); !strings.Contains(text, "was not checked: the checkpoint is signed by a key that was not given") {
		t.Errorf("with another key: %q", text)
	}
	w.maker.Keys = func() (note.Verifiers, error) { return nil, errors.New("ledger.pub is a folder") }
	if text := testmust.Get(w.maker.Compare(t.Context(), true, nil))(t); !strings.Contains(text, "ledger.pub is a folder") {
		t.Errorf("without keys: %q", text)
	}
	w.append(november, first, charged("c"))
	w.open(november, third)
	if made := w.make(); made.Accounts != 3 {
		t.Errorf("the next checkpoint has %d accounts, want 3", made.Accounts)
	}
}

func TestCompare_SignatureIsForged_IsAChange(t *testing.T) {
	w := newWorld(t)
	w.open(november, first)
	signer := w.maker.Key
	w.maker.Key = func(of string) (note.Signer, error) { return forger{testmust.Get(signer(of))(t)}, nil }
	w.make()
	w.maker.Key, w.maker.Keeper = signer, newKeeper(t)
	w.refuses("the signature of checkpoint 1 is wrong")
}

// forger has the name of a key and signs with another.
type forger struct{ note.Signer }

func (forger) Sign([]byte) ([]byte, error) { return make([]byte, 64), nil }

// A checkpoint reads at most two events of each account that has not changed, and as many of one that has.
func TestMake_ManyAccounts_ReadsLittle(t *testing.T) {
	w := newWorld(t)
	for i := range 20 {
		w.open(november, fmt.Sprintf("%08d-6f0e-4c35-9a55-1d1c2d3e4f51", i))
	}
	w.make()
	w.append(november, "00000003-6f0e-4c35-9a55-1d1c2d3e4f51", charged("c"))
	counted := &counting{Log: w.log}
	w.maker.Log = counted
	w.make()
	if n := counted.reads.Load(); n > 20+1 {
		t.Errorf("a checkpoint of 20 accounts, of which one has changed, made %d reads of accounts, want at most 21", n)
	}
}

func TestMake_ManyCheckpoints_KeepsThree(t *testing.T) {
	w := newWorld(t)
	w.open(november, first)
	for range 5 {
		w.make()
	}
	var sizes []uint64
	for i := range 4 {
		file, err := w.maker.Keeper.Kept(t.Context(), fmt.Sprintf("%d.gz", i), 0)
		if errors.Is(err, assets.ErrNotFound) {
			continue
		}
		sizes = append(sizes, testmust.Get(proof.ReadKept(bytes.NewReader(testmust.Get(file, err)(t)), ""))(t).Note.Size)
	}
	if slices.Sort(sizes); !slices.Equal(sizes, []uint64{3, 4, 5}) {
		t.Errorf("checkpoints %v are kept, want 3, 4 and 5", sizes)
	}
}

// counting counts the reads of accounts.
type counting struct {
	eventlog.Log
	reads atomic.Int64
}

func (c *counting) ReadStream(ctx context.Context, stream string, from uint64, d eventlog.Direction, n int) ([]eventlog.Recorded, error) {
	if strings.HasPrefix(stream, account.StreamPrefix) {
		c.reads.Add(1)
	}
	return c.Log.ReadStream(ctx, stream, from, d, n)
}

// opened counts the files that are read.
type opened struct {
	checkpoint.Keeper
	whole, heads int
}

func (o *opened) Kept(ctx context.Context, name string, limit int64) ([]byte, error) {
	if limit == 0 {
		o.whole++
	} else {
		o.heads++
	}
	return o.Keeper.Kept(ctx, name, limit)
}

func TestProve_KeptTree_ReadsOneFileForEachCheckpoint(t *testing.T) {
	w, other := rewritten(t, true)
	files := &opened{Keeper: w.maker.Keeper}
	w.maker.Keeper, w.maker.Tree = files, &checkpoint.Tree{}
	o := checkpoint.Options{AccountID: second, Month: november}
	for range 3 {
		w.check(o)
	}
	if files.whole != 1 {
		t.Errorf("three proofs read %d whole files, want the newest once", files.whole)
	}
	other.maker.Tree = &checkpoint.Tree{}
	other.check(o)
	if _, err := other.prove(checkpoint.Options{AccountID: first, Month: november}); !errors.Is(err, checkpoint.ErrChanged) || !strings.Contains(err.Error(), "account "+first) {
		t.Errorf("proof of the rewritten account, by the kept tree: %v, want ErrChanged that names it", err)
	}
	w.make()
	files.whole = 0
	for range 3 {
		w.check(o)
	}
	if files.whole != 1 {
		t.Errorf("after another checkpoint, three proofs read %d whole files, want one", files.whole)
	}
}

// After an upgrade, a restore or a migration no checkpoint is kept.
func TestEnsure_LastCheckpointIsNotKept_KeepsItAgain(t *testing.T) {
	w, other := rewritten(t, true)
	w.maker.Keeper = newKeeper(t)
	made := testmust.Get(w.maker.Ensure(t.Context(), time.Time{}))(t)
	if text := testmust.Get(w.maker.Compare(t.Context(), true, nil))(t); made.Note.Size != 4 || !strings.Contains(text, "2 account(s) are as they were signed in checkpoint 4") {
		t.Errorf("comparison after checkpoint %d: %q", made.Note.Size, text)
	}
	other.maker.Keeper = newKeeper(t)
	if _, err := other.maker.Ensure(t.Context(), time.Time{}); !errors.Is(err, checkpoint.ErrChanged) {
		t.Errorf("the log was rewritten: %v, want ErrChanged", err)
	}
	if _, err := other.maker.Keeper.Kept(t.Context(), "1.gz", 0); !errors.Is(err, assets.ErrNotFound) {
		t.Errorf("the rewritten log is kept: %v", err)
	}
}

// A file that is damaged after its beginning, which has the checkpoint, is of no use.
func TestEnsure_KeptAccountsAreDamaged_KeepsThemAgain(t *testing.T) {
	w := newWorld(t)
	for i := range 20 {
		w.open(november, fmt.Sprintf("%08d-6f0e-4c35-9a55-1d1c2d3e4f51", i))
	}
	w.make()
	file := testmust.Get(w.maker.Keeper.Kept(t.Context(), "1.gz", 0))(t)
	testmust.Succeed(t, w.maker.Keeper.Keep(t.Context(), "1.gz", file[:len(file)-20]))
	testmust.Succeed(t, testmust.Err(w.maker.Ensure(t.Context(), time.Time{})))
	if text := testmust.Get(w.maker.Compare(t.Context(), true, nil))(t); !strings.Contains(text, "20 account(s) are as they were signed in checkpoint 1") {
		t.Errorf("comparison: %q", text)
	}
}

func TestCompare_ManyAccountsChanged_NamesThem(t *testing.T) {
	w, other := newWorld(t), newWorld(t)
	const accounts = 102
	for i := range accounts {
		id := fmt.Sprintf("%08d-6f0e-4c35-9a55-1d1c2d3e4f51", i)
		w.open(november, id)
		other.open(november.AddDate(0, 0, 1), id)
	}
	w.make()
	copyStream(t, w.log, other.log, eventschemas.CheckpointsStream)
	other.private, other.maker.Keeper = w.private, w.maker.Keeper
	testmust.Succeed(t, other.maker.CaughtUp(t.Context()))
	_, err := other.maker.Compare(t.Context(), true, nil)
	if !errors.Is(err, checkpoint.ErrChanged) {
		t.Fatalf("comparison: %v, want ErrChanged", err)
	}
	if n := strings.Count(err.Error(), "account 00000"); n != 100 || !strings.Contains(err.Error(), "102 account(s)") || strings.Index(err.Error(), "00000000-") > strings.Index(err.Error(), "00000099-") {
		t.Errorf("the error names %d accounts: %v; want the first 100 of 102, in order", n, err)
	}
}

// silent never answers.
type silent struct{ checkpoint.Keeper }

func (silent) Kept(ctx context.Context, name string, limit int64) ([]byte, error) {
	deadline, _ := ctx.Deadline()
	if deadline.IsZero() {
		return nil, errors.New("no deadline")
	}
	return nil, fmt.Errorf("read %s: %w", name, context.DeadlineExceeded)
}

func TestQuick_KeeperIsSilent_Ends(t *testing.T) {
	w := newWorld(t)
	w.open(november, first)
	w.make()
	w.maker.Keeper = silent{}
	if text, err := w.maker.Quick(t.Context()); err != nil || !strings.Contains(text, "not all accounts were compared") {
		t.Errorf("quick comparison: %q, %v", text, err)
	}
}
