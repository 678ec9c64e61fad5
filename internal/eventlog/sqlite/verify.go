package sqlite

import (
	"context"
	"database/sql/driver"
	"errors"
	"fmt"

	"letterhead/internal/eventlog"
)

// inspected is how many of the last events Open reads: enough to notice the usual damage, a torn or
// zeroed end, in a few milliseconds. Check reads all.
const inspected = 256

// inspect looks at a file that has just been opened: that nothing is missing at its end, and that its last
// events can be read by position and by stream.
func (l *Log) inspect() error {
	if _, _, err := passiveCheckpoint(l.writer.conn); err != nil {
		if errors.Is(classify("", err), eventlog.ErrCorrupt) {
			return err
		}
		l.cfg.Logger.Warn("event log checkpoint failed", "error", err)
	} else if err := checkLength(l.cfg.Path, l.writer.conn); err != nil {
		return err
	}
	r := <-l.readers
	defer func() { l.readers <- r }()
	return checkTail(r, l.writer.position)
}

func checkTail(r *reader, last int64) error {
	end := eventlog.Position(last)
	for at := eventlog.Position(max(last-inspected, 0)); at < end; {
		page, err := r.all(context.Background(), at, eventlog.Filter{}, inspected, end)
		if err != nil {
			return err
		}
		if page.Next == at {
			return fmt.Errorf("%w: events %d to %d are missing", errDamaged, at+1, end)
		}
		if err := checkIndexed(r, page); err != nil {
			return err
		}
		at = page.Next
	}
	return nil
}

// checkIndexed looks for the events of a page by stream and revision.
func checkIndexed(r *reader, page eventlog.Page) error {
	for i := range page.Events {
		e := &page.Events[i]
		events, err := r.stream(context.Background(), e.Stream, e.Revision, eventlog.Forward, 1)
		if err != nil {
			return err
		}
		if len(events) != 1 || events[0].Position != e.Position {
			return fmt.Errorf("%w: event at position %d is not found as revision %d of %s",
				errDamaged, e.Position, e.Revision, e.Stream)
		}
	}
	return nil
}

// Check reads the whole log and says what is wrong with it: the file's structure, checksums, gaps in
// positions and revisions. progress is called now and then with the position reached and the last one;
// nil is allowed. Appends go on meanwhile. The context is not looked at during the last step, SQLite's own
// check, which takes about a second for each gigabyte.
//
// Errors: eventlog.ErrCorrupt, ErrUnavailable, ErrClosed, ctx.Err().
func (l *Log) Check(ctx context.Context, progress func(done, last eventlog.Position)) error {
	const attempt = "check the event log"
	last, err := l.Head(ctx)
	if err != nil {
		return err
	}
	for at := eventlog.Position(0); at < last; {
		page, err := l.ReadAll(ctx, at, eventlog.Filter{}, subscriptionPage)
		if err != nil {
			return fmt.Errorf("%s: %w", attempt, err)
		}
		if page.Next == at {
			return corrupt(attempt, fmt.Errorf("%w: events %d to %d are missing", errDamaged, at+1, last))
		}
		at = page.Next
		if progress != nil {
			progress(min(at, last), last)
		}
	}
	return l.borrow(ctx, attempt, checkStructure)
}

// checkStructure asks SQLite about its pages and indexes, and whether every stream is without gaps.
func checkStructure(r *reader) error {
	var verdict string
	if err := r.conn.once("PRAGMA quick_check(1)", 1, func(row []driver.Value) error {
		verdict, _ = row[0].(string)
		return nil
	}); err != nil {
		return err
	}
	if verdict != "ok" {
		return fmt.Errorf("%w: %s", errDamaged, verdict)
	}
	return r.conn.once(`SELECT coalesce(s.name, '?'), count(*), max(e.revision)
		FROM events e LEFT JOIN streams s ON s.id = e.stream
		GROUP BY e.stream HAVING count(*) <> max(e.revision) + 1 OR s.name IS NULL LIMIT 1`, 3,
		func(row []driver.Value) error {
			return fmt.Errorf("%w: stream %v has %v events and its last revision is %v", errDamaged, row[0], row[1], row[2])
		})
}
