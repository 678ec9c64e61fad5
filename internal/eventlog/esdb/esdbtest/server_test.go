package esdbtest_test

import (
	"errors"
	"io"
	"testing"

	"github.com/EventStore/EventStore-Client-Go/v4/esdb"
	"github.com/google/uuid"

	"letterhead/internal/eventlog/esdb/esdbtest"
	"letterhead/internal/testmust"
)

// connect returns the real client, without our adapter.
func connect(t *testing.T, server *esdbtest.Server) *esdb.Client {
	t.Helper()
	return connectTo(t, server.ConnectionString())
}

func event() esdb.EventData {
	return esdb.EventData{EventID: uuid.New(), EventType: "Happened", ContentType: esdb.ContentTypeJson, Data: []byte(`{}`)}
}

func appendTo(t *testing.T, client *esdb.Client, expected esdb.ExpectedRevision, events ...esdb.EventData) (*esdb.WriteResult, error) {
	t.Helper()
	return client.AppendToStream(t.Context(), "s", esdb.AppendToStreamOptions{ExpectedRevision: expected}, events...)
}

func isCode(err error, code esdb.ErrorCode) bool {
	var e *esdb.Error
	return errors.As(err, &e) && e.IsErrorCode(code)
}

func TestAppend_ExpectedRevisions_DecideAsServerDoes(t *testing.T) {
	client := connect(t, esdbtest.Start(t))
	a, b, c, d := event(), event(), event(), event()
	ok := func(what string, expected esdb.ExpectedRevision, last uint64, events ...esdb.EventData) {
		t.Helper()
		if r, err := appendTo(t, client, expected, events...); err != nil || r.NextExpectedVersion != last || r.CommitPosition == 0 {
			t.Errorf("%s: %+v, %v; want revision %d", what, r, err, last)
		}
	}
	wrong := func(what string, expected esdb.ExpectedRevision, events ...esdb.EventData) {
		t.Helper()
		if _, err := appendTo(t, client, expected, events...); !isCode(err, esdb.ErrorCodeWrongExpectedVersion) {
			t.Errorf("%s: %v, want wrong expected version", what, err)
		}
	}
	wrong("stream must exist", esdb.StreamExists{}, a)
	wrong("revision of a missing stream", esdb.Revision(0), a)
	ok("first", esdb.NoStream{}, 1, a, b)
	ok("third", esdb.Revision(1), 2, c)
	ok("repeat", esdb.NoStream{}, 1, a, b)
	ok("partial repeat", esdb.NoStream{}, 0, a)
	ok("repeat of the last event", esdb.Revision(1), 2, c)
	wrong("different first event", esdb.NoStream{}, d, b)
	wrong("different second event", esdb.NoStream{}, a, d)
	wrong("repeat with an additional event", esdb.Revision(0), b, c, d)
	wrong("revision after the end", esdb.Revision(3), d)
	ok("recent repeat at any revision", esdb.Any{}, 1, a, b)
	ok("any revision", esdb.Any{}, 3, d)
	ok("existing stream", esdb.StreamExists{}, 4, event())
}

func TestAppend_TooLarge_IsRejected(t *testing.T) {
	client := connect(t, esdbtest.Start(t))
	large := event()
	large.Data = make([]byte, 1<<20-2*len(large.EventType))
	if _, err := appendTo(t, client, esdb.NoStream{}, large); err != nil {
		t.Errorf("append of exactly the maximum size: %v", err)
	}
	large.EventID = uuid.New()
	large.Data = append(large.Data, 0)
	// As with the real server, the client may return EOF or the server's error.
	if _, err := appendTo(t, client, esdb.Revision(0), large); err == nil {
		t.Error("an append above the maximum size was accepted")
	}
}

func readAll(t *testing.T, client *esdb.Client, from esdb.AllPosition, direction esdb.Direction) ([]*esdb.ResolvedEvent, error) {
	t.Helper()
	in, err := client.ReadAll(t.Context(), esdb.ReadAllOptions{From: from, Direction: direction}, 100)
	if err != nil {
		return nil, err
	}
	defer in.Close()
	var events []*esdb.ResolvedEvent
	for {
		e, err := in.Recv()
		if errors.Is(err, io.EOF) {
			return events, nil
		}
		if err != nil {
			return nil, err
		}
		events = append(events, e)
	}
}

func TestPosition_ReadsAndSubscription_BeginAsServerDoes(t *testing.T) {
	server := esdbtest.Start(t)
	server.Noise()
	client := connect(t, server)
	testmust.Succeed(t, testmust.Err(appendTo(t, client, esdb.NoStream{}, event(), event())))
	all := testmust.Get(readAll(t, client, esdb.Start{}, esdb.Forwards))(t)
	var links int
	for i, e := range all {
		if i > 0 && e.Event.Position.Commit <= all[i-1].Event.Position.Commit {
			t.Errorf("position %d follows %d, want ascending positions", e.Event.Position.Commit, all[i-1].Event.Position.Commit)
		}
		if e.Event.EventType == "$>" {
			links++
		}
	}
	if len(all) != 6 || links != 1 {
		t.Fatalf("%d events and %d links, want 2 system events, 2 appended events, statistics and a link", len(all), links)
	}
	at := all[2].Event.Position
	count := func(what string, want int, from esdb.AllPosition, direction esdb.Direction) {
		t.Helper()
		if got, err := readAll(t, client, from, direction); err != nil || len(got) != want {
			t.Errorf("%s: %d events, %v; want %d", what, len(got), err, want)
		}
	}
	count("forwards, including the event at the position", 4, at, esdb.Forwards)
	count("backwards, excluding it", 2, at, esdb.Backwards)
	count("backwards from the end", 6, esdb.End{}, esdb.Backwards)
	if _, err := readAll(t, client, esdb.Position{Commit: at.Commit + 1, Prepare: at.Commit + 1}, esdb.Forwards); err == nil {
		t.Error("a position in the middle of an event was accepted")
	}

	sub := testmust.Get(client.SubscribeToAll(t.Context(), esdb.SubscribeToAllOptions{From: at}))(t)
	defer sub.Close()
	if first := sub.Recv().EventAppeared; first == nil || first.Event.Position != all[3].Event.Position {
		t.Errorf("a subscription begins with %+v, want the event after the position", first)
	}
}
