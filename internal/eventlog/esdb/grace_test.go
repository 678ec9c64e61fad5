package esdb

import (
	"errors"
	"runtime"
	"testing"
	"time"

	"github.com/google/uuid"

	"letterhead/internal/eventlog"
	"letterhead/internal/eventlog/esdb/esdbtest"
)

// An append that is under way when its connection is given up for somebody else's trouble has its answer
// still, and need not be repeated.
func TestAppend_ConnectionAbandoned_GetsItsAnswer(t *testing.T) {
	server := esdbtest.StartWith(t, esdbtest.Config{Chaos: esdbtest.Chaos{Delay: 100 * time.Millisecond, Delayed: 1}})
	l, err := Open(t.Context(), Config{ConnectionString: server.ConnectionString()})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	m, err := l.supervisor.acquire(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	m.release()
	done := make(chan error, 1)
	go func() {
		_, err := l.Append(t.Context(), "s", eventlog.NoStream(), []eventlog.Proposed{{ID: uuid.New(), Type: "Happened", Data: []byte(`{}`)}})
		done <- err
	}()
	for server.Counts().Appends == 0 { // until it is there, where it is held up
		runtime.Gosched()
	}
	l.supervisor.giveUp(m, errors.New("somebody else's trouble"))
	if err := <-done; err != nil {
		t.Error(err)
	}
	if m.retired.Err() == nil {
		t.Error("the connection was not given up")
	}
}
