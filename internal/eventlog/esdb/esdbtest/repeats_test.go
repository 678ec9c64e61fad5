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

// inFlight sends the same append twice and returns when the server has written the first and dropped the second.
func inFlight(t *testing.T, server *esdbtest.Server, client *esdb.Client, stream string, events ...esdb.EventData) (first <-chan error) {
	t.Helper()
	dropped := server.Counts().Dropped
	answers := make(chan error, 2)
	ctx, cancel := context.WithCancel(t.Context())
	t.Cleanup(cancel)
	for range cap(answers) {
		go func() {
			_, err := client.AppendToStream(ctx, stream, esdb.AppendToStreamOptions{ExpectedRevision: esdb.NoStream{}}, events...)
			answers <- err
		}()
	}
	if _, ok := testwait.Until(testwait.Patience, func() bool { return server.Counts().Dropped == dropped+1 }); !ok {
		t.Fatal("no append was dropped")
	}
	return answers
}

// A repeat of what is written and not indexed has no answer until the server's timeout.
func TestRepeat_NotIndexed_IsDropped(t *testing.T) {
	server := esdbtest.StartWith(t, esdbtest.Config{PhaseTimeout: time.Millisecond})
	client := connect(t, server)
	release := server.HoldIndex()
	defer release()
	e := event()
	answers := inFlight(t, server, client, "s", e)
	if err := testwait.Receive(t, answers, "the repeat"); !isCode(err, esdb.ErrorAborted) {
		t.Errorf("the repeat: %v", err)
	}
	if _, err := appendTo(t, client, esdb.Any{}, e); !isCode(err, esdb.ErrorAborted) {
		t.Errorf("the repeat at any revision: %v", err)
	}
	release()
	if err := testwait.Receive(t, answers, "the first"); err != nil {
		t.Errorf("the first: %v", err)
	}
	if r, err := appendTo(t, client, esdb.NoStream{}, e); err != nil || r.NextExpectedVersion != 0 {
		t.Errorf("the repeat of what is indexed: %+v, %v", r, err)
	}
}

// The server looks repeats up by id across streams: an id that another stream has used since is not found, unless the
// stream itself can be read.
func TestRepeat_IDUsedByAnotherStream_IsRefused(t *testing.T) {
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
			t.Errorf("the repeat while it is not indexed: %v", err)
		}
	})
	if _, ok := testwait.Until(testwait.Patience, func() bool { return server.Counts().Refused == 1 }); !ok {
		t.Error("no append was refused")
	}
	release()
	repeat.Wait()
	if _, err := appendTo(t, client, esdb.NoStream{}, e); err != nil {
		t.Errorf("the repeat of what is indexed: %v", err)
	}
}
