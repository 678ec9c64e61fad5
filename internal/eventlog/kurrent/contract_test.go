package kurrent_test

import (
	"testing"

	"letterhead/internal/eventlog"
	"letterhead/internal/eventlog/eventlogtest"
	"letterhead/internal/eventlog/kurrent"
	"letterhead/internal/eventlog/kurrent/esdbtest"
)

func TestContract(t *testing.T) {
	eventlogtest.Run(t, func(t *testing.T) eventlog.Log {
		return open(t, esdbtest.Start(t), kurrent.Config{})
	})
}

// The same while the server writes events and links of its own between ours, for those who see them.
func TestContractOnANoisyServer(t *testing.T) {
	noisy := func(t *testing.T) eventlog.Log {
		server := esdbtest.Start(t)
		server.Noise()
		return open(t, server, kurrent.Config{Calls: 4})
	}
	t.Run("Append", func(t *testing.T) { eventlogtest.RunAppend(t, noisy) })
	t.Run("Read", func(t *testing.T) { eventlogtest.RunRead(t, noisy) })
	t.Run("Subscribe", func(t *testing.T) { eventlogtest.RunSubscribe(t, noisy) })
}

// open connects to a server and closes the log when the test ends.
func open(t *testing.T, server *esdbtest.Server, cfg kurrent.Config) *kurrent.Log {
	t.Helper()
	cfg.ConnectionString = server.ConnectionString()
	l, err := kurrent.Open(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := l.Close(); err != nil {
			t.Error(err)
		}
	})
	return l
}
