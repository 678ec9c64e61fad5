package esdbtest_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/EventStore/EventStore-Client-Go/v4/esdb"
	"github.com/google/uuid"

	"letterhead/internal/eventlog/esdb/esdbtest"
	"letterhead/internal/testmust"
)

// everythingIn starts a server on a folder and reads the whole log with a client.
func everythingIn(t *testing.T, dir string) []*esdb.ResolvedEvent {
	t.Helper()
	server := testmust.Get(esdbtest.New(esdbtest.Config{Dir: dir}))(t)
	defer func() {
		if err := server.Close(); err != nil {
			t.Error(err)
		}
	}()
	in := testmust.Get(connect(t, server).ReadAll(t.Context(), esdb.ReadAllOptions{From: esdb.Start{}, Direction: esdb.Forwards}, 1<<20))(t)
	defer in.Close()
	var events []*esdb.ResolvedEvent
	for {
		e, err := in.Recv()
		if errors.Is(err, io.EOF) {
			return events
		}
		testmust.Succeed(t, err)
		events = append(events, e)
	}
}

// Positions, ids, times, content types, metadata and system events must survive a restart, and so must the detection of
// repeats.
func TestServer_Restarted_KeepsEventsAndRepeats(t *testing.T) {
	dir := t.TempDir()
	server, err := esdbtest.New(esdbtest.Config{Dir: dir, Noise: true, Now: func() time.Time {
		return time.Date(2026, 11, 1, 2, 3, 4, 500_000_700, time.UTC)
	}})
	testmust.Succeed(t, err)
	client := connect(t, server)
	binary := esdb.EventData{EventID: uuid.New(), EventType: "Blob", ContentType: esdb.ContentTypeBinary, Data: []byte{0, 255, 1}, Metadata: []byte("not json")}
	repeated := []esdb.EventData{event(), binary, event()}
	testmust.Succeed(t, testmust.Err(appendTo(t, client, esdb.NoStream{}, repeated...)))
	if _, err := esdbtest.New(esdbtest.Config{Dir: dir}); err == nil || !strings.Contains(err.Error(), "in use") {
		t.Errorf("a second server on the same folder: %v, want an error that it is in use", err)
	}
	testmust.Succeed(t, server.Close())
	first := everythingIn(t, dir)
	if len(first) != 7 { // two initial ones, three appended, statistics, a link
		t.Fatalf("%d events, want 7", len(first))
	}
	got := first[3].Event
	if got.EventID != binary.EventID || string(got.Data) != string(binary.Data) || string(got.UserMetadata) != "not json" ||
		got.ContentType != "application/octet-stream" || got.CreatedDate.UnixNano()/100 != time.Date(2026, 11, 1, 2, 3, 4, 500_000_700, time.UTC).UnixNano()/100 {
		t.Errorf("after a restart the event is %+v, want %+v", got, binary)
	}
	if again := everythingIn(t, dir); !reflect.DeepEqual(again, first) {
		t.Errorf("after another restart the log is\n%+v\nwant\n%+v", again, first)
	}
	if server, err = esdbtest.New(esdbtest.Config{Dir: dir}); err != nil {
		t.Fatal(err)
	}
	defer server.Close()
	client = connect(t, server)
	for _, expected := range []esdb.ExpectedRevision{esdb.NoStream{}, esdb.Any{}} {
		if r, err := appendTo(t, client, expected, repeated...); err != nil || r.NextExpectedVersion != 2 {
			t.Errorf("repeat after a restart: %+v, %v, want revision 2", r, err)
		}
	}
	if r, err := appendTo(t, client, esdb.Revision(2), event()); err != nil || r.NextExpectedVersion != 3 || r.CommitPosition <= first[6].Event.Position.Commit {
		t.Errorf("the next append: %+v, %v, want revision 3", r, err)
	}
}

// The server must truncate an unfinished flush at the end of the journal, and must not start if there is other damage.
func TestServer_DamagedJournal_TruncatesOnlyTheEnd(t *testing.T) {
	dir := t.TempDir()
	server := testmust.Get(esdbtest.New(esdbtest.Config{Dir: dir}))(t)
	client := connect(t, server)
	large := event()
	large.Data = []byte(`"` + strings.Repeat("x", 1_000_000) + `"`)
	for range 14 { // the first event is then further from the end than the maximum size of a flush
		large.EventID = uuid.New()
		testmust.Succeed(t, testmust.Err(appendTo(t, client, esdb.Any{}, large)))
	}
	testmust.Succeed(t, server.Close())
	whole := len(everythingIn(t, dir))
	path := filepath.Join(dir, "events.journal")
	data := testmust.Get(os.ReadFile(path))(t)
	for name, c := range map[string]struct {
		data []byte
		want int // events; 0 if the server must not start
	}{
		"bytes after the end":          {append(data[:len(data):len(data)], 0, 0, 1), whole},
		"truncated frame":              {data[:len(data)-10], whole - 1},
		"truncated frame header":       {append(data[:len(data):len(data)], 1, 2), whole},
		"damage at the end":            {damaged(data, len(data)-100), whole - 1},
		"damage in the middle":         {damaged(data, 2000), 0},
		"another kind of file":         {[]byte("hello, this is not a log"), 0},
		"killed while creating a file": {data[:3], 2},
	} {
		testmust.Succeed(t, os.WriteFile(path, c.data, 0o600))
		if c.want > 0 {
			if n := len(everythingIn(t, dir)); n != c.want {
				t.Errorf("%s: %d events, want %d", name, n, c.want)
			}
		} else if server, err := esdbtest.New(esdbtest.Config{Dir: dir}); err == nil {
			t.Errorf("%s: the server started", name)
			_ = server.Close()
		}
	}
}

func damaged(data []byte, at int) []byte {
	out := append([]byte(nil), data...)
	out[at] ^= 0xff
	return out
}

// The test binary starts itself as a child process, which runs the server to be killed.
const childDir = "ESDBTEST_CHILD_DIR"

func TestMain(m *testing.M) {
	if dir := os.Getenv(childDir); dir != "" {
		server, err := esdbtest.New(esdbtest.Config{Dir: dir})
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		fmt.Println(server.ConnectionString())
		select {} // until it is killed
	}
	os.Exit(m.Run())
}

// After kill -9 the log must contain all acknowledged appends, and no partial ones.
func TestAppend_Killed_AcknowledgedEventsSurvive(t *testing.T) {
	const kills, writers, size = 12, 5, 3
	dir := t.TempDir()
	acknowledged := make([]map[uuid.UUID]bool, writers)
	for w := range acknowledged {
		acknowledged[w] = map[uuid.UUID]bool{}
	}
	for range kills {
		connection, kill := startChild(t, dir)
		var work sync.WaitGroup
		done := make(chan struct{}, 1000)
		ctx, cancel := context.WithCancel(t.Context())
		for w := range writers {
			// Each writer needs its own client: callers that share one hang if it finds no server.
			client := connectTo(t, connection+"&maxDiscoverAttempts=3")
			work.Go(func() {
				for ctx.Err() == nil {
					events := []esdb.EventData{event(), event(), event()}
					if _, err := client.AppendToStream(ctx, fmt.Sprintf("w-%d", w), esdb.AppendToStreamOptions{}, events...); err != nil {
						return
					}
					for _, e := range events {
						acknowledged[w][e.EventID] = true
					}
					select {
					case done <- struct{}{}:
					default:
					}
				}
			})
		}
		for range 1 + rand.IntN(60) {
			<-done
		}
		kill()
		cancel()
		work.Wait()
	}
	stored := map[string]map[uuid.UUID]bool{}
	for _, e := range everythingIn(t, dir) {
		if stored[e.Event.StreamID] == nil {
			stored[e.Event.StreamID] = map[uuid.UUID]bool{}
		}
		stored[e.Event.StreamID][e.Event.EventID] = true
	}
	total := 0
	for w, ids := range acknowledged {
		held := stored[fmt.Sprintf("w-%d", w)]
		total += len(ids)
		for id := range ids {
			if !held[id] {
				t.Errorf("writer %d: the acknowledged event %s is lost", w, id)
			}
		}
		if len(held)%size != 0 {
			t.Errorf("writer %d: %d events are stored, want a multiple of %d because appends are atomic", w, len(held), size)
		}
	}
	t.Logf("%d events were acknowledged by %d servers before they were killed", total, kills)
}

// startChild starts a server on a folder in a child process. It returns the connection string and a function that kills
// the process.
func startChild(t *testing.T, dir string) (connection string, kill func()) {
	t.Helper()
	binary := testmust.Get(os.Executable())(t)
	cmd := exec.CommandContext(t.Context(), binary)
	cmd.Env = append(os.Environ(), childDir+"="+dir)
	cmd.Stderr = os.Stderr
	out := testmust.Get(cmd.StdoutPipe())(t)
	testmust.Succeed(t, cmd.Start())
	in := bufio.NewScanner(out)
	if !in.Scan() {
		t.Fatalf("the child process printed nothing: %v", cmd.Wait())
	}
	return in.Text(), func() {
		if err := cmd.Process.Kill(); err != nil {
			t.Error(err)
		}
		if err := cmd.Wait(); err == nil {
			t.Error("the child process exited by itself")
		}
	}
}
