package sqlite

import (
	"context"
	"errors"
	"fmt"
	"time"

	"letterhead/internal/delay"
	"letterhead/internal/eventlog"
)

const (
	// scrubYield is how long a scrub pauses while appends wait for the writer; scrubMaxWait bounds one
	// such wait, so that a scrub continues slowly under constant load.
	scrubYield   = 50 * time.Millisecond
	scrubMaxWait = 2 * time.Second
)

// ScrubReport holds the results of Scrub.
type ScrubReport struct {
	// Finished is the end of the last complete pass, zero before the first. The fields below describe that pass.
	Finished time.Time
	// Events is the number of verified events.
	Events uint64
	// Damaged is the number of unreadable events, and First the position of the first. Damage of the index,
	// or a different digest, counts as one event at position 0.
	Damaged uint64
	First   eventlog.Position
	// Problem describes the first damage, an eventlog.ErrCorrupt; nil if there was none.
	Problem error
}

func (r *ScrubReport) note(at int64, err error) {
	if r.Damaged++; r.Damaged == 1 {
		r.First, r.Problem = eventlog.Position(at), corrupt("scrub the event log", err)
	}
}

// Scrub repeatedly verifies the whole log, as Check does without SQLite's own check, until ctx ends or the
// log is closed; then it returns nil. It reads at most Config.ScrubBytes per second, yields to appends, and
// begins a pass Config.ScrubEvery after the last one. It reports results in the metrics, the log of the
// process, and LastScrub. Pages in the system's page cache are not read from the disk.
func (l *Log) Scrub(ctx context.Context) error {
	const attempt = "scrub the event log"
	end, err := l.beginAudit(attempt)
	if err != nil {
		return nil // closed
	}
	defer end()
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	defer context.AfterFunc(l.closing, stop)()
	for ctx.Err() == nil {
		report, err := l.scrubOnce(ctx)
		switch {
		case ctx.Err() != nil:
			return nil
		case err != nil:
			l.cfg.Logger.Warn("the event log could not be scrubbed", "error", classify(attempt, err),
				"again_in", l.cfg.ScrubEvery)
		default:
			l.scrubbed.Store(&report)
			l.metrics.damaged.Set(float64(report.Damaged))
			l.metrics.scrubDone.Set(float64(report.Finished.UnixMicro()) / 1e6)
			if report.Problem != nil {
				l.cfg.Logger.Error("the event log is damaged", "events", report.Damaged, "first_position", report.First,
					"error", report.Problem)
			}
		}
		if delay.For(ctx, l.cfg.ScrubEvery) != nil {
			return nil
		}
	}
	return nil
}

// LastScrub returns the result of the last complete pass of Scrub in this process.
func (l *Log) LastScrub() ScrubReport {
	if r := l.scrubbed.Load(); r != nil {
		return *r
	}
	return ScrubReport{}
}

func (l *Log) scrubOnce(ctx context.Context) (r ScrubReport, err error) {
	a, err := openAudit(l.cfg.Path, l.mode)
	if err != nil {
		return r, err
	}
	defer func() { err = errors.Join(err, a.close()) }()
	want := l.head.current().chain()
	a.start(chain{}, want)
	a.tolerate = func(at int64, err error) error {
		r.note(at, err)
		return nil
	}
	for _, step := range []func(context.Context, int64) (bool, error){a.step, a.stepIndex} {
		for done := false; !done; {
			before, read := a.chain.position, a.read
			if done, err = step(ctx, want.position); err != nil {
				if err := unlessDamage(err); err != nil {
					return r, err
				}
				r.note(0, err)
				done = true
			}
			l.metrics.scrubbed.Add(float64(a.chain.position - before))
			if err := l.pace(ctx, max(a.read-read, auditPage)); err != nil {
				return r, err
			}
		}
	}
	r.Events, r.Finished = uint64(a.chain.position), time.Now()
	return r, nil
}

// pace waits for the time that this many bytes may take, and while appends wait.
func (l *Log) pace(ctx context.Context, bytes int) error {
	if err := delay.For(ctx, time.Duration(bytes)*time.Second/time.Duration(l.cfg.ScrubBytes)); err != nil {
		return err
	}
	for waited := time.Duration(0); len(l.queue)+len(l.imports) > 0 && waited < scrubMaxWait; waited += scrubYield {
		if err := delay.For(ctx, scrubYield); err != nil {
			return err
		}
	}
	return nil
}

// String returns a clause for operators.
func (r ScrubReport) String() string {
	switch {
	case r.Finished.IsZero():
		return "not scrubbed since the start"
	case r.Problem != nil:
		return fmt.Sprintf("the scrub that ended at %s found %d damaged events: %v",
			r.Finished.UTC().Format(time.RFC3339), r.Damaged, r.Problem)
	default:
		return fmt.Sprintf("scrubbed at %s, %d events, none damaged", r.Finished.UTC().Format(time.RFC3339), r.Events)
	}
}
