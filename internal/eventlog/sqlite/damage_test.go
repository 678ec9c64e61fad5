package sqlite_test

import (
	"bytes"
	"database/sql"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"reflect"
	"strings"
	"testing"

	"letterhead/internal/eventlog"
	"letterhead/internal/eventlog/sqlite"
	"letterhead/internal/testmust"
)

// closedLog makes a log with that many events, closes it and returns the bytes of the file.
func closedLog(t *testing.T, events int) []byte {
	t.Helper()
	path := logPath(t)
	l := open(t, sqlite.Config{Path: path})
	fill(t, l, events)
	testmust.Succeed(t, l.Close())
	file := testmust.Get(os.ReadFile(path))(t)
	return file
}

func write(t *testing.T, path string, data []byte) {
	t.Helper()
	testmust.Succeed(t, os.WriteFile(path, data, 0o600))
}

// wantCorrupt checks for ErrCorrupt and that the message contains a remedy.
func wantCorrupt(t *testing.T, what string, err error) {
	t.Helper()
	if !errors.Is(err, eventlog.ErrCorrupt) {
		t.Errorf("%s: %v, want %q", what, err, eventlog.ErrCorrupt)
		return
	}
	if !strings.Contains(err.Error(), "restore the data folder from a backup") {
		t.Errorf("%s: the error names no remedy: %v", what, err)
	}
}

func TestOpen_TruncatedFile_Fails(t *testing.T) {
	file := closedLog(t, 1000)
	lengths := []int{0, 1, 15, 16, 99, 100, 511, 512, 4095, 4096, len(file) - 4096, len(file) - 4095, len(file) - 1}
	for i := 2; i < 20; i++ {
		lengths = append(lengths, len(file)*i/20)
	}
	for _, length := range lengths {
		path := logPath(t)
		write(t, path, file[:length])
		_, err := sqlite.Open(t.Context(), sqlite.Config{Path: path})
		wantCorrupt(t, fmt.Sprintf("cut to %d bytes", length), err)
		if after, err := os.ReadFile(path); err != nil || len(after) != length {
			t.Errorf("cut to %d bytes: the rejected file was changed to %d bytes (%v)", length, len(after), err)
		}
	}
}

func TestOpen_ForeignFile_Fails(t *testing.T) {
	path := logPath(t)
	write(t, path, []byte(strings.Repeat("this is not a database, but it is long enough. ", 100)))
	_, err := sqlite.Open(t.Context(), sqlite.Config{Path: path})
	wantCorrupt(t, "text", err)

	file := closedLog(t, 25)
	other := append([]byte(nil), file...)
	copy(other[68:], "\x01\x02\x03\x04") // application id
	write(t, path, other)
	_, err = sqlite.Open(t.Context(), sqlite.Config{Path: path})
	wantCorrupt(t, "another program's database", err)

	newer := append([]byte(nil), file...)
	newer[63] = 9 // user version
	write(t, path, newer)
	_, err = sqlite.Open(t.Context(), sqlite.Config{Path: path})
	if err == nil || errors.Is(err, eventlog.ErrCorrupt) || !strings.Contains(err.Error(), "newer") {
		t.Errorf("a file of a newer release: %v", err)
	}
}

func TestOpen_OnlyWriteAheadLogExists_Fails(t *testing.T) {
	path := logPath(t)
	write(t, path+"-wal", []byte("anything"))
	_, err := sqlite.Open(t.Context(), sqlite.Config{Path: path})
	wantCorrupt(t, "a write-ahead log without its database", err)
}

func TestOpen_InterruptedCreation_CreatesAgain(t *testing.T) {
	path := logPath(t)
	write(t, path+".new", []byte("half a file"))
	fill(t, open(t, sqlite.Config{Path: path}), 25)
}

// damaged opens a damaged file, checks it and reads all of it. If no damage is found, the events must be
// those of the intact file: the damage was in unused bytes.
func damaged(t *testing.T, path string, sound []eventlog.Recorded) error {
	t.Helper()
	l, err := sqlite.Open(t.Context(), sqlite.Config{Path: path})
	if err != nil {
		return err
	}
	defer func() {
		if err := l.Close(); err != nil {
			t.Logf("close of a damaged log: %v", err)
		}
	}()
	if err := l.Check(t.Context(), nil); err != nil {
		return err
	}
	if !reflect.DeepEqual(readAll(t, l), sound) {
		t.Errorf("%s: the events changed undetected", path)
	}
	return nil
}

// intactLog makes a log of 1000 events and returns its file and events.
func intactLog(t *testing.T) ([]byte, []eventlog.Recorded) {
	t.Helper()
	file := closedLog(t, 1000)
	path := logPath(t)
	write(t, path, file)
	return file, readAll(t, open(t, sqlite.Config{Path: path}))
}

// SQLite does not detect a flipped bit in an event's bytes, but the checksum does.
func TestFlippedBits_AreDetected(t *testing.T) {
	file, sound := intactLog(t)
	// The ids of charges remain as text in packed rows; splits of pages leave some stale copies.
	var starts []int
	for at := 0; ; {
		i := bytes.Index(file[at:], []byte(`"c-`))
		if i < 0 {
			break
		}
		starts = append(starts, at+i)
		at += i + 1
	}
	if len(starts) < len(sound) {
		t.Fatalf("%d events found in the file", len(starts))
	}
	const flips = 40
	found := 0
	for range flips {
		at := starts[rand.IntN(len(starts))] + rand.IntN(50)
		bad := append([]byte(nil), file...)
		bad[at] ^= byte(1) << rand.IntN(8)
		path := logPath(t)
		write(t, path, bad)
		if err := damaged(t, path, sound); err != nil {
			wantCorrupt(t, fmt.Sprintf("bit flipped at %d", at), err)
			found++
		}
	}
	if found < flips/2 {
		t.Errorf("%d of %d flipped bits were detected", found, flips)
	}
}

// Whole pages of random bytes anywhere are detected, or harmless because the page was unused; they never
// change the content or cause a panic.
func TestDamagedPages_AreDetectedOrHarmless(t *testing.T) {
	file, sound := intactLog(t)
	const page = 4096
	found := 0
	for at := page; at+page <= len(file); at += page {
		bad := append([]byte(nil), file...)
		switch rand.IntN(3) {
		case 0:
			clear(bad[at : at+page])
		case 1:
			for i := range page {
				bad[at+i] = byte(rand.Uint32())
			}
		default:
			copy(bad[at:at+page], file[page:2*page])
		}
		path := logPath(t)
		write(t, path, bad)
		if err := damaged(t, path, sound); err != nil {
			wantCorrupt(t, fmt.Sprintf("page at %d", at), err)
			found++
		}
	}
	if pages := len(file)/page - 1; found < pages-1 {
		t.Errorf("%d of %d damaged pages were detected", found, pages)
	}
}

// An index by stream that leads to other events, has too many or too few, is found, with the event that it misses.
func TestCheck_WrongIndex_NamesEvent(t *testing.T) {
	for what, c := range map[string]struct{ entries, want string }{
		"two entries swapped": {"SELECT CASE position WHEN 3 THEN 5 WHEN 5 THEN 3 ELSE position END, stream, revision FROM events", "event at position 3 is not found as revision"},
		"an entry is missing": {"SELECT position, stream, revision FROM events WHERE position != 7", "event at position 7 is not found as revision"},
		"an entry too many":   {"SELECT position, stream, revision FROM events UNION ALL SELECT 1000, max(stream), max(revision) + 1 FROM events", ""},
	} {
		path := logPath(t)
		l := open(t, sqlite.Config{Path: path})
		fill(t, l, 20)
		testmust.Succeed(t, l.Close())
		for _, statement := range []string{
			"CREATE TABLE other (position INTEGER PRIMARY KEY, stream INTEGER, revision INTEGER)",
			"INSERT INTO other " + c.entries,
			"CREATE UNIQUE INDEX other_by_stream ON other (stream, revision)",
			"PRAGMA writable_schema = ON",
			`UPDATE sqlite_schema SET rootpage = (SELECT rootpage FROM sqlite_schema WHERE name = 'other_by_stream') WHERE name = 'events_by_stream'`,
		} {
			db := testmust.Get(sql.Open("sqlite", path+"?_pragma=writable_schema(1)"))(t)
			testmust.Get(db.Exec(statement))(t)
			testmust.Succeed(t, db.Close())
		}
		l, err := sqlite.Open(t.Context(), sqlite.Config{Path: path})
		if err == nil {
			err = l.Check(t.Context(), nil)
			testmust.Succeed(t, l.Close())
		}
		if !errors.Is(err, eventlog.ErrCorrupt) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", what, err, c.want)
		}
	}
}

// A filter drops events before they are decoded, but not before they are verified.
func TestReadAll_FilterDropsADamagedEvent_IsCorrupt(t *testing.T) {
	l := open(t, sqlite.Config{Path: damagedRow(t, 2000, 700), VerifyBytes: 1})
	none := eventlog.Filter{EventTypes: []string{"Other"}}
	page, err := l.ReadAll(t.Context(), 0, none, 600)
	if err == nil {
		page, err = l.ReadAll(t.Context(), page.Next, none, 600)
	}
	wantCorrupt(t, "events up to the damaged one", err)
	if page, err := l.ReadAll(t.Context(), 700, none, 600); err != nil || len(page.Events) > 0 || page.Next != 2000 {
		t.Errorf("after the damaged event: %d events up to position %d, %v", len(page.Events), page.Next, err)
	}
}
