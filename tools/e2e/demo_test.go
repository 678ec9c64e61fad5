package e2e

import (
	"bufio"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"letterhead/internal/testmust"
)

// demo is a running demonstration, with the links that it has printed.
type demo struct {
	*node
	customer, operator string
	folder             string // for temporary files
}

func startDemo(t testing.TB) demo {
	t.Helper()
	return startDemoOn(t, anyPort)
}

func startDemoOn(t testing.TB, address string) demo {
	t.Helper()
	folder := t.TempDir()
	d := demo{node: &node{t: t, out: newOutput()}, folder: folder}
	d.cmd = exec.Command(binary, "demo", "--listen", address)
	d.cmd.Env = environ("TMPDIR="+folder, "LETTERHEAD_EVENTSTORE=esdb://production.example.com:2113")
	d.cmd.Stdout, d.cmd.Stderr = d.out, d.out
	d.run()
	d.url = d.out.waitFor(t, `(?m)^  first page   (\S+)/$`, d.done)[1]
	d.customer = d.out.waitFor(t, `(?m)^  dashboard    (http://\S+/dashboard/sign-in\?account=\S+)$`, d.done)[1]
	d.operator = d.out.waitFor(t, `(?m)^  operators    (http://\S+/sign-in\?token=\S+)$`, d.done)[1]
	return d
}

// The demonstration needs no network and no settings, ignores those of a service on the machine, and leaves nothing.
func TestDemo_Accounts_HaveNamesAndHistoryAndAreRemoved(t *testing.T) {
	d := startDemo(t)
	if page := string(d.want(200, "/brands/github.com", "").body); !strings.Contains(page, "<h1>GitHub</h1>") {
		t.Errorf("the page of a brand: %.300s", page)
	}
	folders := testmust.Get(filepath.Glob(filepath.Join(d.folder, "letterhead-demo-*", "data")))(t)
	if len(folders) != 1 {
		t.Fatalf("the demonstration has the folders %v, want one", folders)
	}
	accounts := ok(t, folders[0], "account", "list")
	if named := strings.Count(accounts, " & "); named < 2 || !strings.Contains(accounts, "Northwind Atlas") {
		t.Errorf("the accounts have no names:\n%s", accounts)
	}
	_, id, _ := strings.Cut(d.customer, "account=")
	id, _, _ = strings.Cut(id, "&")
	if entries := ok(t, folders[0], "ledger", "show", "--account", id, "--last", "500"); !strings.Contains(entries, "github.com") {
		t.Errorf("the ledger has no brand of the starter index:\n%.500s", entries)
	}
	d.stop()
	leavesNothing(t, d.folder)
}

func leavesNothing(t *testing.T, folder string) {
	t.Helper()
	if left := testmust.Get(os.ReadDir(folder))(t); len(left) != 0 {
		t.Errorf("the demonstration has left %s", left[0].Name())
	}
}

// On an address that others reach, the operators' pages stay on this machine, and a closed terminal ends it all.
func TestDemo_TerminalCloses_LeavesNothing(t *testing.T) {
	d := startDemoOn(t, "0.0.0.0:0")
	if !strings.HasPrefix(d.operator, "http://127.0.0.1:") {
		t.Errorf("the operators' link is %s", d.operator)
	}
	testmust.Succeed(t, d.cmd.Process.Signal(syscall.SIGHUP))
	select {
	case <-d.done:
	case <-time.After(exitTimeout):
		t.Fatalf("it does not end:\n%s", d.out)
	}
	leavesNothing(t, d.folder)
}

func TestDemo_ReaderOfItsOutputEnds_LeavesNothing(t *testing.T) {
	folder := t.TempDir()
	r, w, err := os.Pipe()
	testmust.Succeed(t, err)
	demo := exec.Command(binary, "demo", "--listen", anyPort)
	demo.Env, demo.Stdout = environ("TMPDIR="+folder), w
	testmust.Succeed(t, demo.Start())
	hung := time.AfterFunc(readyTimeout, func() { demo.Process.Kill() })
	defer hung.Stop()
	testmust.Succeed(t, w.Close())
	testmust.Get(bufio.NewReader(r).ReadString('\n'))(t)
	testmust.Succeed(t, r.Close())
	if err := demo.Wait(); err == nil || demo.ProcessState.ExitCode() < 0 {
		t.Errorf("it ends with %v, want an error of its own", err)
	}
	leavesNothing(t, folder)
}

func TestDemo_OneWasKilled_TheNextRemovesItsFolder(t *testing.T) {
	killed, running := startDemo(t), startDemo(t)
	testmust.Succeed(t, killed.cmd.Process.Kill())
	<-killed.done
	left := testmust.Get(filepath.Glob(filepath.Join(killed.folder, "letterhead-demo-*")))(t)
	used := testmust.Get(filepath.Glob(filepath.Join(running.folder, "letterhead-demo-*")))(t)
	if len(left) != 1 || len(used) != 1 {
		t.Fatalf("the demonstrations have the folders %v and %v", left, used)
	}
	other := testmust.Get(net.Listen("tcp", anyPort))(t)
	defer other.Close()
	for folder, remain := range map[string]int{killed.folder: 0, running.folder: 1} {
		next := exec.Command(binary, "demo", "--listen", other.Addr().String()) // which is refused, after it has removed what is left
		next.Env = environ("TMPDIR=" + folder)
		if out, err := next.CombinedOutput(); err == nil {
			t.Errorf("the next demonstration runs:\n%s", out)
		}
		if found := testmust.Get(os.ReadDir(folder))(t); len(found) != remain {
			t.Errorf("%s has %v, want %d folders", folder, found, remain)
		}
	}
	running.want(200, "/brands/github.com", "")
}

func TestDemo_PortIsTaken_IsRefusedBeforeTheHistory(t *testing.T) {
	other := testmust.Get(net.Listen("tcp", anyPort))(t)
	defer other.Close()
	folder := t.TempDir()
	demo := exec.Command(binary, "demo", "--listen", other.Addr().String())
	demo.Env = environ("TMPDIR=" + folder)
	if out, err := demo.CombinedOutput(); err == nil || strings.Contains(string(out), "history") || !strings.Contains(string(out), "--listen") {
		t.Errorf("%v, %s; want an error that names --listen, and no history", err, out)
	}
	leavesNothing(t, folder)
}

func TestDemo_WhatItDoesNotKnow_IsRefused(t *testing.T) {
	for _, args := range [][]string{{"demo", "now"}, {"demo", "--accounts", "3"}, {"demo", "--data", t.TempDir()}, {"demo", "--listen", "8080"}} {
		out, err := exec.Command(binary, args...).CombinedOutput()
		if err == nil || len(out) == 0 {
			t.Errorf("%v: %v, %s; want an error that says why", args, err, out)
		}
	}
}
