package search

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"

	"letterhead/internal/eventlog"
	"letterhead/internal/searchindex"
)

// markEvery is the minimum interval between two reads of the event that is stored with the checkpoint.
const markEvery = time.Second

// Reasons to fill an index again.
var (
	errUnnamed = errors.New("the search index does not say which log it was fed from: it is new, or of an earlier release")
	errEarlier = errors.New("the search index was fed from an earlier state of this log, before a restore or an accepted loss; the node that feeds it fills it again")
)

// origin is the name of a log in an index.
type origin struct {
	First    eventlog.Mark `json:"first"`              // zero: the log was empty
	Began    time.Time     `json:"began"`              // when First occurred: many logs begin with an event of the same ID
	Accepted string        `json:"accepted,omitempty"` // as in Config
}

// Compare compares an index with the log of a configuration. Errors: searchindex.ErrOtherLog, *eventlog.LossError, the
// errors of the index and of the log.
func Compare(ctx context.Context, index searchindex.Index, cfg Config) error {
	_, err := (&Projection{cfg: cfg, shared: true, index: index}).inspect(ctx)
	if err == errUnnamed || err == errEarlier {
		return nil
	}
	return err
}

// own returns the name of the log of this process, and lets the index use it.
func (p *Projection) own(ctx context.Context) (origin, string, error) {
	p.naming.Lock()
	defer p.naming.Unlock()
	if p.log != "" || p.cfg.Log == nil {
		return p.origin, p.log, nil
	}
	o := origin{Accepted: p.cfg.Accepted}
	first, found, err := eventlog.Mark{}.Find(ctx, p.cfg.Log)
	if found {
		o.First, o.Began = eventlog.MarkOf(&first), first.OccurredAt.UTC()
	}
	text, failed := json.Marshal(o)
	if err = cmp.Or(err, failed); err != nil {
		return o, "", err
	}
	p.index.Use(searchindex.Origin{Log: string(text)})
	if found {
		p.origin, p.log = o, string(text)
	}
	return o, string(text), nil
}

// inspect compares the index with the log, and returns its checkpoint. Errors: errUnnamed, errEarlier (of an embedded
// index also if it is of another log), searchindex.ErrOtherLog, *eventlog.LossError, those of the index and the log.
func (p *Projection) inspect(ctx context.Context) (eventlog.Position, error) {
	checkpoint, of, err := p.index.Checkpoint(ctx) // first, because the log only grows in the meantime
	at := eventlog.Position(checkpoint)
	if err != nil || p.cfg.Log == nil {
		return at, err
	}
	own, name, err := p.own(ctx)
	if err != nil {
		return at, err
	}
	var fed origin
	unreadable := json.Unmarshal([]byte(of.Log), &fed) != nil
	if of.Log != "" && of.Log != name && (unreadable || fed.First.ID != uuid.Nil) {
		held, _, err := fed.First.Find(ctx, p.cfg.Log)
		if err == nil && p.shared && (unreadable || held.ID != fed.First.ID || !held.OccurredAt.Equal(fed.Began)) {
			err = otherLog(of.Generation, fed, own)
		}
		return at, cmp.Or(err, errEarlier)
	}
	end, err := p.cfg.Log.End(ctx)
	if err == nil && at > end {
		err = &eventlog.LossError{Witness: "search index", Remembered: at, Head: end,
			Detail: "it was fed from events that the log does not hold"}
	}
	if err != nil || fed.First.ID == uuid.Nil {
		return at, cmp.Or(err, errUnnamed)
	}
	var last eventlog.Mark
	if json.Unmarshal([]byte(of.Last), &last) != nil { // none is stored
		return at, nil
	}
	held, err := last.Held(ctx, p.cfg.Log)
	if err == nil && !held {
		err = errEarlier
	}
	return at, err
}

func (o origin) String() string {
	if o.First.ID == uuid.Nil {
		return "has no events"
	}
	return fmt.Sprintf("begins with event %s of %s", o.First.ID, o.Began.Format(time.RFC3339Nano))
}

func otherLog(generation string, fed, own origin) error {
	return fmt.Errorf("%w: the search index %s belongs to another log, which %s, and the log of this node %s. Nothing was read or written. Give each installation a search index of its own: set another alias in LETTERHEAD_SEARCH (?alias=NAME); or, if no installation uses this index any more, delete it (DELETE /%s)",
		searchindex.ErrOtherLog, generation, fed, own, generation)
}

// Check reports why the index cannot be searched: it belongs to another log (searchindex.ErrOtherLog) or to another
// state of this one, or is ahead of the log (*eventlog.LossError). Errors also: as the index and the log.
func (p *Projection) Check(ctx context.Context) error {
	_, err := p.inspect(ctx)
	if err == errUnnamed {
		return nil
	}
	return err
}

// mark lets the index store a folded event with the checkpoint of a batch. If it fails, a later batch does it. The
// caller holds feed.
func (p *Projection) mark(ctx context.Context, upTo eventlog.Position) {
	if p.cfg.Last == nil || time.Since(p.marked) < markEvery {
		return
	}
	last, err := p.cfg.Last(ctx)
	_, name, failed := p.own(ctx)
	text, unwritable := json.Marshal(last)
	if cmp.Or(err, failed, unwritable) == nil && last.Stream != "" && last.Position <= upTo {
		p.index.Use(searchindex.Origin{Log: name, Last: string(text)})
		p.marked = time.Now()
	}
}
