package main_test

import (
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// kernel lists the packages of this module that the program may depend on.
var kernel = []string{
	"commands/streamwriter", "examples/counter", "internal/deadline", "internal/delay", "internal/disk",
	"internal/eventlog", "internal/eventlog/esdb", "internal/eventlog/sqlite", "internal/sqlitemutex", "internal/sqlstore",
	"internal/telemetry", "projections", "projections/engine",
}

func TestCounter_Dependencies_AreTheKernel(t *testing.T) {
	out, err := exec.Command("go", "list", "-deps", ".").Output()
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range strings.Fields(string(out)) {
		if inner, ours := strings.CutPrefix(path, "letterhead/"); ours && !slices.Contains(kernel, inner) {
			t.Errorf("the program depends on %s", path)
		}
	}
}

func TestCounter_RestartsAndRebuilds_KeepSums(t *testing.T) {
	program := filepath.Join(t.TempDir(), "counter")
	if out, err := exec.Command("go", "build", "-o", program, ".").CombinedOutput(); err != nil {
		t.Fatalf("build: %v\n%s", err, out)
	}
	folder := t.TempDir()
	run := func(args ...string) (string, error) {
		out, err := exec.Command(program, append([]string{"-log", folder, "-db", folder}, args...)...).CombinedOutput()
		return string(out), err
	}
	for _, args := range [][]string{{"add", "a", "3"}, {"add", "b", "5"}, {"add", "a", "4"}} {
		if out, err := run(args...); err != nil {
			t.Fatalf("%v: %v\n%s", args, err, out)
		}
	}
	if out, err := run("add", "a", "994"); err == nil || !strings.Contains(out, "1001") {
		t.Errorf("add above the limit: %v\n%s", err, out)
	}
	const want = "a 7\nb 5\n"
	for _, before := range []string{"", "rebuild"} {
		if before != "" {
			if out, err := run(before); err != nil {
				t.Fatalf("%s: %v\n%s", before, err, out)
			}
		}
		if out, err := run("list"); out != want || err != nil {
			t.Errorf("list after %q = %q, %v, want %q", before, out, err, want)
		}
	}
}
