package node

import (
	"context"
	"errors"
	"log/slog"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"

	"letterhead/internal/eventlog"
	"letterhead/internal/eventlog/sqlite"
	"letterhead/internal/sqlstore"
	"letterhead/internal/testmust"
	"letterhead/projections/engine"
	"letterhead/workers/loss"
)

// logOf returns a log with one event for each id.
func logOf(t *testing.T, ids ...uuid.UUID) eventlog.Log {
	t.Helper()
	log := testmust.Get(sqlite.Open(t.Context(), sqlite.Config{Path: filepath.Join(t.TempDir(), "events.db")}))(t)
	t.Cleanup(func() { log.Close() })
	for i, id := range ids {
		event := eventlog.Proposed{ID: id, Type: "Happened", SchemaVersion: 1, Data: []byte("{}"), OccurredAt: time.Now()}
		testmust.Succeed(t, testmust.Err(log.Append(t.Context(), "account-a", eventlog.After(uint64(i)), []eventlog.Proposed{event})))
	}
	return log
}

// guarded is a node that has roles, a database, and no log.
type guarded struct {
	*lossGuard
	alive context.Context
}

func guardOn(t *testing.T, store *sqlstore.Store) guarded {
	alive, kill := context.WithCancelCause(context.Background())
	t.Cleanup(func() { kill(nil) })
	return guarded{&lossGuard{database: store, logID: store.LogID(), serves: true,
		logger: slog.New(slog.DiscardHandler), kill: kill, lost: &atomic.Pointer[error]{}}, alive}
}

func seenIn(t *testing.T, log eventlog.Log) eventlog.Mark {
	t.Helper()
	last, found, err := eventlog.Probe(log).Last(t.Context())
	if err != nil || !found {
		t.Fatal(found, err)
	}
	return eventlog.MarkOf(&last)
}

// Events that only one node has seen are recorded as well: that node and the others reject a store without them, and
// continue when the store has the events again.
// Rule 2.
func TestAdmit_OnlyThisNodeHasSeenTheEvent_FailsUntilItIsBack(t *testing.T) {
	store := testmust.Get(sqlstore.Open(t.Context(), sqlstore.Config{Path: filepath.Join(t.TempDir(), "letterhead.db")}))(t)
	defer store.Close()
	ids := []uuid.UUID{uuid.New(), uuid.New(), uuid.New(), uuid.New()}
	right, shorter := logOf(t, ids[:3]...), logOf(t, ids[:2]...)
	fork := logOf(t, ids[0], ids[1], uuid.New(), uuid.New())
	admit := func(n guarded, log eventlog.Log, seen eventlog.Mark) error {
		return n.admit(t.Context(), eventlog.Probe(log), seen)
	}

	s, other := guardOn(t, store), guardOn(t, store)
	for _, node := range []guarded{s, other} {
		testmust.Succeed(t, admit(node, right, eventlog.Mark{}))
	}
	if memory, err := engine.ReadFoldedLog(t.Context(), store); err != nil || memory.First.ID != ids[0] {
		t.Fatalf("after the first node the database remembers %+v, %v", memory, err)
	}
	stranger := logOf(t, uuid.New(), uuid.New(), uuid.New(), uuid.New(), uuid.New())
	if err := admit(other, stranger, eventlog.Mark{}); !errors.Is(err, eventlog.ErrLoss) || !strings.Contains(err.Error(), ids[0].String()) {
		t.Errorf("admit of another log = %v, want ErrLoss that names the first event", err)
	}
	seen := seenIn(t, right)
	for name, log := range map[string]eventlog.Log{"shorter": shorter, "fork": fork} {
		if err := admit(s, log, seen); !errors.Is(err, eventlog.ErrLoss) || s.lost.Load() == nil {
			t.Errorf("%s: %v", name, err)
		}
		if err := admit(other, log, eventlog.Mark{}); !errors.Is(err, eventlog.ErrLoss) {
			t.Errorf("%s, a node that has not seen the event: %v; want ErrLoss", name, err)
		}
		for _, node := range []guarded{s, other} {
			if err := admit(node, right, eventlog.Mark{}); err != nil || node.lost.Load() != nil || node.alive.Err() != nil {
				t.Errorf("%s, then the right one: %v", name, err)
			}
		}
	}

	if err := admit(s, shorter, seen); !errors.Is(err, eventlog.ErrLoss) {
		t.Errorf("error = %v, want ErrLoss", err)
	}
	losses, err := loss.Survey(t.Context(), store, eventlog.Probe(shorter))
	if err != nil || len(losses) == 0 {
		t.Fatalf("accept-loss finds %v, %v", losses, err)
	}
	by := loss.Accepting{Actor: "operator:test", Now: time.Now()}
	a := testmust.Get(loss.Prepare(t.Context(), store, by, losses))(t)
	testmust.Succeed(t, testmust.Err(a.Finish(t.Context(), shorter, by)))
	for _, node := range []guarded{s, other} {
		if err := admit(node, shorter, seen); !errors.Is(err, errForget) || !errors.Is(context.Cause(node.alive), errForget) {
			t.Errorf("after the loss was accepted: %v", err)
		}
	}
	if err := admit(guardOn(t, store), shorter, eventlog.Mark{}); err != nil {
		t.Errorf("a node that begins after that: %v", err)
	}
}

// A replacement of the log that breaks no connection to the event store ends the node, too: it could save nothing.
func TestCheckLogID_LogReplaced_EndsNode(t *testing.T) {
	cfg := sqlstore.Config{Path: filepath.Join(t.TempDir(), "letterhead.db")}
	store := testmust.Get(sqlstore.Open(t.Context(), cfg))(t)
	defer store.Close()
	s := guardOn(t, store)
	testmust.Succeed(t, s.checkLogID(t.Context()))
	testmust.Succeed(t, s.alive.Err())
	testmust.Succeed(t, store.ReplaceLog(t.Context(), "another", func(*sqlstore.Tx) error { return nil }))
	if err := s.checkLogID(t.Context()); !errors.Is(err, errForget) || !errors.Is(context.Cause(s.alive), errForget) {
		t.Errorf("after the log was replaced: %v, and the node ends with %v", err, context.Cause(s.alive))
	}
	testmust.Succeed(t, guardOn(t, store).checkLogID(t.Context()))
}

// The reason is one sentence, which is logged once, although the other log grows and the records do.
func TestAdmit_AnotherLogGrows_ReasonStaysTheSame(t *testing.T) {
	store := testmust.Get(sqlstore.Open(t.Context(), sqlstore.Config{Path: filepath.Join(t.TempDir(), "letterhead.db")}))(t)
	defer store.Close()
	s := guardOn(t, store)
	var logged strings.Builder
	s.logger = slog.New(slog.NewTextHandler(&logged, nil))
	testmust.Succeed(t, s.admit(t.Context(), eventlog.Probe(logOf(t, uuid.New())), eventlog.Mark{}))
	positions := testmust.Get(sqlstore.NewPositions(t.Context(), store))(t)
	ids, reasons := []uuid.UUID{uuid.New()}, map[string]bool{}
	for i, name := range []string{"relay ledger", "relay brands", "refresh"} {
		testmust.Succeed(t, positions.Save(t.Context(), name, eventlog.Position(10+i)))
		err := s.admit(t.Context(), eventlog.Probe(logOf(t, ids...)), eventlog.Mark{})
		if !errors.Is(err, eventlog.ErrLoss) {
			t.Fatalf("error = %v, want ErrLoss", err)
		}
		reasons[err.Error()], reasons[(*s.lost.Load()).Error()] = true, true
		ids = append(ids, uuid.New())
	}
	if lines := strings.Count(logged.String(), "rejecting the event store"); len(reasons) != 1 || lines != 1 {
		t.Errorf("%d reasons in %d lines, want 1 in 1: %v", len(reasons), lines, reasons)
	}
}

// A node that was not stopped while the store and the database were restored has seen events of the log before. It
// forgets them, and the database does not learn of them.
func TestAdmit_RestoredLog_NodeForgets(t *testing.T) {
	store := testmust.Get(sqlstore.Open(t.Context(), sqlstore.Config{Path: filepath.Join(t.TempDir(), "letterhead.db")}))(t)
	defer store.Close()
	before, restored := logOf(t, uuid.New(), uuid.New(), uuid.New()), logOf(t, uuid.New(), uuid.New())
	s := guardOn(t, store)
	testmust.Succeed(t, s.admit(t.Context(), eventlog.Probe(before), eventlog.Mark{}))
	filling := loss.NewFilling(store, loss.Restore, time.Now, nil)
	testmust.Succeed(t, errors.Join(filling.Begin(t.Context()), filling.End(t.Context())))
	if err := s.admit(t.Context(), eventlog.Probe(restored), seenIn(t, before)); !errors.Is(err, errForget) {
		t.Errorf("the node that has seen the log before: %v, want errForget", err)
	}
	if err := guardOn(t, store).admit(t.Context(), eventlog.Probe(restored), eventlog.Mark{}); err != nil {
		t.Errorf("a node that begins after that: %v", err)
	}
}
