package brands

import (
	"context"
	"errors"
	"fmt"
	"time"

	"letterhead/domain/brand"
	"letterhead/eventschemas"
	"letterhead/internal/eventlog"
)

// ErrRestricted: the brand is restricted now, so its older records are not shown.
var ErrRestricted = errors.New("brand is restricted")

// pastPage is the number of events, of at most 64 KiB each, that AsOf reads at a time.
const pastPage = 64

// AsOf returns the brand of a registrable domain after all events that occurred at or before a time. The table has only
// the present, so it folds the brand's stream, which is short. Errors: ErrNotFound if there was no readable brand, or
// if it was withdrawn since; ErrRestricted if there was one and the brand is restricted now; the errors of the log.
func AsOf(ctx context.Context, log eventlog.Log, domain string, at time.Time) (Body, error) {
	now, then := brand.New(domain), brand.New(domain)
	err := eachPast(ctx, log, domain, now, func(ev *eventlog.Recorded, body eventschemas.Event) error {
		if !ev.OccurredAt.After(at) {
			then.Apply(body, ev.Revision, ev.OccurredAt)
		}
		return nil
	})
	switch {
	case err != nil:
		return Body{}, fmt.Errorf("get brand %s as of %s: %w", domain, at.UTC().Format(time.RFC3339), err)
	case now.Withdrawn() || !then.Known():
		return Body{}, fmt.Errorf("%s: %w", domain, ErrNotFound)
	case now.View().Record.Restriction != nil:
		return Body{}, fmt.Errorf("%s: %w", domain, ErrRestricted)
	}
	return Render(then.View()), nil
}

// eachPast calls f for each event of a brand after it has applied the event to now.
func eachPast(
	ctx context.Context, log eventlog.Log, domain string, now *brand.Brand,
	f func(*eventlog.Recorded, eventschemas.Event) error,
) error {
	return eventlog.ReadPages(ctx, log, brand.Stream(domain), pastPage, func(page []eventlog.Recorded) error {
		for i := range page {
			ev := &page[i]
			body, err := eventschemas.Decode(ev.Type, ev.SchemaVersion, ev.Data)
			if err != nil {
				return fmt.Errorf("event at position %d: %w", ev.Position, err)
			}
			now.Apply(body, ev.Revision, ev.OccurredAt)
			if err := f(ev, body); err != nil {
				return err
			}
		}
		return nil
	})
}
