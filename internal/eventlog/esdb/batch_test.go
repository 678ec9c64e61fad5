package esdb_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"letterhead/internal/eventlog"
	"letterhead/internal/eventlog/esdb"
	"letterhead/internal/eventlog/esdb/esdbtest"
	"letterhead/internal/testmust"
	"letterhead/internal/testwait"
)

// Appends to different streams share one call, on the connection that was compared.
func TestAppend_ManyStreams_ShareOneCall(t *testing.T) {
	const streams, appends = 16, 20
	server := esdbtest.Start(t)
	l := open(t, server, esdb.Config{})
	var writers sync.WaitGroup
	for w := range uint64(streams) {
		writers.Go(func() {
			for i := range uint64(appends) {
				events := batch(1000*w+i, 1)
				if _, err := l.Append(t.Context(), fmt.Sprint("account-", w), eventlog.After(i), events); err != nil {
					t.Error(err)
				}
			}
		})
	}
	writers.Wait()
	counts := server.Counts()
	if counts.Appends != streams*appends || counts.Batches != 1 || server.Connections() != 1 {
		t.Errorf("%d appends in %d calls on %d connections, want %d, 1 and 1",
			counts.Appends, counts.Batches, server.Connections(), streams*appends)
	}
}

// A server that is not the leader ends the call, without saying which of its appends it rejected: all are repeated.
// Rule 3.
func TestAppend_NotLeaderEndsSharedCall_EachIsRepeated(t *testing.T) {
	server := esdbtest.Start(t)
	l := open(t, server, esdb.Config{})
	server.Faults.Append(esdbtest.Hang, esdbtest.NotLeader)
	first := make(chan error, 1)
	go func() { first <- testmust.Err(l.Append(t.Context(), stream, eventlog.NoStream(), batch(0, 1))) }()
	if _, ok := testwait.Until(testwait.Timeout, func() bool { return server.Counts().Appends == 1 }); !ok {
		t.Fatal("the server got no append")
	}
	_, second := l.Append(t.Context(), "account-2", eventlog.NoStream(), batch(1, 1))
	testmust.Succeed(t, <-first)
	testmust.Succeed(t, second)
	holds(t, l, 1)
}

// An append without an answer does not hold up later ones, even if the server answers nothing on their call any more.
func TestAppend_SilentCall_NextUsesAnother(t *testing.T) {
	server := esdbtest.Start(t)
	l := open(t, server, esdb.Config{})
	server.Faults.Append(esdbtest.Silence)
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	if _, err := l.Append(ctx, stream, eventlog.NoStream(), batch(0, 1)); !errors.Is(err, eventlog.ErrAmbiguous) {
		t.Errorf("the append without an answer returned %v, want ErrAmbiguous", err)
	}
	testmust.Succeed(t, testmust.Err(l.Append(t.Context(), stream, eventlog.NoStream(), batch(0, 1))))
	if calls := server.Counts().Batches; calls != 2 || server.Connections() != 1 {
		t.Errorf("%d calls on %d connections, want 2 on 1", calls, server.Connections())
	}
}

// An answer without a position needs a read, for which the append's own slot is enough.
func TestAppend_NoPositionAndOneSlot_ReadsIt(t *testing.T) {
	server := esdbtest.Start(t)
	l := open(t, server, esdb.Config{Calls: 1, CallTimeout: shortCall})
	server.Faults.Append(esdbtest.NoPosition)
	appended, err := l.Append(t.Context(), stream, eventlog.NoStream(), batch(0, 1))
	if err != nil || appended.Position == 0 {
		t.Errorf("append = %+v, %v, want a position", appended, err)
	}
}
