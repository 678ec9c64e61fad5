package esdb

import (
	"errors"
	"runtime"
	"testing"
	"time"

	"github.com/google/uuid"

	"letterhead/internal/eventlog"
	"letterhead/internal/eventlog/esdb/esdbtest"
	"letterhead/internal/testmust"
)

// An append in flight when its connection is replaced because of another call still gets its answer and
// need not be repeated.
func TestAppend_ConnectionReplaced_GetsItsAnswer(t *testing.T) {
	server := esdbtest.StartWith(t, esdbtest.Config{Chaos: esdbtest.Chaos{Delay: 100 * time.Millisecond, Delayed: 1}})
	l := testmust.Get(Open(t.Context(), Config{ConnectionString: server.ConnectionString()}))(t)
	defer l.Close()
	m := testmust.Get(l.supervisor.acquire(t.Context()))(t)
	m.release()
	done := make(chan error, 1)
	go func() {
		_, err := l.Append(t.Context(), "s", eventlog.NoStream(), []eventlog.Proposed{{ID: uuid.New(), Type: "Happened", Data: []byte(`{}`)}})
		done <- err
	}()
	for server.Counts().Appends == 0 { // until the server has it and delays the answer
		runtime.Gosched()
	}
	l.supervisor.replace(m, errors.New("a failure of another call"))
	<-m.retired.Done()
	if err := <-done; err != nil {
		t.Error(err)
	}
}
