package search

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"letterhead/internal/eventlog"
	"letterhead/internal/searchindex"
	"letterhead/projections/engine"
)

const (
	// markEvery is the minimum interval between two reads of the event that is stored with the checkpoint.
	markEvery = time.Second
	// openWait limits the comparison of a shared index with the log at a start.
	openWait = 5 * time.Second
)

// Reasons to fill an index again.
var (
	errUnnamed = errors.New("the search index does not say from which log it was fed: it is new, or of an earlier release")
	errEarlier = errors.New("the search index was fed from an earlier state of this log, before a restore or an accepted loss; the node that feeds it fills it again")
)

// OtherLogError reports that the search index belongs to the log of another installation. It is
// searchindex.ErrOtherLog.
type OtherLogError struct {
	Generation string      // of the index
	Fed, Own   engine.Mark // the first events of the log that it was fed from, and of the log of this process
}

func (e *OtherLogError) Error() string {
	own := "has no events"
	if e.Own != (engine.Mark{}) {
		own = "begins with event " + e.Own.ID.String()
	}
	return fmt.Sprintf("the search index %s belongs to another log: that log begins with event %s, and the log of this node %s. Nothing was read or written. Give each installation a search index of its own: set another alias in LETTERHEAD_SEARCH (?alias=NAME); or, if no installation uses this index any more, delete it (DELETE /%s)",
		e.Generation, e.Fed.ID, own, e.Generation)
}

// Is makes errors.Is(err, searchindex.ErrOtherLog) true.
func (e *OtherLogError) Is(target error) bool { return target == searchindex.ErrOtherLog }

// origin is the name of a log in an index.
type origin struct {
	First    engine.Mark `json:"first"`
	Accepted string      `json:"accepted,omitempty"` // as in Config
}

// Belongs returns an *OtherLogError if an index was fed from another log. The log may have been replaced: its first
// event was known before. Errors: as the log and of the index.
func Belongs(ctx context.Context, index searchindex.Index, log eventlog.Prober, known engine.Mark) error {
	_, of, err := index.Checkpoint(ctx)
	if err != nil {
		return err
	}
	fed, held, err := fedFrom(ctx, of, log)
	if err != nil || held || known.ID == fed.ID {
		return err
	}
	own, _, err := engine.Mark{}.Find(ctx, log)
	return cmp.Or(err, error(&OtherLogError{of.Generation, fed, engine.MarkOf(&own)}))
}

// fedFrom returns the first event of the log that an index names, and whether a log holds it, at any position. An index
// that names none may be of any log.
func fedFrom(ctx context.Context, of searchindex.Origin, log eventlog.Prober) (engine.Mark, bool, error) {
	if of.Log == "" {
		return engine.Mark{}, true, nil
	}
	var named origin
	if json.Unmarshal([]byte(of.Log), &named) != nil || named.First.Stream == "" {
		return named.First, false, nil
	}
	held, found, err := named.First.Find(ctx, log)
	return named.First, found && held.ID == named.First.ID, err
}

// own returns the name of the log of this process, "" while that is empty, and its first event.
func (p *Projection) own(ctx context.Context) (string, engine.Mark, error) {
	p.mu.Lock()
	name, first := p.log, p.first
	p.mu.Unlock()
	if name != "" {
		return name, first, nil
	}
	found, ok, err := engine.Mark{}.Find(ctx, p.cfg.Log)
	if err != nil || !ok {
		return "", first, err
	}
	first = engine.MarkOf(&found)
	text, err := json.Marshal(origin{first, p.cfg.Accepted})
	if err != nil {
		return "", first, err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.log == "" {
		p.log, p.first = string(text), first
		p.index.Use(searchindex.Origin{Log: p.log})
	}
	return p.log, p.first, nil
}

// inspect compares the index with the log, and returns its checkpoint, and why it must be filled again: errUnnamed,
// errEarlier or nil. Errors: *OtherLogError, *eventlog.LossError, the errors of the index and of the log.
func (p *Projection) inspect(ctx context.Context) (at eventlog.Position, stale, err error) {
	checkpoint, of, err := p.index.Checkpoint(ctx) // first, because the log only grows in the meantime
	if at = eventlog.Position(checkpoint); err != nil || p.cfg.Log == nil {
		return at, nil, err
	}
	name, first, err := p.own(ctx)
	if err != nil {
		return at, nil, err
	}
	if of.Log != "" && of.Log != name {
		fed, held, err := fedFrom(ctx, of, p.cfg.Log)
		if err == nil && !held {
			err = &OtherLogError{of.Generation, fed, first}
		}
		return at, errEarlier, err
	}
	end, err := p.cfg.Log.End(ctx)
	if err != nil {
		return at, nil, err
	}
	if at > end {
		return at, nil, &eventlog.LossError{Witness: "search index", Remembered: at, Head: end,
			Detail: "it was fed from events that the log does not hold"}
	}
	if of.Log == "" {
		return at, errUnnamed, nil
	}
	var last engine.Mark
	if of.Last == "" || json.Unmarshal([]byte(of.Last), &last) != nil {
		return at, nil, nil
	}
	if held, err := last.Held(ctx, p.cfg.Log); err != nil || held {
		return at, nil, err
	}
	return at, errEarlier, nil
}

// Check reports why the index cannot be searched: it belongs to another log or to another state of this one, or it is
// ahead of the log. Errors: as inspect.
func (p *Projection) Check(ctx context.Context) error {
	_, stale, err := p.inspect(ctx)
	if err == nil && !errors.Is(stale, errUnnamed) {
		err = stale
	}
	return err
}

// checkNamed is Check for a process that has not compared the index yet, because it or the log was not available.
func (p *Projection) checkNamed(ctx context.Context) error {
	p.mu.Lock()
	named := p.log != "" || p.cfg.Log == nil
	p.mu.Unlock()
	if named {
		return nil
	}
	return p.Check(ctx)
}

// mark lets the index store a folded event with the checkpoint of a batch. If it fails, a later batch does it. The
// caller holds feed.
func (p *Projection) mark(ctx context.Context, upTo eventlog.Position) {
	if p.cfg.Last == nil || time.Since(p.marked) < markEvery {
		return
	}
	last, err := p.cfg.Last(ctx)
	if err != nil || last.Stream == "" || last.Position > upTo {
		return
	}
	text, err := json.Marshal(last)
	if err != nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.log != "" {
		p.index.Use(searchindex.Origin{Log: p.log, Last: string(text)})
		p.marked = time.Now()
	}
}
