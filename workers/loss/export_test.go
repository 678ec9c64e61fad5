package loss

import (
	"context"
	"time"

	"letterhead/internal/eventlog"
	"letterhead/internal/sqlstore"
)

func init() { lookPause = time.Millisecond }

// Lookups is how many snapshots are looked up concurrently.
const Lookups = lookups

// SurveyShared is the part of Verify that looks at the log, as of a database that nodes share.
func SurveyShared(ctx context.Context, store *sqlstore.Store, log eventlog.Prober) ([]*eventlog.LossError, error) {
	return survey(ctx, store, log, false, true)
}
