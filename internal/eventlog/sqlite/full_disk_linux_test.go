package sqlite_test

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"letterhead/internal/disk/disktest"
	"letterhead/internal/eventlog"
	"letterhead/internal/eventlog/sqlite"
	"letterhead/internal/testmust"
)

// A crash may leave a full disk with a write-ahead log and without room for its index, which SQLite keeps in a file.
// Rule 2.
func TestOpen_FullDisk_ReadsAndAppendsWhenThereIsRoom(t *testing.T) {
	disktest.Run(t, "8m", func(at string) {
		ballast := filepath.Join(at, "ballast")
		for _, c := range []struct {
			name    string
			crashed bool
			format  byte
		}{{"after a crash", true, 2}, {"after a clean shutdown", false, 2}, {"of the release before", false, 1}} {
			t.Run(c.name, func(t *testing.T) {
				folder := t.TempDir()
				l := testmust.Get(sqlite.Open(t.Context(), sqlite.Config{Path: filepath.Join(folder, "events.db")}))(t)
				const events = 700
				for next := uint64(0); next < events; next += 7 {
					testmust.Succeed(t, add(t, l, next, 7))
				}
				if !c.crashed {
					testmust.Succeed(t, l.Close())
				}
				data := filepath.Join(at, c.name)
				for _, name := range []string{"events.db", "events.db-wal", "events.head"} { // not the index
					copyIfThere(t, filepath.Join(folder, name), filepath.Join(data, name))
				}
				if c.crashed {
					testmust.Succeed(t, l.Close())
				}
				disktest.Fill(t, ballast)
				path := filepath.Join(data, "events.db")
				before := testmust.Get(os.ReadFile(path))(t)
				before[63] = c.format // the last byte of the number in the header
				testmust.Succeed(t, rewrite(path, before))
				if report, err := sqlite.Inspect(t.Context(), path); err != nil || report.Loss != nil ||
					report.Head != events {
					t.Errorf("Inspect = %+v, %v", report, err)
				}
				if after, err := os.ReadFile(path); err != nil || string(after) != string(before) {
					t.Errorf("Inspect changed the file (%v)", err)
				}
				l = open(t, sqlite.Config{Path: path})
				if err := fullDiskHolds(t.Context(), l, events); err != nil {
					t.Error(err)
				}
				if err := l.Check(t.Context(), nil); err != nil {
					t.Errorf("Check on a full disk: %v", err)
				}
				if err := l.Try(t.Context()); !errors.Is(err, eventlog.ErrFull) {
					t.Errorf("Try on a full disk: %v, want ErrFull", err)
				}
				if err := l.Fault(); !errors.Is(err, eventlog.ErrFull) {
					t.Errorf("Fault on a full disk: %v, want ErrFull", err)
				}
				if err := add(t, l, events, 40); !errors.Is(err, eventlog.ErrFull) {
					t.Errorf("Append on a full disk: %v, want ErrFull", err)
				}
				testmust.Succeed(t, os.Remove(ballast))
				if err := l.Try(t.Context()); err != nil || l.Fault() != nil {
					t.Errorf("Try when there is room: %v, Fault %v", err, l.Fault())
				}
				if err := add(t, l, events, 40); err != nil {
					t.Errorf("Append when there is room: %v", err)
				}
				if err := fullDiskHolds(t.Context(), l, events+40); err != nil {
					t.Error(err)
				}
				if err := l.Close(); err != nil {
					t.Error(err)
				}
				if after := testmust.Get(os.ReadFile(path))(t); after[63] != c.format {
					t.Errorf("a start on a full disk gave the file format %d instead of %d", after[63], c.format)
				}
				l = open(t, sqlite.Config{Path: path})
				if err := errors.Join(l.Check(t.Context(), nil), fullDiskHolds(t.Context(), l, events+40)); err != nil {
					t.Errorf("at the next start: %v", err)
				}
			})
		}
	})
}

// A loss is found on a full disk, too, and changes nothing.
func TestOpen_FullDiskAndLostEvents_ReportsLoss(t *testing.T) {
	disktest.Run(t, "8m", func(at string) {
		folder := t.TempDir()
		l := open(t, sqlite.Config{Path: filepath.Join(folder, "events.db")})
		for next := uint64(0); next < 70; next += 7 {
			testmust.Succeed(t, add(t, l, next, 7))
		}
		for _, name := range []string{"events.db", "events.db-wal", "events.head"} {
			copyIfThere(t, filepath.Join(folder, name), filepath.Join(at, name))
		}
		wal := filepath.Join(at, "events.db-wal")
		info, err := os.Stat(wal)
		testmust.Succeed(t, err)
		testmust.Succeed(t, os.Truncate(wal, info.Size()/2))
		disktest.Fill(t, filepath.Join(at, "ballast"))
		_, err = sqlite.Open(t.Context(), sqlite.Config{Path: filepath.Join(at, "events.db")})
		if !errors.Is(err, eventlog.ErrLoss) {
			t.Errorf("Open = %v, want ErrLoss", err)
		}
	})
}

// A new log cannot be made on a full disk.
func TestOpen_FullDiskAndNewLog_ReturnsErrFull(t *testing.T) {
	disktest.Run(t, "1m", func(at string) {
		disktest.Fill(t, filepath.Join(at, "ballast"))
		_, err := sqlite.Open(t.Context(), sqlite.Config{Path: filepath.Join(at, "events.db")})
		if !errors.Is(err, eventlog.ErrFull) {
			t.Errorf("Open = %v, want ErrFull", err)
		}
	})
}

// rewrite writes a file in place, which needs no room.
func rewrite(path string, data []byte) error {
	f, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err == nil {
		_, err = f.Write(data)
		err = errors.Join(err, f.Close())
	}
	return err
}

// add appends n events to the stream of the tests, which has some.
func add(t *testing.T, l *sqlite.Log, has uint64, n int) error {
	t.Helper()
	_, err := l.Append(t.Context(), fullDiskStream, eventlog.After(has), batchFrom(has, n))
	return err
}

func copyIfThere(t *testing.T, from, to string) {
	t.Helper()
	data, err := os.ReadFile(from)
	if errors.Is(err, os.ErrNotExist) {
		return
	}
	if err == nil {
		err = os.MkdirAll(filepath.Dir(to), 0o700)
	}
	if err == nil {
		err = os.WriteFile(to, data, 0o600)
	}
	testmust.Succeed(t, err)
}
