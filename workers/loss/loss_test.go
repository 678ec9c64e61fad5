package loss_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"

	"letterhead/domain/text"
	"letterhead/eventschemas"
	"letterhead/internal/eventlog"
	"letterhead/internal/sqlstore"
	"letterhead/internal/testmust"
	"letterhead/internal/testwait"
	"letterhead/projections/accounts"
	"letterhead/projections/engine"
	"letterhead/projections/projectionstest"
	"letterhead/workers/loss"
)

var moment = time.Date(2026, 11, 22, 8, 0, 0, 0, time.UTC)

// world is a log with 4 grants to account-a, and a database that has folded them.
type world struct {
	*projectionstest.Env
	t         *testing.T
	snapshots *sqlstore.Snapshots
	positions *sqlstore.Positions
}

func grant(i int) eventschemas.Event {
	return eventschemas.CreditsGranted{GrantID: fmt.Sprint(i), Kind: "free", Credits: 1}
}

func each(t *testing.T, test func(t *testing.T, w *world)) {
	projectionstest.Each(t, func(t *testing.T, e *projectionstest.Env) {
		w := &world{Env: e, t: t}
		var err error
		if w.snapshots, err = sqlstore.NewSnapshots(t.Context(), e.Store); err != nil {
			t.Fatal(err)
		}
		if w.positions, err = sqlstore.NewPositions(t.Context(), e.Store); err != nil {
			t.Fatal(err)
		}
		for i := range 4 {
			e.Events("account-a", moment, grant(i))
		}
		w.fold()
		test(t, w)
	})
}

func (w *world) fold() {
	r, stop := w.Start(engine.Config{}, accounts.New(w.Store))
	w.CatchUp(r)
	stop()
}

func (w *world) verify(log eventlog.Log) error {
	w.t.Helper()
	return loss.Verify(w.t.Context(), w.Store, eventlog.Probe(log))
}

func (w *world) must(err error) {
	w.t.Helper()
	testmust.Succeed(w.t, err)
}

// A witness that remembers a later position, or another log, makes Verify fail.
// Rule 8.
func TestVerify_AnyWitnessPastLog_Fails(t *testing.T) {
	for name, hurt := range map[string]func(w *world){
		"snapshot of account-a":       func(w *world) { w.must(w.snapshots.Save(w.t.Context(), "account-a", 1, 4, nil)) },
		"snapshot of account-b":       func(w *world) { w.must(w.snapshots.Save(w.t.Context(), "account-b", 1, 0, nil)) },
		"memory of the sweeper":       func(w *world) { w.must(w.snapshots.Save(w.t.Context(), "sweep", 1, 5, nil)) },
		"checkpoint of relay ledger":  func(w *world) { w.must(w.positions.Save(w.t.Context(), "relay ledger", 5)) },
		"read model accounts":         func(w *world) { w.Exec("UPDATE projections_registry SET position = 5 WHERE name = 'accounts'") },
		"registry of the read models": func(w *world) { w.Exec("UPDATE projections_registry SET failure = 'x' WHERE name = '@log'") },
	} {
		t.Run(name, func(t *testing.T) {
			each(t, func(t *testing.T, w *world) {
				w.must(w.snapshots.Save(t.Context(), "account-a", 1, 3, nil))
				w.must(w.snapshots.Save(t.Context(), "sweep", 1, 4, nil))
				w.must(w.positions.Save(t.Context(), "relay ledger", 4))
				if err := w.verify(w.Log); err != nil {
					t.Fatalf("a matching database: %v", err)
				}
				hurt(w)
				err := w.verify(w.Log)
				var lost *eventlog.LossError
				if !errors.As(err, &lost) || lost.Witness != name {
					t.Errorf("verify: %v", err)
				}
			})
		})
	}
}

// slowLog is a log in which look-ups of account-n wait until enough of them are in progress.
type slowLog struct {
	eventlog.Prober
	together int // look-ups that must be in progress before one of them has its answer

	mu     sync.Mutex
	inside int
	asked  map[string]int // look-ups by stream
	full   chan struct{}
}

func (l *slowLog) At(ctx context.Context, stream string, revision uint64) (eventlog.Recorded, bool, error) {
	l.mu.Lock()
	l.asked[stream]++
	if l.inside++; l.inside == l.together {
		close(l.full)
	}
	l.mu.Unlock()
	select {
	case <-l.full:
	case <-ctx.Done():
		return eventlog.Recorded{}, false, ctx.Err()
	}
	return l.Prober.At(ctx, stream, revision)
}

// The comparison has a time, and an event store takes a millisecond or more for each answer.
func TestSurvey_ManySnapshots_AreLookedUpSideBySideAndOnce(t *testing.T) {
	w := &world{Env: projectionstest.Open(t), t: t}
	var err error
	w.snapshots, err = sqlstore.NewSnapshots(t.Context(), w.Store)
	w.must(err)
	for i := range loss.Lookups {
		stream := fmt.Sprintf("account-%d", i)
		w.Events(stream, moment, grant(i))
		w.must(w.snapshots.Save(t.Context(), stream, 1, 0, nil))
	}
	w.must(w.snapshots.Save(t.Context(), "account-0", 1, 5, nil)) // which is missing
	log := &slowLog{Prober: eventlog.Probe(w.Log), together: loss.Lookups, asked: map[string]int{}, full: make(chan struct{})}
	ctx, cancel := context.WithTimeout(t.Context(), testwait.Timeout)
	defer cancel()
	losses, err := loss.SurveyShared(ctx, w.Store, log)
	if err != nil || len(losses) != 1 {
		t.Fatalf("the survey found %v, %v", losses, err)
	}
	if log.asked["account-0"] != 5 || log.asked["account-1"] != 1 {
		t.Errorf("the missing revision was looked up %d times, another one %d times", log.asked["account-0"], log.asked["account-1"])
	}
}

// A log that differs already from what the registry remembers is not compared with each snapshot.
func TestSurvey_PositionsDiffer_SkipsSnapshots(t *testing.T) {
	w := &world{Env: projectionstest.Open(t), t: t}
	snapshots, err := sqlstore.NewSnapshots(t.Context(), w.Store)
	w.must(err)
	positions, err := sqlstore.NewPositions(t.Context(), w.Store)
	w.must(err)
	w.must(snapshots.Save(t.Context(), "account-a", 1, 7, nil))
	w.must(positions.Save(t.Context(), "relay ledger", 9))
	log := &slowLog{Prober: eventlog.Probe(w.Log), asked: map[string]int{}, full: make(chan struct{})}
	close(log.full)
	losses, err := loss.SurveyShared(t.Context(), w.Store, log)
	if err != nil || len(losses) != 1 || losses[0].Remembered != 9 || len(log.asked) > 0 {
		t.Errorf("found %v, %v, looked up %v", losses, err, log.asked)
	}
}

// foreignLog is a store that another program has filled.
type foreignLog struct {
	eventlog.Prober
	id uuid.UUID
}

func (l foreignLog) First(context.Context) (eventlog.Recorded, bool, error) {
	return eventlog.Recorded{Proposed: eventlog.Proposed{ID: l.id}, Position: 1}, true, fmt.Errorf("test: %w", eventlog.ErrCorrupt)
}

func (l foreignLog) At(context.Context, string, uint64) (eventlog.Recorded, bool, error) {
	return eventlog.Recorded{}, false, nil
}

// A store that another program has filled is another log, and not one that cannot be read.
func TestVerify_StoreOfAnotherProgram_IsLoss(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		other := foreignLog{Prober: eventlog.Probe(w.Log), id: uuid.New()}
		err := loss.Verify(t.Context(), w.Store, other)
		var lost *eventlog.LossError
		if !errors.As(err, &lost) || !lost.Other || lost.HeldFirst != other.id {
			t.Errorf("verify: %v", err)
		}
	})
}

var errCut = errors.New("cut off here")

// After an interruption anywhere Verify fails until the acceptance is finished. The acceptance is recorded once.
func TestAcceptance_CutOffAnywhere_IsFinishedOnce(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		w.must(w.snapshots.Save(t.Context(), "account-a", 1, 1, []byte("kept")))
		w.must(w.snapshots.Save(t.Context(), "account-b", 1, 7, []byte("lost")))
		w.must(w.positions.Save(t.Context(), "relay ledger", 99))
		w.must(w.positions.Save(t.Context(), "relay brands", 2))
		w.Exec("UPDATE projections_registry SET position = 9 WHERE name = 'accounts'")
		by := loss.Accepting{Actor: "operator:test", Reason: "a test", Now: moment, ForgetSearch: func(context.Context) error { return errCut }}
		prepare := func() *loss.Acceptance {
			losses, err := loss.Survey(t.Context(), w.Store, eventlog.Probe(w.Log))
			w.must(err)
			a, err := loss.Prepare(t.Context(), w.Store, by, losses)
			w.must(err)
			return a
		}
		named := by
		named.Reason = "as ann@example.com decided"
		losses, err := loss.Survey(t.Context(), w.Store, eventlog.Probe(w.Log))
		w.must(err)
		if _, err := loss.Prepare(t.Context(), w.Store, named, losses); !errors.As(err, new(*text.EmailError)) {
			t.Errorf("a reason with an address: %v, want an EmailError", err)
		}
		if a := prepare(); a == nil || len(a.Witnesses()) != 3 {
			t.Fatalf("prepared %+v, want 3 witnesses", a)
		}
		unfinished := func(step string) {
			t.Helper()
			err := w.verify(w.Log)
			if !errors.Is(err, eventlog.ErrLoss) || !errors.As(err, new(*loss.UnfinishedError)) || !strings.Contains(err.Error(), "run it again") {
				t.Errorf("%s: %v", step, err)
			}
			if _, err := loss.Prepare(t.Context(), w.Store, by, nil); err != nil {
				t.Errorf("%s: prepare again: %v", step, err)
			}
			if err := loss.NewFilling(w.Store, loss.Restore, time.Now, nil).Begin(t.Context()); !errors.As(err, new(*loss.UnfinishedError)) {
				t.Errorf("%s: begin a restore: %v, want UnfinishedError", step, err)
			}
		}
		w.must(prepare().Begin(t.Context()))
		unfinished("begun")
		for range 2 {
			if _, err := prepare().Finish(t.Context(), w.Log, by); !errors.Is(err, errCut) {
				t.Fatalf("finish: %v, want %v", err, errCut)
			}
			unfinished("recorded")
		}
		by.ForgetSearch = nil
		out, err := prepare().Finish(t.Context(), w.Log, by)
		w.must(err)
		w.must(w.verify(w.Log))
		if out.Head != 4 || out.Position != 5 || len(out.Witnesses) != 3 {
			t.Errorf("accepted %+v, want head 4, position 5 and 3 witnesses", out)
		}
		events, err := w.Log.ReadStream(t.Context(), eventschemas.LogStream, 0, eventlog.Forward, 10)
		if err != nil || len(events) != 1 || events[0].ID != out.EventID || events[0].Metadata.Actor != "operator:test" || !strings.Contains(string(events[0].Data), "a test") {
			t.Errorf("the log records %+v, %v, want one event of operator:test", events, err)
		}
		if err := eventschemas.ValidateJSON(events[0].Type, events[0].SchemaVersion, events[0].Data); err != nil {
			t.Error(err)
		}
		_, _, kept, err := w.snapshots.Load(t.Context(), "account-a", 1)
		_, _, gone, err2 := w.snapshots.Load(t.Context(), "account-b", 1)
		if !kept || gone || errors.Join(err, err2) != nil {
			t.Errorf("snapshots: kept %t, gone %t, %v", kept, !gone, errors.Join(err, err2))
		}
		ledger, _, err := w.positions.Load(t.Context(), "relay ledger")
		brands, _, err2 := w.positions.Load(t.Context(), "relay brands")
		if ledger != 5 || brands != 2 || errors.Join(err, err2) != nil {
			t.Errorf("checkpoints %d and %d, %v", ledger, brands, errors.Join(err, err2))
		}
		if a := prepare(); a != nil {
			t.Errorf("a loss remains to be accepted: %+v", a.Witnesses())
		}
		w.fold()
		w.must(w.verify(w.Log))
	})
}

// For another log nothing is kept, and its relays begin at its end.
func TestAcceptance_AnotherLog_KeepsNothing(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		other := w.NodeOnLog(nil)
		for i := range 9 {
			other.Events("account-a", moment, grant(100+i))
		}
		w.must(w.snapshots.Save(t.Context(), "account-a", 1, 1, nil))
		w.must(w.positions.Save(t.Context(), "relay ledger", 2))
		if err := w.verify(other.Log); !errors.Is(err, eventlog.ErrLoss) {
			t.Fatalf("verify: %v, want %v", err, eventlog.ErrLoss)
		}
		by := loss.Accepting{Actor: "operator:test", Now: moment, Done: []string{"relay crawl.live"}}
		losses, err := loss.Survey(t.Context(), w.Store, eventlog.Probe(other.Log))
		w.must(err)
		a, err := loss.Prepare(t.Context(), w.Store, by, losses)
		w.must(err)
		out, err := a.Finish(t.Context(), other.Log, by)
		w.must(err)
		w.must(w.verify(other.Log))
		_, _, kept, err := w.snapshots.Load(t.Context(), "account-a", 1)
		_, found, err2 := w.positions.Load(t.Context(), "relay ledger")
		live, _, err3 := w.positions.Load(t.Context(), "relay crawl.live")
		if kept || found || live != out.Position || errors.Join(err, err2, err3) != nil {
			t.Errorf("snapshot kept %t, checkpoint kept %t, live at %d of %d, %v", kept, found, live, out.Position, errors.Join(err, err2, err3))
		}
	})
}

// Verify fails until the restore of a database has ended. The database has no data about the earlier log.
func TestFilling_BetweenBeginAndEnd_VerifyFails(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		w.must(w.positions.Save(t.Context(), "relay ledger", 99))
		forgotten := 0
		f := loss.NewFilling(w.Store, loss.Restore, time.Now, func(context.Context) error { forgotten++; return nil })
		for range 2 {
			w.must(f.Begin(t.Context()))
			if err := w.verify(w.Log); !errors.As(err, new(*loss.UnfinishedError)) || errors.Is(err, eventlog.ErrLoss) {
				t.Errorf("verify: %v", err)
			}
		}
		if err := loss.NewFilling(w.Store, loss.Migrate, time.Now, nil).Begin(t.Context()); !errors.As(err, new(*loss.UnfinishedError)) {
			t.Errorf("begin a migration during a restore: %v, want UnfinishedError", err)
		}
		w.must(f.End(t.Context()))
		w.must(w.verify(w.Log))
		if m, err := engine.ReadFoldedLog(t.Context(), w.Store); err != nil || len(m.Positions) > 0 || forgotten != 2 {
			t.Errorf("memory %+v, %v; search forgotten %d times, want no positions, and 2 times", m, err, forgotten)
		}
	})
}

// A renewed database has no data about the old log or the new one, and is valid with both.
func TestRenew_BeforeReplacement_FitsBothLogs(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		archived := w.NodeOnLog(nil)
		for i := range 4 {
			archived.Events("account-a", moment, grant(50+i))
		}
		if err := w.verify(archived.Log); !errors.Is(err, eventlog.ErrLoss) {
			t.Fatalf("before: %v, want %v", err, eventlog.ErrLoss)
		}
		positions, err := sqlstore.NewPositions(t.Context(), w.Store)
		w.must(err)
		w.must(positions.Reset(t.Context(), "relay crawl.live", 7))
		w.must(positions.Reset(t.Context(), "another", 7))
		w.must(loss.Renew(t.Context(), w.Store, map[string]eventlog.Position{"relay crawl.live": 3}))
		for name, want := range map[string]eventlog.Position{"relay crawl.live": 3, "another": 0} {
			if at, found, err := positions.Load(t.Context(), name); err != nil || at != want || found != (want > 0) {
				t.Errorf("the checkpoint of %s is %d (%t, %v), want %d", name, at, found, err, want)
			}
		}
		w.must(w.verify(archived.Log))
		w.must(w.verify(w.Log))
		if m, err := engine.ReadFoldedLog(t.Context(), w.Store); err != nil || len(m.Positions) > 0 {
			t.Errorf("memory %+v, %v, want no positions", m, err)
		}
	})
}
