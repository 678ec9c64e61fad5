package main

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"letterhead/adminapi"
	"letterhead/node/admin"
	"letterhead/node/datafolder"
)

// answering has a server that answers with these handlers hold a new folder until the test ends.
func answering(t *testing.T, run admin.Runner, api http.Handler, logs io.Writer) (folder string) {
	t.Helper()
	folder, err := os.MkdirTemp("", "lh") // a short path, as sockets need
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(folder) })
	if err := openFolder(t, folder).Close(); err != nil {
		t.Fatal(err)
	}
	lock, err := datafolder.Acquire(folder, datafolder.MustExist, version)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = lock.Release() })
	serveSocket(t, folder, run, api, logs)
	return folder
}

func serveSocket(t *testing.T, folder string, run admin.Runner, api http.Handler, logs io.Writer) (stop func()) {
	t.Helper()
	server, err := admin.Serve(folder, run, api, slog.New(slog.NewTextHandler(logs, nil)))
	if err != nil {
		t.Fatal(err)
	}
	stopped := false
	stop = func() {
		if !stopped {
			stopped = true
			if err := server.Close(context.Background()); err != nil {
				t.Error(err)
			}
		}
	}
	t.Cleanup(stop)
	return stop
}

func TestClient_ServerHasLostEvents_ExitsWithItsCode(t *testing.T) {
	folder := answering(t, nil, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusInternalServerError)
		_ = json.NewEncoder(w).Encode(map[string]any{"error": map[string]string{"code": adminapi.CodeLogLost, "message": "events are missing"}})
	}), io.Discard)
	for _, args := range [][]string{{"account", "list"}, {"account", "note", "a", "text"}, {"books", "close", "2026-01"}} {
		if code, _, stderr := commandLine(t.Context(), append(args, "--data", folder)...); code != exitLoss || !strings.Contains(stderr, "events are missing") || strings.Contains(stderr, "--repeat") {
			t.Errorf("%v ended with %d: %s; want %d", args, code, stderr, exitLoss)
		}
	}
}

// A connection breaks after the request, whose act is done. The command says so, and does nothing twice with its key.
func TestClient_ConnectionBreaks_RepeatIsDoneOnce(t *testing.T) {
	folder, id := openAccount(t)
	n := openNode(t, folder)
	api, err := n.CommandAPI(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	stop := serveSocket(t, folder, nil, http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		api.ServeHTTP(httptest.NewRecorder(), r)
		panic(http.ErrAbortHandler)
	}), io.Discard)
	grant := []string{"credits", "grant", "--account", id, "--amount", "5", "--kind", "adjustment", "--data", folder}
	code, _, stderr := commandLine(t.Context(), grant...)
	key := regexp.MustCompile(`--repeat [0-9a-f-]{36}`).FindString(stderr)
	if code != exitFailure || key == "" || !strings.Contains(stderr, `may have been carried out, which "letterhead ledger show" shows`) {
		t.Fatalf("the grant ended with %d: %s", code, stderr)
	}
	_, _, stderr = commandLine(t.Context(), "payment", "fee", "p1", "--money", "1", "--data", folder)
	if !strings.Contains(stderr, "may have been carried out") || !strings.Contains(stderr, "with --fee-id ") || strings.Contains(stderr, "--repeat") {
		t.Errorf("the fee ended with %s", stderr)
	}
	if _, _, stderr := commandLine(t.Context(), "account", "list", "--data", folder); strings.Contains(stderr, "may have been") {
		t.Errorf("the list, which does nothing, ended with %s", stderr)
	}
	stop()
	if code, _, stderr := commandLine(t.Context(), grant...); code != exitFailure || !strings.Contains(stderr, "try again in a moment") || strings.Contains(stderr, "may have been") {
		t.Errorf("without the server the grant ended with %d: %s", code, stderr)
	}
	if err := n.Close(); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if said := output(t, filepath.Clean(folder), append(grant[:len(grant)-2:len(grant)-2], strings.Fields(key)...)...); !strings.Contains(said, "balance 55") {
			t.Errorf("the repeat printed %s", said)
		}
	}
	if code, _, stderr := commandLine(t.Context(), append(grant, "--repeat", "1")...); code != exitUsage || !strings.Contains(stderr, "--repeat takes") {
		t.Errorf("with a wrong key the grant ended with %d: %s", code, stderr)
	}
	other := append(strings.Fields("account note "+id+" text --data "+folder), strings.Fields(key)...)
	if code, _, stderr := commandLine(t.Context(), other...); code != exitUsage || !strings.Contains(stderr, "--repeat has the key of another command") {
		t.Errorf("with the key of a grant a note ended with %d: %s", code, stderr)
	}
}

func TestForward_ConnectionBreaks_SaysWhatMayBeDone(t *testing.T) {
	broken := func(context.Context, []string, io.Writer, io.Writer) int { panic(http.ErrAbortHandler) }
	folder := answering(t, broken, nil, io.Discard)
	for args, may := range map[string]bool{"names repair a --erase": true, "doctor": false} {
		code, _, stderr := commandLine(t.Context(), append(strings.Fields(args), "--data", folder)...)
		if code != exitFailure || strings.Contains(stderr, `which "letterhead names" shows`) != may || !strings.Contains(stderr, "broke") {
			t.Errorf("%s ended with %d: %s", args, code, stderr)
		}
	}
}

func TestClient_CommandPanicsInServer_FailsWithoutStack(t *testing.T) {
	var logs bytes.Buffer
	var deep func(int)
	deep = func(n int) {
		if n == 0 {
			panic("test")
		}
		deep(n - 1)
	}
	folder := answering(t, func(context.Context, []string, io.Writer, io.Writer) int { deep(200); return exitOK }, nil, &logs)
	code, _, stderr := commandLine(t.Context(), "events", "tail", "--data", folder)
	if code != exitFailure || stderr != "letterhead: panic: test\n" {
		t.Errorf("the command ended with %d: %s", code, stderr)
	}
	if logged := logs.Len(); logged == 0 || logged > 16<<10 {
		t.Errorf("%d bytes are logged: %s", logged, logs.String())
	}
}
