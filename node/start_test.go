package node

import (
	"context"
	"errors"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"letterhead/internal/config"
	"letterhead/internal/testmust"
	"letterhead/node/datafolder"
)

// A command that waits for a shared service holds the folder for as long as the service is unavailable.
func TestStart_CommandHoldsFolder_WaitsOnlyWithSharedServices(t *testing.T) {
	for name, shared := range map[string]string{"one folder": config.Embedded, "shared": "esdb://127.0.0.1:1?tls=false"} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				cfg := config.Config{Data: t.TempDir(), EventStore: shared, Database: config.Embedded}
				command, err := datafolder.Acquire(cfg.Data, datafolder.MayBeNew, release)
				testmust.Succeed(t, err)
				defer command.Release()
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				defer cancel()
				server := Server{Settings: cfg, Release: release}
				_, _, err = server.start(ctx, nil, newFront(nil, nil, nil), slog.New(slog.DiscardHandler))
				if waited := errors.Is(err, context.DeadlineExceeded); waited != cfg.Shared() || !waited && !errors.Is(err, datafolder.ErrInUse) {
					t.Errorf("the start ended with %v", err)
				}
			})
		})
	}
}
