package esdb_test

import (
	"testing"

	"github.com/google/uuid"

	"letterhead/internal/eventlog"
	"letterhead/internal/eventlog/esdb"
	"letterhead/internal/eventlog/esdb/esdbtest"
	"letterhead/internal/eventlog/eventlogtest"
	"letterhead/internal/testmust"
	"letterhead/internal/testservices"
)

func TestContract(t *testing.T) {
	eventlogtest.Run(t, func(t *testing.T) eventlog.Log {
		return open(t, esdbtest.Start(t), esdb.Config{})
	})
	eventlogtest.RunNodes(t, func(t *testing.T) (_, _ eventlog.Log) {
		server := esdbtest.Start(t)
		return open(t, server, esdb.Config{}), open(t, server, esdb.Config{})
	})
}

// The same while the server writes events and links of its own between ours, with few concurrent calls.
func TestContract_NoisyServer(t *testing.T) {
	if testing.Short() {
		t.Skip("TestContract_UsedServer has the same noise")
	}
	noisy := func(t *testing.T) *esdbtest.Server { return esdbtest.StartWith(t, esdbtest.Config{Noise: true}) }
	one := func(t *testing.T) eventlog.Log { return open(t, noisy(t), esdb.Config{Calls: 4}) }
	t.Run("Append", func(t *testing.T) { eventlogtest.RunAppend(t, one) })
	t.Run("Read", func(t *testing.T) { eventlogtest.RunRead(t, one) })
	t.Run("Subscribe", func(t *testing.T) { eventlogtest.RunSubscribe(t, one) })
	t.Run("Nodes", func(t *testing.T) {
		eventlogtest.RunNodes(t, func(t *testing.T) (_, _ eventlog.Log) {
			server := noisy(t)
			return open(t, server, esdb.Config{}), open(t, server, esdb.Config{})
		})
	})
}

func TestContract_DurableServer(t *testing.T) {
	if testing.Short() {
		t.Skip("shows more of the stand-in than of the client; the other contracts run")
	}
	eventlogtest.Run(t, func(t *testing.T) eventlog.Log {
		return open(t, esdbtest.StartWith(t, esdbtest.Config{Dir: t.TempDir()}), esdb.Config{})
	})
}

// A cluster with TLS and passwords, found by gossip, whose followers forward appends.
func TestContract_OverTLS(t *testing.T) {
	authority := newAuthority(t)
	certificate := authority.issue(t, "127.0.0.1")
	eventlogtest.RunNodes(t, func(t *testing.T) (_, _ eventlog.Log) {
		server := esdbtest.StartWith(t, esdbtest.Config{
			Listen: []string{"127.0.0.1:0", "127.0.0.1:0", "127.0.0.1:0"}, Certificate: &certificate,
			Users: map[string]string{"ops": "s3cret"},
		})
		string := withUser(server.ConnectionString(), "ops", "s3cret") + "&tlsCAFile=" + authority.file
		return connectTo(t, esdb.Config{ConnectionString: string}),
			connectTo(t, esdb.Config{ConnectionString: string + "&nodePreference=follower"})
	})
}

// A server with unreliable filters.
func TestContract_OldServer(t *testing.T) {
	old := func(t *testing.T) *esdbtest.Server {
		server := esdbtest.Start(t)
		server.SetVersion("23.10.2")
		return server
	}
	eventlogtest.RunSubscribe(t, func(t *testing.T) eventlog.Log { return open(t, old(t), esdb.Config{}) })
	eventlogtest.RunNodes(t, func(t *testing.T) (_, _ eventlog.Log) {
		server := old(t)
		return open(t, server, esdb.Config{}), open(t, server, esdb.Config{})
	})
}

// One server for all tests, like a real one: its log is never empty.
func TestContract_UsedServer(t *testing.T) {
	server := esdbtest.Start(t)
	server.Noise()
	runOnUsed(t, server.ConnectionString())
}

// A real server, if there is one. It is not emptied; there must be no other writers.
func TestContract_RealServer(t *testing.T) {
	runOnUsed(t, testservices.EventStore(t))
}

func runOnUsed(t *testing.T, connectionString string) {
	cfg := esdb.Config{ConnectionString: connectionString}
	eventlogtest.Run(t, func(t *testing.T) eventlog.Log {
		return eventlogtest.Scope(t, connectTo(t, cfg), uuid.NewString()+"-")
	})
	eventlogtest.RunNodes(t, func(t *testing.T) (_, _ eventlog.Log) {
		prefix := uuid.NewString() + "-"
		return eventlogtest.Scope(t, connectTo(t, cfg), prefix), eventlogtest.Scope(t, connectTo(t, cfg), prefix)
	})
}

// open connects to a server and closes the log at the end of the test.
func open(t testing.TB, server *esdbtest.Server, cfg esdb.Config) *esdb.Log {
	t.Helper()
	cfg.ConnectionString = server.ConnectionString()
	return connectTo(t, cfg)
}

func connectTo(t testing.TB, cfg esdb.Config) *esdb.Log {
	t.Helper()
	l := testmust.Get(esdb.Open(t.Context(), cfg))(t)
	t.Cleanup(func() { testmust.Succeed(t, l.Close()) })
	return l
}
