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
)

// everythingIn reads a log as a client sees it.
func everythingIn(t *testing.T, dir string) []*esdb.ResolvedEvent {
	t.Helper()
	server, err := esdbtest.New(esdbtest.Config{Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := server.Close(); err != nil {
			t.Error(err)
		}
	}()
	in, err := connect(t, server).ReadAll(t.Context(), esdb.ReadAllOptions{From: esdb.Start{}, Direction: esdb.Forwards}, 1<<20)
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	var events []*esdb.ResolvedEvent
	for {
		e, err := in.Recv()
		if errors.Is(err, io.EOF) {
			return events
		}
		if err != nil {
			t.Fatal(err)
		}
		events = append(events, e)
	}
}

// Positions, ids, times, content types, metadata and the server's own events survive, and so does what it
// knows about repeats.
func TestDurable(t *testing.T) {
	dir := t.TempDir()
	server, err := esdbtest.New(esdbtest.Config{Dir: dir, Noise: true, Now: func() time.Time {
		return time.Date(2026, 11, 1, 2, 3, 4, 500_000_700, time.UTC)
	}})
	if err != nil {
		t.Fatal(err)
	}
	client := connect(t, server)
	binary := esdb.EventData{EventID: uuid.New(), EventType: "Blob", ContentType: esdb.ContentTypeBinary, Data: []byte{0, 255, 1}, Metadata: []byte("not json")}
	repeated := []esdb.EventData{event(), binary, event()}
	if _, err := appendTo(t, client, esdb.NoStream{}, repeated...); err != nil {
		t.Fatal(err)
	}
	if _, err := esdbtest.New(esdbtest.Config{Dir: dir}); err == nil || !strings.Contains(err.Error(), "in use") {
		t.Errorf("a second server on the folder: %v", err)
	}
	if err := server.Close(); err != nil {
		t.Fatal(err)
	}
	first := everythingIn(t, dir)
	if len(first) != 7 { // two of the beginning, three, statistics, a link
		t.Fatalf("%d events", len(first))
	}
	got := first[3].Event
	if got.EventID != binary.EventID || string(got.Data) != string(binary.Data) || string(got.UserMetadata) != "not json" ||
		got.ContentType != "application/octet-stream" || got.CreatedDate.UnixNano()/100 != time.Date(2026, 11, 1, 2, 3, 4, 500_000_700, time.UTC).UnixNano()/100 {
		t.Errorf("it came back as %+v", got)
	}
	if again := everythingIn(t, dir); !reflect.DeepEqual(again, first) {
		t.Errorf("the next start reads\n%+v\nwant\n%+v", again, first)
	}
	if server, err = esdbtest.New(esdbtest.Config{Dir: dir}); err != nil {
		t.Fatal(err)
	}
	defer server.Close()
	client = connect(t, server)
	for _, expected := range []esdb.ExpectedRevision{esdb.NoStream{}, esdb.Any{}} {
		if r, err := appendTo(t, client, expected, repeated...); err != nil || r.NextExpectedVersion != 2 {
			t.Errorf("the repeat after a restart: %+v, %v", r, err)
		}
	}
	if r, err := appendTo(t, client, esdb.Revision(2), event()); err != nil || r.NextExpectedVersion != 3 || r.CommitPosition <= first[6].Event.Position.Commit {
		t.Errorf("the next append: %+v, %v", r, err)
	}
}

// An end that was not finished is cut off; damage before it is not.
func TestDamage(t *testing.T) {
	dir := t.TempDir()
	server, err := esdbtest.New(esdbtest.Config{Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	client := connect(t, server)
	large := event()
	large.Data = []byte(`"` + strings.Repeat("x", 1_000_000) + `"`)
	for range 14 { // so that the first is further from the end than an unfinished flush can reach
		large.EventID = uuid.New()
		if _, err := appendTo(t, client, esdb.Any{}, large); err != nil {
			t.Fatal(err)
		}
	}
	if err := server.Close(); err != nil {
		t.Fatal(err)
	}
	whole := len(everythingIn(t, dir))
	path := filepath.Join(dir, "events.journal")
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		data []byte
		want int // events; 0 when it must not start
	}{
		"bytes behind the end":     {append(data[:len(data):len(data)], 0, 0, 1), whole},
		"a frame that is cut off":  {data[:len(data)-10], whole - 1},
		"a head that is cut off":   {append(data[:len(data):len(data)], 1, 2), whole},
		"damage at the end":        {damaged(data, len(data)-100), whole - 1},
		"damage in the middle":     {damaged(data, 2000), 0},
		"another program's file":   {[]byte("hello, this is not a log"), 0},
		"killed while it was made": {data[:3], 2},
	} {
		if err := os.WriteFile(path, c.data, 0o600); err != nil {
			t.Fatal(err)
		}
		if c.want > 0 {
			if n := len(everythingIn(t, dir)); n != c.want {
				t.Errorf("%s: %d events, want %d", name, n, c.want)
			}
		} else if server, err := esdbtest.New(esdbtest.Config{Dir: dir}); err == nil {
			t.Errorf("%s: it started", name)
			_ = server.Close()
		}
	}
}

func damaged(data []byte, at int) []byte {
	out := append([]byte(nil), data...)
	out[at] ^= 0xff
	return out
}

// The test binary starts itself again as the server that is to die.
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

// Whatever was acknowledged is there after kill -9, whole appends only.
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
			// One client for each: those who share one that finds no server hang.
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
	there := map[string]map[uuid.UUID]bool{}
	for _, e := range everythingIn(t, dir) {
		if there[e.Event.StreamID] == nil {
			there[e.Event.StreamID] = map[uuid.UUID]bool{}
		}
		there[e.Event.StreamID][e.Event.EventID] = true
	}
	total := 0
	for w, ids := range acknowledged {
		held := there[fmt.Sprintf("w-%d", w)]
		total += len(ids)
		for id := range ids {
			if !held[id] {
				t.Errorf("writer %d: %s was acknowledged and is lost", w, id)
			}
		}
		if len(held)%size != 0 {
			t.Errorf("writer %d: %d events are there: an append of %d landed in part", w, len(held), size)
		}
	}
	t.Logf("%d events were acknowledged by %d servers before they were killed", total, kills)
}

// startChild starts a server on a folder and returns where it is and what kills it.
func startChild(t *testing.T, dir string) (connection string, kill func()) {
	t.Helper()
	binary, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), binary)
	cmd.Env = append(os.Environ(), childDir+"="+dir)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	in := bufio.NewScanner(out)
	if !in.Scan() {
		t.Fatalf("the child said nothing: %v", cmd.Wait())
	}
	return in.Text(), func() {
		if err := cmd.Process.Kill(); err != nil {
			t.Error(err)
		}
		if err := cmd.Wait(); err == nil {
			t.Error("the child ended by itself")
		}
	}
}
