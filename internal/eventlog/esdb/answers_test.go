package esdb_test

import (
	"context"
	"net"
	"strings"
	"testing"
	"time"

	"letterhead/internal/eventlog/esdb"
	"letterhead/internal/eventlog/esdb/esdbtest"
	"letterhead/internal/testmust"
)

// A store answers while one of its servers does, although another one is frozen: its connections open, and nothing is
// answered on them.
func TestAnswers_OneServerFrozen_TrueUntilTheOtherIsGone(t *testing.T) {
	frozen := testmust.Get(net.Listen("tcp", "127.0.0.1:0"))(t) // accepts nothing: the system opens the connections
	defer frozen.Close()
	server := esdbtest.Start(t)
	both := strings.Replace(server.ConnectionString(), "://", "://"+frozen.Addr().String()+",", 1)
	log := connectTo(t, esdb.Config{ConnectionString: both, ConnectTimeout: time.Minute})
	if !log.Answers(t.Context()) {
		t.Error("a store with a server that answers does not answer")
	}
	server.Stop()
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if log.Answers(ctx) {
		t.Error("a frozen store answers")
	}
}
