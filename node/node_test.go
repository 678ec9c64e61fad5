package node

import (
	"context"
	"io"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"letterhead/internal/config"
	"letterhead/internal/resvg/resvgtest"
	"letterhead/internal/testmust"
	"letterhead/internal/testwait"
	"letterhead/node/datafolder"
)

const release = "test"

// openNode opens a node of one folder that has not begun, without a starter index of its own.
func openNode(t *testing.T) *Node {
	t.Helper()
	return openNodeOf(t, Parts{})
}

// openNodeOf is openNode with parts.
func openNodeOf(t *testing.T, parts Parts) *Node {
	t.Helper()
	folder := filepath.Join(t.TempDir(), "data")
	resvgtest.Link(t, folder)
	return openNodeIn(t, folder, parts)
}

// openNodeIn is openNodeOf for a folder.
func openNodeIn(t *testing.T, folder string, parts Parts) *Node {
	t.Helper()
	t.Setenv("LETTERHEAD_STARTER", "off")
	cfg := testmust.Get(config.FromEnvironment(map[string]string{"LETTERHEAD_DATA": folder}))(t)
	lock := testmust.Get(datafolder.Acquire(cfg.Data, datafolder.MayBeNew, release))(t)
	n := testmust.Get(Open(t.Context(), cfg, lock, Options{Release: release, Logs: io.Discard, LogLevel: "error", Parts: parts}))(t)
	t.Cleanup(func() {
		if err := n.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	return n
}

// A part that takes long to stop must not keep parts that other calls started at work.
func TestClose_PartsOfSeveralStarts_StopTogether(t *testing.T) {
	n := openNode(t)
	stopping := make(chan struct{})
	n.life.start([]part{{"early", func(ctx context.Context) error {
		<-ctx.Done()
		close(stopping)
		return nil
	}}})
	n.life.start([]part{{"late", func(ctx context.Context) error {
		<-ctx.Done()
		select {
		case <-stopping:
		case <-time.After(testwait.Timeout):
			t.Error("the early part is stopped only after the late one has ended")
		}
		return nil
	}}})
}

// openStores opens the stores of a data folder.
func openStores(t testing.TB, folder string) *Node {
	t.Helper()
	lock := testmust.Get(datafolder.Acquire(folder, datafolder.MayBeNew, release))(t)
	n := testmust.Get(OpenStores(t.Context(), settingsOf(t, folder), lock, Options{Release: release, Logs: testLog{t}}))(t)
	return n
}

// settingsOf returns the settings of a process that has everything in one folder.
func settingsOf(t testing.TB, folder string) config.Config {
	t.Helper()
	cfg := testmust.Get(config.Load(func(string) (string, bool) { return "", false }, map[string]string{"LETTERHEAD_DATA": folder}))(t)
	return cfg
}

type testLog struct{ t testing.TB }

func (l testLog) Write(p []byte) (int, error) {
	l.t.Log(strings.TrimSpace(string(p)))
	return len(p), nil
}
