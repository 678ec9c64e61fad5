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
	// scrubYield is the pause of a scrub while appends wait for the writer, and scrubPatience the longest that it yields
	// to them at a time: under lasting load it goes on slowly.
	scrubYield    = 50 * time.Millisecond
	scrubPatience = 2 * time.Second
)

// ScrubReport says what Scrub has found.
type ScrubReport struct {
	// Finished is when the last whole pass ended, zero before the first. The fields below describe that pass.
	Finished time.Time
	// Events is how many were looked at.
	Events uint64
	// Damaged is how many of them cannot be read as what was written, and First the first one. Damage of the index,
	// or a digest that differs, counts as one event at position 0.
	Damaged uint64
	First   eventlog.Position
	// Problem describes the first damage, nil: there was none. It is an eventlog.ErrCorrupt.
	Problem error
}

func (r *ScrubReport) note(at int64, err error) {
	if r.Damaged++; r.Damaged == 1 {
		r.First, r.Problem = eventlog.Position(at), corrupt("scrub the event log", err)
	}
}

// Scrub verifies the whole log, as Check does without SQLite's own check, again and again until ctx ends or the log is
// closed, and returns nil then. It reads at most Config.ScrubBytes a second, yields to appends, and begins a pass
// Config.ScrubEvery after the last. What it finds is in the metrics, in the log of the process, and in LastScrub.
// Pages that the system has in memory are not read from the disk.
func (l *Log) Scrub(ctx context.Context) error {
	const attempt = "scrub the event log"
	end, err := l.beginAudit(attempt)
	if err != nil {
		return nil // closed
	}
	defer end()
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	go func() {
		select {
		case <-l.closing:
			stop()
		case <-ctx.Done():
		}
	}()
	for ctx.Err() == nil {
		report, err := l.scrubOnce(ctx)
		switch {
		case ctx.Err() != nil:
			return nil
		case err != nil:
			l.cfg.Logger.Warn("the event log could not be scrubbed", "error", classify(attempt, err), "again_in", l.cfg.ScrubEvery)
		default:
			l.scrubbed.Store(&report)
			l.metrics.damaged.Set(float64(report.Damaged))
			l.metrics.scrubDone.Set(float64(report.Finished.UnixMicro()) / 1e6)
			if report.Problem != nil {
				l.cfg.Logger.Error("the event log is damaged", "events", report.Damaged, "first_position", report.First, "error", report.Problem)
			}
		}
		if delay.For(ctx, l.cfg.ScrubEvery) != nil {
			return nil
		}
	}
	return nil
}

// LastScrub returns what the last whole pass of Scrub found in this process.
func (l *Log) LastScrub() ScrubReport {
	if r := l.scrubbed.Load(); r != nil {
		return *r
	}
	return ScrubReport{}
}

func (l *Log) scrubOnce(ctx context.Context) (r ScrubReport, err error) {
	a, err := openAudit(l.cfg.Path, false)
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

// pace waits as long as so many bytes may take, and while appends wait.
func (l *Log) pace(ctx context.Context, bytes int) error {
	if err := delay.For(ctx, time.Duration(bytes)*time.Second/time.Duration(l.cfg.ScrubBytes)); err != nil {
		return err
	}
	for waited := time.Duration(0); len(l.queue)+len(l.imports) > 0 && waited < scrubPatience; waited += scrubYield {
		if err := delay.For(ctx, scrubYield); err != nil {
			return err
		}
	}
	return nil
}

// String is a clause for operators.
func (r ScrubReport) String() string {
	switch {
	case r.Finished.IsZero():
		return "not scrubbed since the start"
	case r.Problem != nil:
		return fmt.Sprintf("the scrub that ended at %s found %d damaged events: %v", r.Finished.UTC().Format(time.RFC3339), r.Damaged, r.Problem)
	default:
		return fmt.Sprintf("scrubbed at %s, %d events, none damaged", r.Finished.UTC().Format(time.RFC3339), r.Events)
	}
}
