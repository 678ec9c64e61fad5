package main

import (
	"context"
	"errors"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"letterhead/internal/config"
)

// A command that waits for a shared service holds the folder for as long as the service is away.
func TestStartNode_CommandHoldsFolder_WaitsOnlyWithSharedServices(t *testing.T) {
	for name, shared := range map[string]string{"one folder": config.Embedded, "shared": "esdb://127.0.0.1:1?tls=false"} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				cfg := config.Config{Data: t.TempDir(), EventStore: shared, Database: config.Embedded}
				command, err := lockFolder(cfg.Data, folderMayBeNew)
				if err != nil {
					t.Fatal(err)
				}
				defer command.release()
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				defer cancel()
				_, _, err = startNode(ctx, &environment{}, cfg, nil, newDoor(nil), slog.New(slog.DiscardHandler))
				if waited := errors.Is(err, context.DeadlineExceeded); waited != cfg.Shared() || !waited && !errors.Is(err, errFolderInUse) {
					t.Errorf("the start ended with %v", err)
				}
			})
		})
	}
}
