package engine_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"letterhead/internal/disk"
	"letterhead/internal/testmust"
	"letterhead/projections/engine"
	"letterhead/projections/projectionstest"
)

const (
	gibibyte = 1 << 30
	// fewPages limits the bytes of unused pages in a live database.
	fewPages = 4 * 4096
)

// filling is a disk of one GiB that is almost empty for the first queries. After that only its reserve is free.
func filling(questions int64) func(string) (disk.Space, error) {
	var asked atomic.Int64
	return func(string) (disk.Space, error) {
		s := disk.Space{Free: gibibyte, Size: gibibyte}
		if asked.Add(1) > questions {
			s.Free = s.Reserve()
		}
		return s, nil
	}
}

// filled is a Runner with live tables of every model, and the folder of its scratch files.
func filled(t *testing.T, e *projectionstest.Env) (r *engine.Runner, scratch string) {
	t.Helper()
	scratch = filepath.Join(t.TempDir(), "scratch")
	r, _ = e.Start(engine.Config{ScratchFolder: scratch, BatchEvents: 100}, newModels(t, e).all()...)
	e.Fill(projectionstest.NewWorld(5, 10, 10, time.Minute), 1000)
	e.CatchUp(r)
	return r, scratch
}

// nothingLeft checks that only the first tables exist, that the scratch folder is empty, and that the database has
// hardly any unused pages.
func nothingLeft(t *testing.T, e *projectionstest.Env, scratch string) {
	t.Helper()
	for _, name := range names {
		for _, table := range e.Tables(name + "_v") {
			if !strings.Contains(table, "_g1_") {
				t.Errorf("table %s remains", table)
			}
		}
	}
	left, err := os.ReadDir(scratch)
	if err != nil && !os.IsNotExist(err) || len(left) > 0 {
		t.Errorf("the scratch folder contains %v, %v", left, err)
	}
	size, err := e.Store.Size(t.Context(), nil)
	if err != nil || size.Unused > fewPages {
		t.Errorf("%d bytes of the database are unused, %v", size.Unused, err)
	}
}

// Rule 8.
func TestVerify_LeavesDatabaseUnchanged(t *testing.T) {
	e := projectionstest.Open(t)
	r, scratch := filled(t, e)
	pages := func() (n int64) {
		testmust.Succeed(t, e.Store.Read().QueryRowContext(t.Context(), "SELECT page_count FROM pragma_page_count").Scan(&n))
		return n
	}
	before := pages()
	var last engine.Progress
	found, err := r.Verify(t.Context(), nil, func(p engine.Progress) {
		last = p
		if here := e.Tables("accounts_v"); len(here) == 0 || strings.Contains(strings.Join(here, " "), "_g2_") {
			t.Errorf("the database contains %v", here)
		}
	})
	testmust.Succeed(t, err)
	for _, v := range found {
		if !v.OK() {
			t.Errorf("Verify reports a difference: %+v", v)
		}
	}
	head := testmust.Get(e.Log.Head(t.Context()))(t)
	if last.Events != int64(head) || last.Position != head {
		t.Errorf("the last progress was %+v of %d events", last, head)
	}
	if after := pages(); after != before {
		t.Errorf("the database had %d pages and has %d", before, after)
	}
	nothingLeft(t, e, scratch)
}

func TestMaintenance_NoSpace_DoesNotStart(t *testing.T) {
	e := projectionstest.Open(t)
	r, scratch := filled(t, e)
	r.OnDisk(filling(0))
	began := func(engine.Progress) { t.Error("progress without space") }
	_, verr := r.Verify(t.Context(), nil, began)
	for name, err := range map[string]error{"verify": verr, "rebuild": r.Rebuild(t.Context(), nil, began)} {
		if !errors.Is(err, engine.ErrNoSpace) || !strings.Contains(err.Error(), "for charges") {
			t.Errorf("%s ended with %v", name, err)
		}
	}
	nothingLeft(t, e, scratch)
}

// Rule 8.
func TestMaintenance_SpaceRunsOut_StopsAndLeavesNothing(t *testing.T) {
	e := projectionstest.Open(t)
	r, scratch := filled(t, e)
	for name, run := range map[string]func(func(engine.Progress)) error{
		"verify": func(p func(engine.Progress)) error {
			_, err := r.Verify(t.Context(), nil, p)
			return err
		},
		"rebuild": func(p func(engine.Progress)) error { return r.Rebuild(t.Context(), nil, p) },
	} {
		r.OnDisk(filling(4)) // the estimate and three batches
		batches := 0
		err := run(func(engine.Progress) { batches++ })
		if !errors.Is(err, engine.ErrNoSpace) || batches != 3 {
			t.Errorf("%s ended after %d batches with %v", name, batches, err)
		}
		nothingLeft(t, e, scratch)
	}
	r.OnDisk(disk.At)
	if err := r.Rebuild(t.Context(), nil, nil); err != nil { // the next one succeeds
		t.Fatal(err)
	}
}

func TestVerify_Cancelled_LeavesNothing(t *testing.T) {
	e := projectionstest.Open(t)
	r, scratch := filled(t, e)
	ctx, cancel := context.WithCancel(t.Context())
	if _, err := r.Verify(ctx, nil, func(engine.Progress) { cancel() }); !errors.Is(err, context.Canceled) {
		t.Errorf("Verify = %v, want context.Canceled", err)
	}
	nothingLeft(t, e, scratch)
}

// The next process deletes the scratch files of a killed process, but not those that another process uses.
func TestVerify_LeftoverOfKilledProcess_IsDeleted(t *testing.T) {
	e := projectionstest.Open(t)
	r, scratch := filled(t, e)
	leftover := filepath.Join(scratch, "letterhead-verify-1234")
	testmust.Succeed(t, os.MkdirAll(leftover, 0o700))
	for _, name := range []string{"lock", "tables.db"} {
		testmust.Succeed(t, os.WriteFile(filepath.Join(leftover, name), nil, 0o600))
	}
	var removal error
	_, err := r.Verify(t.Context(), nil, func(engine.Progress) {
		if _, err := os.Stat(leftover); !os.IsNotExist(err) {
			t.Errorf("leftover: %v", err)
		}
		removal = errors.Join(removal, engine.RemoveScratch(scratch))
		if left, err := os.ReadDir(scratch); err != nil || len(left) != 1 {
			t.Errorf("during a verify there are %v, %v", left, err)
		}
	})
	testmust.Succeed(t, errors.Join(err, removal))
	nothingLeft(t, e, scratch)
}

// The space of old tables is returned after a swap.
// Rule 8.
func TestRebuild_ReturnsSpaceOfOldTables(t *testing.T) {
	e := projectionstest.Open(t)
	r, _ := filled(t, e)
	pages := func() (n int64) {
		testmust.Succeed(t, e.Store.Read().QueryRowContext(t.Context(), "SELECT page_count FROM pragma_page_count").Scan(&n))
		return n
	}
	before := pages()
	for range 3 {
		testmust.Succeed(t, r.Rebuild(t.Context(), nil, nil))
	}
	for { // until the last reader of the old tables has left
		logged := e.LogCount()
		after := pages()
		if after <= before+before/2 {
			return
		}
		if err := e.WaitForLog(e.Context(), logged); err != nil {
			t.Fatalf("the database had %d pages and has %d after three rebuilds", before, after)
		}
	}
}
