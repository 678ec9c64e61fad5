package esdbtest_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/EventStore/EventStore-Client-Go/v4/esdb"

	"letterhead/internal/eventlog/esdb/esdbtest"
	"letterhead/internal/testwait"
)

// inFlight sends the same append twice, and returns after the server has written the first and dropped the second.
func inFlight(t *testing.T, server *esdbtest.Server, client *esdb.Client, stream string, events ...esdb.EventData) (first <-chan error) {
	t.Helper()
	dropped := server.Counts().Dropped
	answers := make(chan error, 2)
	ctx, cancel := context.WithCancel(t.Context())
	var calls sync.WaitGroup
	t.Cleanup(func() { // before the client is closed, which panics if a call fails afterwards
		cancel()
		calls.Wait()
	})
	for range cap(answers) {
		calls.Go(func() {
			_, err := client.AppendToStream(ctx, stream, esdb.AppendToStreamOptions{ExpectedRevision: esdb.NoStream{}}, events...)
			answers <- err
		})
	}
	if _, ok := testwait.Until(testwait.Timeout, func() bool { return server.Counts().Dropped == dropped+1 }); !ok {
		t.Fatal("no append was dropped")
	}
	return answers
}

// The server answers a repeat of an append that is written but not yet indexed only after its timeout.
func TestRepeat_NotIndexed_IsDropped(t *testing.T) {
	server := esdbtest.StartWith(t, esdbtest.Config{PhaseTimeout: time.Millisecond})
	client := connect(t, server)
	release := server.HoldIndex()
	defer release()
	e := event()
	answers := inFlight(t, server, client, "s", e)
	if err := testwait.Receive(t, answers, "the repeat"); !isCode(err, esdb.ErrorAborted) {
		t.Errorf("repeat: %v, want Aborted", err)
	}
	if _, err := appendTo(t, client, esdb.Any{}, e); !isCode(err, esdb.ErrorAborted) {
		t.Errorf("repeat at any revision: %v, want Aborted", err)
	}
	release()
	if err := testwait.Receive(t, answers, "the first"); err != nil {
		t.Errorf("first append: %v", err)
	}
	if r, err := appendTo(t, client, esdb.NoStream{}, e); err != nil || r.NextExpectedVersion != 0 {
		t.Errorf("repeat after indexing: %+v, %v, want revision 0", r, err)
	}
}

// The server looks up repeats by id across streams. If another stream has used the id since, the repeat is found only
// after the events are indexed and the stream can be read.
func TestRepeat_IDUsedByAnotherStream_IsRejected(t *testing.T) {
	server := esdbtest.StartWith(t, esdbtest.Config{PhaseTimeout: time.Hour})
	client := connect(t, server)
	release := server.HoldIndex()
	defer release()
	e := event()
	inFlight(t, server, client, "s", e)
	inFlight(t, server, client, "other", e)
	var repeat sync.WaitGroup
	repeat.Go(func() {
		if _, err := appendTo(t, client, esdb.NoStream{}, e); !isCode(err, esdb.ErrorCodeWrongExpectedVersion) {
			t.Errorf("repeat before indexing: %v, want wrong expected version", err)
		}
	})
	if _, ok := testwait.Until(testwait.Timeout, func() bool { return server.Counts().Rejected == 1 }); !ok {
		t.Error("no append was rejected")
	}
	release()
	repeat.Wait()
	if _, err := appendTo(t, client, esdb.NoStream{}, e); err != nil {
		t.Errorf("repeat after indexing: %v", err)
	}
}
