package checkpoint_test

import (
	"context"
	"errors"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"letterhead/internal/checkpoint"
	"letterhead/internal/eventlog"
	"letterhead/internal/testmust"
)

// memory is a store that fails while it is full, and a log of which only the head is known.
type memory struct {
	checkpoint.Log
	saved, head eventlog.Position
	full        bool
	tries       int
}

func (m *memory) Load(context.Context, string) (eventlog.Position, bool, error) {
	return m.saved, true, nil
}

func (m *memory) Save(ctx context.Context, _ string, p eventlog.Position) error {
	return m.Reset(ctx, "", max(p, m.saved))
}

func (m *memory) Reset(_ context.Context, _ string, p eventlog.Position) error {
	if m.tries++; m.full {
		return errors.New("full")
	}
	m.saved = p
	return nil
}

func (m *memory) Head(context.Context) (eventlog.Position, error) { return m.head, nil }

func at(m *memory) *checkpoint.Checkpoint {
	return &checkpoint.Checkpoint{Name: "test", Store: m, Every: time.Second, Logger: slog.New(slog.DiscardHandler)}
}

func TestBegin_ResetFailsWhileTheLogGrows_KeepsTheFirstHead(t *testing.T) {
	m := &memory{saved: 100, head: 10, full: true}
	c := at(m)
	if err := c.Begin(t.Context(), m); err == nil {
		t.Fatal("Begin succeeded although the checkpoint was not reset")
	}
	m.head, m.full = 20, false
	testmust.Succeed(t, c.Begin(t.Context(), m))
	if c.At != 10 || m.saved != 10 {
		t.Errorf("begins at %d, saved %d; want 10, because the events after it were never read", c.At, m.saved)
	}
}

func TestSaveInTime_SaveFails_PausesBeforeTheNext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := &memory{head: 100}
		c := at(m)
		testmust.Succeed(t, c.Begin(t.Context(), m))
		c.At, m.full = 5, true
		for range 10 { // 20 seconds
			time.Sleep(2 * time.Second)
			c.SaveInTime(t.Context())
		}
		if m.tries != 2 {
			t.Errorf("%d failed saves in 20 seconds, want 2", m.tries)
		}
		m.full = false
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		c.SaveAtLast(ctx)
		if m.saved != 5 {
			t.Errorf("saved %d at last, want 5", m.saved)
		}
	})
}
