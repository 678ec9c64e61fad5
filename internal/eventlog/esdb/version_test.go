package esdb_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"letterhead/internal/eventlog"
	"letterhead/internal/eventlog/esdb"
	"letterhead/internal/eventlog/esdb/esdbtest"
)

func TestOpen_OldServer_IsRejected(t *testing.T) {
	for version, accepted := range map[string]bool{
		"0.0.0": false, "22.10.5": false, "23.6.0": false, "23.10.0": true, "24.2.0": true, "24.10.4": true, "25.0.1": true,
	} {
		server := esdbtest.StartWith(t, esdbtest.Config{Version: version})
		// It is rejected immediately and not after this time.
		l, err := esdb.Open(t.Context(), esdb.Config{ConnectionString: server.ConnectionString(), ConnectTimeout: time.Hour})
		if !accepted {
			if !errors.Is(err, esdb.ErrUnsupported) || errors.Is(err, eventlog.ErrUnavailable) || !strings.Contains(err.Error(), "needs 23.10 or newer") {
				t.Errorf("%s: %v, want %q and the required version", version, err, esdb.ErrUnsupported)
			}
			continue
		}
		if err != nil {
			t.Errorf("%s: %v", version, err)
			continue
		}
		if got, err := l.ServerVersion(t.Context()); err != nil || got.String() != version {
			t.Errorf("%s: the log reports %s, %v", version, got, err)
		}
		if err := l.Close(); err != nil {
			t.Error(err)
		}
	}
}

// A server that comes back with an older release is not used.
func TestReconnect_OldServer_IsNotUsed(t *testing.T) {
	server := esdbtest.Start(t)
	l := open(t, server, esdb.Config{ConnectWait: 100 * time.Millisecond})
	server.Stop()
	var err error
	for err == nil { // until the log has detected it
		_, err = l.Head(t.Context())
	}
	server.SetVersion("22.10.5")
	restart(t, server)
	for !errors.Is(err, eventlog.ErrUnavailable) || !strings.Contains(err.Error(), "22.10.5") {
		if _, err = l.Head(t.Context()); err == nil {
			t.Fatal("the head of an old server was read")
		}
	}
	server.SetVersion("24.10.0")
	for err != nil {
		_, err = l.Head(t.Context())
	}
}
