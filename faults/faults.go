// Package faults groups the errors of the commands, the read models and the stores by what has failed, for the parts
// that answer requests. An error may be in several groups.
package faults

import (
	"context"
	"errors"

	"letterhead/commands"
	"letterhead/commands/streamwriter"
	"letterhead/domain/account"
	"letterhead/internal/eventlog"
	"letterhead/internal/ratelimit"
	"letterhead/internal/sqlstore"
	"letterhead/projections"
	"letterhead/projections/brandwatch"
	"letterhead/projections/engine"
)

// Group reports whether an error is one of a group.
type Group func(error) bool

// OneOf returns the group of the errors that are one of targets.
func OneOf(targets ...error) Group {
	return func(err error) bool {
		for _, target := range targets {
			if errors.Is(err, target) {
				return true
			}
		}
		return false
	}
}

// The groups.
var (
	// Full means that a store has no space left.
	Full = OneOf(eventlog.ErrFull, sqlstore.ErrFull)
	// Log means that the event log could not be reached, or did not report the outcome of an append in time.
	Log = OneOf(eventlog.ErrUnavailable, eventlog.ErrAmbiguous, eventlog.ErrClosed)
	// Database means that the database could not be reached.
	Database = OneOf(sqlstore.ErrUnavailable, sqlstore.ErrClosed)
	// Busy means that an account or a brand has more running requests than can be settled in time.
	Busy = OneOf(commands.ErrBusy, account.ErrTooManyHolds, brandwatch.ErrTooMany)

	notReady = OneOf(projections.ErrNotReady, projections.ErrRetired)
	late     = OneOf(ratelimit.ErrUnavailable, commands.ErrKeysUnknown, projections.ErrNewerRelease,
		context.DeadlineExceeded, context.Canceled)
)

// Loading means that the history of an account is still being loaded.
func Loading(err error) bool { return errors.As(err, new(*streamwriter.LoadingError)) }

// Quarantined means that a read model is stopped, because it could not process an event.
func Quarantined(err error) bool { return errors.As(err, new(*engine.QuarantinedError)) }

// NotReady means that tables of read models cannot be read yet.
func NotReady(err error) bool { return notReady(err) || Quarantined(err) }

// Unavailable means that a part of the service was overloaded or could not be reached in time, so that the same request
// may succeed later. A caller who left must be detected earlier.
func Unavailable(err error) bool {
	return Busy(err) || Log(err) || Database(err) || notReady(err) || late(err) || Loading(err)
}
