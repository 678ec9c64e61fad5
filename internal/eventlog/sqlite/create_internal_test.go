package sqlite

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"letterhead/internal/eventlog"
	"letterhead/internal/testmust"
)

func appendOne(t *testing.T, l *Log, revision uint64) {
	t.Helper()
	e := eventlog.Proposed{ID: uuid.New(), Type: "Tested", SchemaVersion: 1, OccurredAt: time.Now(), Data: []byte(`{}`)}
	testmust.Succeed(t, testmust.Err(l.Append(t.Context(), "stream", eventlog.After(revision), []eventlog.Proposed{e})))
}

// A file is in WAL mode before it is moved into place, so nothing writes a rollback journal there.
func TestCreate_FileInPlace_IsInWALMode(t *testing.T) {
	path := filepath.Join(t.TempDir(), "events.db")
	testmust.Succeed(t, create(path))
	header, err := readHeader(path)
	if err != nil || header[headerWriteVersion] != 2 || header[headerReadVersion] != 2 {
		t.Errorf("the header has the versions %v (%v), want 2 and 2, which mean WAL mode", header[headerWriteVersion:headerReadVersion+1], err)
	}
	there, err := filepath.Glob(path + "*")
	if err != nil || len(there) != 1 {
		t.Errorf("there are other files: %v (%v)", there, err)
	}
}

// interruptWALSwitch produces the files of a process killed while it enabled WAL mode: a journal with the original
// first page, and that page fully or partly changed.
func interruptWALSwitch(t *testing.T, path string) {
	t.Helper()
	l := testmust.Get(Open(t.Context(), Config{Path: path}))(t)
	for n := range uint64(3) {
		appendOne(t, l, n)
	}
	testmust.Succeed(t, l.Close())
	raw := testmust.Get(os.ReadFile(path))(t)
	before := bytes.Clone(raw[:pageBytes])
	before[headerWriteVersion], before[headerReadVersion] = 1, 1
	const sector = 512
	nonce := uint32(7)
	journal := make([]byte, sector)
	copy(journal, "\xd9\xd5\x05\xf9\x20\xa1\x63\xd7")
	for i, v := range []uint32{1, nonce, uint32(len(raw) / pageBytes), sector, pageBytes} {
		binary.BigEndian.PutUint32(journal[8+4*i:], v)
	}
	journal = append(binary.BigEndian.AppendUint32(journal, 1), before...)
	sum := nonce
	for at := pageBytes - 200; at > 0; at -= 200 {
		sum += uint32(before[at])
	}
	journal = binary.BigEndian.AppendUint32(journal, sum)
	testmust.Succeed(t, os.WriteFile(path+"-journal", journal, 0o600))
}

// Rolling back a journal that is not the log's own would change events.
func TestOpen_JournalBesideEvents_RefusesAndChangesNothing(t *testing.T) {
	path := filepath.Join(t.TempDir(), "events.db")
	interruptWALSwitch(t, path)
	before := testmust.Get(os.ReadFile(path))(t)
	if _, err := Open(t.Context(), Config{Path: path}); !errors.Is(err, eventlog.ErrUnavailable) || !strings.Contains(fmt.Sprint(err), "events.db-journal") {
		t.Errorf("open: %v", err)
	}
	after, err := os.ReadFile(path)
	if err != nil || !bytes.Equal(after, before) {
		t.Errorf("the file was changed (%v)", err)
	}
}

// A log continues without a marker if none can be created, logs that once, and creates a correct one as
// soon as possible.
// Rule 2.
func TestMarker_CannotBeCreated_LogContinuesAndRetries(t *testing.T) {
	var logged bytes.Buffer
	path := filepath.Join(t.TempDir(), "events.db")
	l, err := Open(t.Context(), Config{Path: path})
	testmust.Succeed(t, err)
	appendOne(t, l, 0)
	testmust.Succeed(t, l.Close())
	testmust.Succeed(t, os.Remove(MarkerPath(path)))
	inTheWay := MarkerPath(path) + ".new" // like a full disk
	testmust.Succeed(t, os.Mkdir(inTheWay, 0o700))
	testmust.Succeed(t, os.WriteFile(filepath.Join(inTheWay, "x"), nil, 0o600))
	if l, err = Open(t.Context(), Config{Path: path, Logger: slog.New(slog.NewTextHandler(&logged, nil))}); err != nil {
		t.Fatalf("a log without a marker: %v", err)
	}
	appendOne(t, l, 1)
	if err := l.head.make(); err == nil {
		t.Fatal("a marker was created")
	}
	appendOne(t, l, 2)
	if m, err := readMarker(path); m != nil || err != nil {
		t.Errorf("there is a marker %+v, %v", m, err)
	}
	if err := l.Close(); err != nil { // closing an unmarked log is no failure
		t.Error(err)
	}
	if n := strings.Count(logged.String(), "could not be written"); n != 1 {
		t.Errorf("the failure was logged %d times: %s", n, logged.String())
	}

	if l, err = Open(t.Context(), Config{Path: path}); err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	testmust.Succeed(t, os.RemoveAll(inTheWay))
	if err := l.head.make(); err != nil { // flushHead does this every second
		t.Fatal(err)
	}
	if m, both, err := readMark(path); err != nil || !both || m.chain() != l.head.current().chain() || m.Position != 3 {
		t.Errorf("the marker is %+v, %t (%v)", m, both, err)
	}
	appendOne(t, l, 3)
	if m, err := readMarker(path); err != nil || m.Position != 4 {
		t.Errorf("after another event the marker is %+v (%v)", m, err)
	}
}
