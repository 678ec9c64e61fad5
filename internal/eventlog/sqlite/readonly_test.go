package sqlite_test

import (
	"context"
	"database/sql"
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"letterhead/internal/eventlog"
	"letterhead/internal/eventlog/sqlite"
	"letterhead/internal/testmust"
)

func openReadOnly(t *testing.T, path string) sqlite.ReadOnly {
	t.Helper()
	l := testmust.Get(sqlite.OpenReadOnly(t.Context(), sqlite.Config{Path: path}))(t)
	t.Cleanup(func() { l.Close() })
	return l
}

func allOf(t *testing.T, l eventlog.Log) []eventlog.Recorded {
	t.Helper()
	page := testmust.Get(l.ReadAll(t.Context(), 0, eventlog.Filter{}, eventlog.MaxPage))(t)
	return page.Events
}

func TestOpenReadOnly_ClosedLog_ReadsAllAndWritesNothing(t *testing.T) {
	path := logPath(t)
	l := open(t, sqlite.Config{Path: path})
	fill(t, l, 500)
	want := readAll(t, l)
	testmust.Succeed(t, l.Close())
	before := files(t, filepath.Dir(path))
	r := openReadOnly(t, path)
	if got := allOf(t, r); !reflect.DeepEqual(got, want) {
		t.Errorf("read %d events, want %d", len(got), len(want))
	}
	if err := r.Check(t.Context(), nil); err != nil {
		t.Error(err)
	}
	if _, err := r.Append(t.Context(), "account-1", eventlog.After(0), nil); !errors.Is(err, sqlite.ErrReadOnly) {
		t.Errorf("append: %v", err)
	}
	if err := r.Close(); err != nil {
		t.Error(err)
	}
	if after := files(t, filepath.Dir(path)); !reflect.DeepEqual(before, after) {
		t.Errorf("the folder changed from %v to %v", before, after)
	}
}

func TestOpenReadOnly_BesideTheWriter_SeesWhatIsAppended(t *testing.T) {
	path := logPath(t)
	l := open(t, sqlite.Config{Path: path})
	fill(t, l, 500)
	r := openReadOnly(t, path)
	testmust.Succeed(t, testmust.Err(l.Append(t.Context(), "account-later", eventlog.NoStream(), batchFrom(500, 25))))
	if head, err := r.Head(t.Context()); err != nil || head != 525 {
		t.Errorf("the head is %d, %v, want 525", head, err)
	}
	if got := allOf(t, r); len(got) != 525 {
		t.Errorf("%d events were read, want 525", len(got))
	}
}

func TestOpenReadOnly_Pace_IsCalledBeforeEachRead(t *testing.T) {
	path := logPath(t)
	fill(t, open(t, sqlite.Config{Path: path}), 3)
	calls, failure := 0, error(nil)
	r, err := sqlite.OpenReadOnly(t.Context(), sqlite.Config{Path: path, Pace: func(context.Context) error {
		calls++
		return failure
	}})
	testmust.Succeed(t, err)
	t.Cleanup(func() { r.Close() })
	stream := allOf(t, r)[0].Stream
	if _, err := r.ReadStream(t.Context(), stream, 0, eventlog.Forward, 1); err != nil || calls != 2 {
		t.Errorf("after two reads, Pace was called %d times (%v)", calls, err)
	}
	failure = errors.New("paced")
	if _, err := r.ReadAll(t.Context(), 0, eventlog.Filter{}, 1); !errors.Is(err, failure) {
		t.Errorf("ReadAll returned %v, want the error of Pace", err)
	}
	if _, err := r.ReadStream(t.Context(), stream, 0, eventlog.Forward, 1); !errors.Is(err, failure) {
		t.Errorf("ReadStream returned %v, want the error of Pace", err)
	}
}

// A read-only folder that has lost events is detected as well.
func TestCheck_ReadOnlyLogShorterThanItsMarker_Fails(t *testing.T) {
	path := logPath(t)
	l := open(t, sqlite.Config{Path: path})
	fill(t, l, 50)
	testmust.Succeed(t, l.Close())
	shorter := testmust.Get(os.ReadFile(path))(t)
	l = open(t, sqlite.Config{Path: path})
	testmust.Succeed(t, testmust.Err(l.Append(t.Context(), "account-later", eventlog.NoStream(), batchFrom(50, 25))))
	testmust.Succeed(t, l.Close())
	testmust.Succeed(t, os.WriteFile(path, shorter, 0o600))
	if err := openReadOnly(t, path).Check(t.Context(), nil); !errors.Is(err, eventlog.ErrCorrupt) {
		t.Errorf("the check ended with %v", err)
	}
}

// Without its index, a write-ahead log could only be read by writing one; ignoring the log would lose events.
func TestOpenReadOnly_WriteAheadLogWithoutIndex_Fails(t *testing.T) {
	path := logPath(t)
	l := open(t, sqlite.Config{Path: path})
	fill(t, l, 50)
	copied := logPath(t)
	for _, end := range []string{"", "-wal"} {
		data := testmust.Get(os.ReadFile(path + end))(t)
		testmust.Succeed(t, os.WriteFile(copied+end, data, 0o600))
	}
	_, err := sqlite.OpenReadOnly(t.Context(), sqlite.Config{Path: copied})
	if !errors.Is(err, eventlog.ErrUnavailable) || !strings.Contains(err.Error(), "writable") {
		t.Errorf("opened with %v", err)
	}
}

// files returns the names and sizes of a folder's files.
func files(t *testing.T, folder string) map[string]int64 {
	t.Helper()
	entries := testmust.Get(os.ReadDir(folder))(t)
	sizes := make(map[string]int64)
	for _, e := range entries {
		info := testmust.Get(e.Info())(t)
		sizes[e.Name()] = info.Size()
	}
	return sizes
}

// A server that has started but appended nothing has an empty write-ahead log.
func TestOpenReadOnly_EmptyWriteAheadLog_SeesWhatIsAppended(t *testing.T) {
	path := logPath(t)
	l := open(t, sqlite.Config{Path: path})
	fill(t, l, 100)
	testmust.Succeed(t, l.Close())
	l = open(t, sqlite.Config{Path: path})
	if info, err := os.Stat(path + "-wal"); err != nil || info.Size() != 0 {
		t.Fatalf("the write-ahead log: %v, %v", info, err)
	}
	r := openReadOnly(t, path)
	testmust.Succeed(t, testmust.Err(l.Append(t.Context(), "account-later", eventlog.NoStream(), batchFrom(100, 25))))
	if head, err := r.Head(t.Context()); err != nil || head != 125 {
		t.Errorf("the head is %d, %v, want 125", head, err)
	}
	if err := r.Check(t.Context(), nil); err != nil {
		t.Error(err)
	}
}

// A process that reads prevents later writes from being moved into the file; that is not damage.
func TestOpen_WhileAnotherReads_IsNotDamage(t *testing.T) {
	path := logPath(t)
	l := open(t, sqlite.Config{Path: path})
	fill(t, l, 100)
	db := testmust.Get(sql.Open("sqlite", path))(t)
	defer db.Close()
	tx := testmust.Get(db.Begin())(t)
	var seen int
	if err := tx.QueryRow("SELECT count(*) FROM events").Scan(&seen); err != nil || seen != 100 {
		t.Fatalf("%d events, %v, want 100", seen, err)
	}
	testmust.Succeed(t, testmust.Err(l.Append(t.Context(), "account-later", eventlog.NoStream(), batchFrom(100, 500))))
	testmust.Succeed(t, l.Close())
	l = open(t, sqlite.Config{Path: path})
	if head, err := l.Head(t.Context()); err != nil || head != 600 {
		t.Errorf("the head is %d, %v, want 600", head, err)
	}
	testmust.Succeed(t, tx.Rollback())
}
