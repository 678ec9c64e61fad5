package sqlite

import (
	"context"
	"errors"
	"fmt"

	"letterhead/internal/eventlog"
)

// Check reads the whole log and reports all damage: the file's structure, checksums, gaps in positions and
// revisions, the index, and the digest of the writer. It calls progress, which may be nil, now and then
// with the current and the last position. Appends continue meanwhile. The last step, SQLite's own check,
// ignores the context and takes about a second per gigabyte.
//
// Errors: eventlog.ErrCorrupt, ErrUnavailable, ErrClosed, ctx.Err().
func (l *Log) Check(ctx context.Context, progress func(done, last eventlog.Position)) error {
	const attempt = "check the event log"
	if err := l.usable(ctx, attempt); err != nil {
		return err
	}
	end, err := l.beginAudit(attempt)
	if err != nil {
		return err
	}
	defer end()
	return l.check(ctx, attempt, progress, func(a *audit) (last int64, err error) {
		a.start(chain{}, l.head.current().chain())
		return a.want.position, nil
	})
}

// check verifies the whole log up to the position that begin returns.
func (l *Log) check(ctx context.Context, attempt string, progress func(done, last eventlog.Position),
	begin func(*audit) (last int64, err error)) error {
	a, err := openAudit(l.cfg.Path, l.mode)
	if err != nil {
		return classify(attempt, err)
	}
	last, err := begin(a)
	if err == nil {
		err = a.all(ctx, last, func(done int64) {
			if progress != nil {
				progress(eventlog.Position(done), eventlog.Position(last))
			}
		})
	}
	if err := errors.Join(err, a.close()); err != nil {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		return classify(attempt, err)
	}
	return nil
}

// beginAudit makes Close wait until end is called.
func (l *Log) beginAudit(attempt string) (end func(), err error) {
	l.gate.RLock()
	defer l.gate.RUnlock()
	if l.shut {
		return nil, fmt.Errorf("%s: %w", attempt, eventlog.ErrClosed)
	}
	l.audits.Add(1)
	return l.audits.Done, nil
}
