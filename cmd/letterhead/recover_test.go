package main

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"letterhead/internal/eventlog"
	"letterhead/internal/testmust"
	"letterhead/workers/loss"
)

// An acceptance that cannot begin must not change the folder: it works again when the intact log is back.
func TestAcceptLoss_UnreadableLog_IsUndoneByIntactFile(t *testing.T) {
	folder := oneCrawl(t)
	path := filepath.Join(folder, "events.db")
	intact := testmust.Get(os.ReadFile(path))(t)
	put := func(data []byte) {
		t.Helper()
		testmust.Succeed(t, os.WriteFile(path, data, 0o600))
	}
	accept := func(wantCode int, want string) {
		t.Helper()
		code, stdout, stderr := commandLine(t.Context(), "recover", "accept-loss", "--yes", "--data", folder)
		if code != wantCode || !strings.Contains(stdout+stderr, want) {
			t.Errorf("accept-loss ended with %d: stdout %s, stderr %s", code, stdout, stderr)
		}
	}
	verified := func(want int) {
		t.Helper()
		if code, stdout, stderr := commandLine(t.Context(), "ledger", "verify", "--data", folder); code != want {
			t.Errorf("ledger verify ended with %d, want %d: %s%s", code, want, stdout, stderr)
		}
	}
	put(intact[:100]) // the header
	accept(exitLoss, "no event can be read")
	verified(exitLoss)
	put(intact)
	verified(exitOK)
	accept(exitOK, "nothing is missing")
}

// An acceptance was killed after it began and before it changed the log. If the missing events are in the log again,
// the next run cancels it.
func TestAcceptLoss_KilledThenIntactFile_RecordsNothing(t *testing.T) {
	folder := oneCrawl(t)
	path := filepath.Join(folder, "events.db")
	n := openFolder(t, folder)
	losses := []*eventlog.LossError{{Witness: "head marker", Remembered: 2}}
	a, err := loss.Prepare(t.Context(), n.Stores.Database, loss.Accepting{Actor: "operator:test", Now: time.Now()}, losses)
	if err == nil {
		err = a.Begin(t.Context())
	}
	testmust.Succeed(t, errors.Join(err, n.Close()))
	before := testmust.Get(os.ReadFile(path))(t)
	if code, _, stderr := commandLine(t.Context(), "ledger", "verify", "--data", folder); code != exitLoss || !strings.Contains(stderr, "run it again") {
		t.Errorf("during an unfinished acceptance, ledger verify ended with %d: stderr %s; want %d and text that contains %q", code, stderr, exitLoss, "run it again")
	}
	if code, stdout, stderr := commandLine(t.Context(), "recover", "accept-loss", "--yes", "--data", folder); code != exitOK || !strings.Contains(stdout, "nothing is missing") {
		t.Errorf("accept-loss ended with %d: stdout %s, stderr %s; want %d and text that contains %q", code, stdout, stderr, exitOK, "nothing is missing")
	}
	if code, _, stderr := commandLine(t.Context(), "ledger", "verify", "--data", folder); code != exitOK {
		t.Errorf("ledger verify ended with %d: stderr %s; want %d", code, stderr, exitOK)
	}
	if after, err := os.ReadFile(path); err != nil || !bytes.Equal(after, before) {
		t.Errorf("the log was changed (%v)", err)
	}
}

func TestBooksClose_DamagedLog_NamesTheMonth(t *testing.T) {
	folder := oneCrawl(t)
	testmust.Succeed(t, os.Truncate(filepath.Join(folder, "events.db"), 100))
	code, _, stderr := commandLine(t.Context(), "books", "close", "2026-01", "--data", folder)
	if code != exitLoss || strings.Count(stderr, "2026-01 was not closed: ") != 1 || !strings.Contains(stderr, "its end is missing") {
		t.Errorf("ended with %d: %s", code, stderr)
	}
}
