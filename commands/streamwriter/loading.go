package streamwriter

import (
	"context"
	"errors"
	"fmt"
	"time"

	"letterhead/internal/eventlog"
)

// Limits of loading in the background.
const (
	// MaxLoads limits the streams of one set of actors that are loaded in the background at a time: each uses
	// most of a processor. Others wait.
	MaxLoads = 2
	// loadSlice is how long a stream is loaded before commands that arrived in the meantime are answered.
	loadSlice = 100 * time.Millisecond
	// minLoadRetry and maxLoadRetry limit LoadingError.RetryAfter.
	minLoadRetry, maxLoadRetry = time.Second, time.Minute
	// unknownLoadRetry is LoadingError.RetryAfter if the stream's length is not known.
	unknownLoadRetry = 5 * time.Second
	// endWithin limits the read of a stream's length, which is needed for RetryAfter only.
	endWithin = time.Second
)

// LoadingError reports that a long stream is still being loaded. Nothing was written. It is an ErrBusy.
type LoadingError struct {
	Stream     string
	Loaded     uint64        // loaded so far
	Events     uint64        // of the stream when loading began; 0 if unknown
	RetryAfter time.Duration // estimated time until loaded: whole seconds, at most a minute
}

func (e *LoadingError) Error() string {
	if e.Events == 0 {
		return fmt.Sprintf("%s is being loaded: %d events so far", e.Stream, e.Loaded)
	}
	return fmt.Sprintf("%s is being loaded: %d of %d events so far", e.Stream, e.Loaded, e.Events)
}

// Is makes errors.Is true for ErrBusy.
func (e *LoadingError) Is(target error) bool { return target == ErrBusy }

type waitForLoading struct{}

// WaitForLoading returns a context whose commands wait while a long stream is loaded, until the
// context ends, instead of failing with a *LoadingError.
func WaitForLoading(ctx context.Context) context.Context {
	return context.WithValue(ctx, waitForLoading{}, true)
}

func waitsForLoading(ctx context.Context) bool { return ctx.Value(waitForLoading{}) != nil }

// loading is a stream that is loaded in the background. The actor's state has the events folded so far.
type loading struct {
	since time.Time
	first uint64 // revisions at since
	end   uint64 // revisions of the stream at the beginning; 0 if unknown
	turn  bool   // holds one of the MaxLoads slots
}

// loadLater begins loading in the background, continuing from the folded state.
func (a *Actor[S]) loadLater(since time.Time, first uint64) error {
	l := &loading{since: since, first: first}
	ctx, cancel := context.WithTimeout(a.all.ctx, endWithin)
	defer cancel()
	if last, err := a.read(ctx, eventlog.End, eventlog.Backward, 1); err == nil && len(last) == 1 {
		l.end = last[0].Revision + 1
	}
	select {
	case <-a.all.stopping: // only time left to save the loaded state
	default:
		a.loading = l
		a.all.metrics.loading.Inc()
		a.all.cfg.Logger.Info("a long stream is loaded in the background", "stream", a.stream, "events", l.end,
			"loaded", a.state.Revisions())
	}
	return a.stillLoading(l)
}

// stillLoading returns the error for commands on a stream that is loaded in the background.
func (a *Actor[S]) stillLoading(l *loading) error {
	loaded := a.state.Revisions()
	out := &LoadingError{Stream: a.stream, Loaded: loaded, Events: l.end, RetryAfter: unknownLoadRetry}
	if l.end > loaded && loaded > l.first {
		perEvent := float64(time.Since(l.since)) / float64(loaded-l.first)
		left := min(time.Duration(perEvent*float64(l.end-loaded)), maxLoadRetry)
		out.RetryAfter = max(left.Truncate(time.Second)+time.Second, minLoadRetry)
	}
	return out
}

// loadOn answers waiting commands and loads another slice of the stream.
func (a *Actor[S]) loadOn(group []*queued[S]) {
	l := a.loading
	a.putBack(a.keepPatient(group, a.stillLoading(l)))
	clear(group)
	if !l.turn {
		select {
		case a.all.loads <- struct{}{}:
			l.turn = true
		case <-a.wake:
			return
		case <-a.all.stopping:
		}
	}
	select {
	case <-a.all.stopping:
		a.endLoading()
		return
	default:
	}
	err := a.load(a.all.ctx, time.Now().Add(loadSlice))
	if errors.Is(err, errMoreToLoad) {
		return
	}
	a.endLoading()
	if err = a.refreshed(err); err != nil {
		a.all.cfg.Logger.Warn("loading a long stream failed; the next command on it continues", "stream", a.stream,
			"loaded", a.state.Revisions(), "error", err)
		return
	}
	a.all.cfg.Logger.Info("a long stream was loaded", "stream", a.stream, "events", a.state.Revisions(),
		"took", time.Since(l.since))
	a.saveSnapshot(false)
}

func (a *Actor[S]) endLoading() {
	if a.loading.turn {
		<-a.all.loads
	}
	a.loading = nil
	a.all.metrics.loading.Dec()
}

// keepPatient rejects the commands that do not wait for loading, and returns the others.
func (a *Actor[S]) keepPatient(group []*queued[S], err error) (patient []*queued[S]) {
	var others []*queued[S]
	for _, t := range group {
		if t.patient && t.ctx.Err() == nil {
			patient = append(patient, t)
		} else {
			others = append(others, t)
		}
	}
	a.all.metrics.rejected.WithLabelValues("loading").Add(float64(len(others)))
	a.fail(others, err)
	return patient
}
