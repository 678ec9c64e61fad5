package checkpoint

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"letterhead/domain/account"
	"letterhead/eventschemas"
	"letterhead/internal/delay"
	"letterhead/internal/eventlog"
	"letterhead/internal/telemetry"
)

const (
	// MaxAge is the age of the last checkpoint from which a new one is made if accounts have new events.
	MaxAge = 24 * time.Hour
	// DefaultLook is the pause between two looks at the log.
	DefaultLook = time.Minute
	// lastLook is the longest pause after failures, which double it.
	lastLook = time.Hour
)

// Regular makes checkpoints while accounts have new events: one a day, and one after a month is closed. It also makes
// the first one. It is for one goroutine. If several nodes run it at once, they may make a checkpoint too many, which
// does no harm.
type Regular struct {
	Maker
	Look       time.Duration // DefaultLook when 0
	Logger     *slog.Logger
	Registerer prometheus.Registerer

	read eventlog.Position // no account has an event between the last checkpoint and this
}

// Run makes each checkpoint that is due, until ctx ends. It retries after a failure.
func (r *Regular) Run(ctx context.Context) error {
	current := telemetry.Gauge("letterhead_checkpoint_current_timestamp_seconds",
		"When no checkpoint of the ledger was due, or when the one that was due was made. Absent while another node makes them.")
	current.Set(float64(r.Now().Unix()))
	if err := telemetry.Register(r.Registerer, current); err != nil {
		return fmt.Errorf("register the metric of checkpoints: %w", err)
	}
	defer telemetry.Unregister(r.Registerer, current)
	look := cmp.Or(r.Look, DefaultLook)
	for pause := look; ; {
		made, err := r.makeDue(ctx)
		switch {
		case ctx.Err() != nil:
			return nil
		case err != nil:
			pause = min(2*pause, max(look, lastLook))
			if errors.Is(err, eventschemas.ErrNotYet) { // until the upgrade is finished
				current.Set(float64(r.Now().Unix()))
			} else {
				r.Logger.Warn("a checkpoint of the ledger could not be made", "error", err, "again_in", pause)
			}
		default:
			pause = look
			current.Set(float64(r.Now().Unix()))
			if made != nil {
				r.Logger.Info("made a checkpoint of the ledger", "size", made.Note.Size, "accounts", made.Accounts)
			}
		}
		if delay.For(ctx, pause) != nil {
			return nil
		}
	}
}

// makeDue makes a checkpoint if one is due, and otherwise returns nil.
func (r *Regular) makeDue(ctx context.Context) (*Made, error) {
	last, err := r.Log.ReadStream(ctx, eventschemas.CheckpointsStream, eventlog.End, eventlog.Backward, 2)
	if err != nil {
		return nil, err
	}
	// none, or one was interrupted
	if len(last) < 2 || last[0].Type != (eventschemas.LedgerCheckpointed{}).EventType() {
		return r.Ensure(ctx, time.Time{})
	}
	begun := last[1].Position
	due := r.Now().Sub(last[0].OccurredAt) >= MaxAge
	if !due {
		due, err = r.closedAfter(ctx, begun)
	}
	if err == nil && due {
		due, err = r.usedAfter(ctx, begun)
	}
	if err != nil || !due {
		return nil, err
	}
	return r.Make(ctx)
}

// closedAfter reports whether a month was closed after a position.
func (r *Regular) closedAfter(ctx context.Context, position eventlog.Position) (bool, error) {
	// the next month may have ended since
	last, err := r.Log.ReadStream(ctx, eventschemas.BooksStream, eventlog.End, eventlog.Backward, 2)
	if err != nil {
		return false, err
	}
	return slices.ContainsFunc(last, func(rec eventlog.Recorded) bool {
		return rec.Type == (eventschemas.PeriodClosed{}).EventType() && rec.Position > position
	}), nil
}

// usedAfter reports whether accounts have events after a position.
func (r *Regular) usedAfter(ctx context.Context, position eventlog.Position) (bool, error) {
	r.read = max(r.read, position)
	for {
		page, err := r.Log.ReadAll(ctx, r.read, eventlog.Filter{StreamPrefixes: []string{account.StreamPrefix}}, 1)
		if err != nil || len(page.Events) > 0 {
			return err == nil, err
		}
		r.read = page.Next
		if page.End {
			return false, nil
		}
	}
}
