package node

import (
	"context"
	"errors"
	"fmt"

	"letterhead/eventschemas"
	"letterhead/internal/config"
	"letterhead/internal/eventlog"
	"letterhead/node/datafolder"
	"letterhead/operations"
	"letterhead/workers/generate"
)

// Generate writes a history of accounts to the event log of a data folder that is empty or does not exist. progress is
// called with the number of events written so far.
func Generate(ctx context.Context, settings config.Config, o Options, history generate.Options,
	progress func(events int)) (_ generate.Summary, err error) {
	if settings.Shared() {
		return generate.Summary{}, operations.UsageError{
			Err: errors.New("a history is generated only in a data folder (LETTERHEAD_EVENTSTORE=sqlite)"),
		}
	}
	if err := history.Validate(); err != nil { // before a new data folder is made
		return generate.Summary{}, operations.UsageError{Err: err}
	}
	lock, err := datafolder.Acquire(settings.Data, datafolder.MayBeNew, o.Release)
	if err != nil {
		return generate.Summary{}, emptyFolder(err)
	}
	n, err := OpenStores(ctx, settings, lock, o)
	if err != nil {
		return generate.Summary{}, err
	}
	defer func() { err = errors.Join(err, n.Close()) }()
	if err := generate.CheckEmpty(ctx, n.Stores.Log); err != nil {
		return generate.Summary{}, emptyFolder(err)
	}
	if err := n.Stores.lock.Raise(eventschemas.Format); err != nil {
		return generate.Summary{}, err
	}
	log, ok := n.Stores.Log.(eventlog.Importer)
	if !ok {
		return generate.Summary{}, errors.New("the event log has no import")
	}
	return generate.History(ctx, log, history, progress)
}

// emptyFolder adds advice to the error for a data folder that is in use or not empty.
func emptyFolder(err error) error {
	if errors.Is(err, datafolder.ErrInUse) || errors.Is(err, generate.ErrNotEmpty) {
		return fmt.Errorf("%w; name an empty folder with --data", err)
	}
	return err
}
