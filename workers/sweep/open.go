package sweep

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"letterhead/domain/account"
	"letterhead/domain/brand"
	"letterhead/eventschemas"
	"letterhead/internal/eventlog"
	"letterhead/internal/sqlstore"
)

const (
	// foldVersion is the version of the saved memory's format.
	foldVersion = 1
	// stateName is the name under which the memory is saved.
	stateName = "sweep"
)

// filter selects the events that begin or end a hold or a crawl.
var filter = eventlog.Filter{
	StreamPrefixes: []string{account.StreamPrefix, brand.StreamPrefix},
	EventTypes: []string{
		held, charged, eventschemas.HoldReleased{}.EventType(),
		requested, eventschemas.CrawlSucceeded{}.EventType(), eventschemas.CrawlConfirmed{}.EventType(),
		eventschemas.CrawlFailed{}.EventType(), eventschemas.BrandWithdrawn{}.EventType(),
	},
}

var (
	held      = eventschemas.CreditsHeld{}.EventType()
	charged   = eventschemas.CreditsCharged{}.EventType()
	requested = eventschemas.CrawlRequested{}.EventType()
)

// open has the holds and crawls that have begun and not ended, as far as the log was read.
type open struct {
	Position eventlog.Position `json:"position"`
	// by account and hold id: a hold id is unique only within its stream
	Holds  map[string]openHold     `json:"holds"`
	Crawls map[string]runningCrawl `json:"crawls"` // by domain; a brand has one at a time
}

type openHold struct {
	Account  string    `json:"account"`
	Left     int64     `json:"left"` // credits
	Deadline time.Time `json:"deadline"`
}

type runningCrawl struct {
	ID       string    `json:"id"`
	Deadline time.Time `json:"deadline"`
}

func nothing() open { return open{Holds: map[string]openHold{}, Crawls: map[string]runningCrawl{}} }

// len returns the number of open holds and crawls.
func (o *open) len() int { return len(o.Holds) + len(o.Crawls) }

// fold records beginnings and ends, and leaves events in the batch for which there is no room: nothing is forgotten,
// the log is only read later. Room becomes available with time, because everything has a deadline.
func (s *Sweeper) fold(batch *eventlog.Batch) error {
	for len(batch.Events) > 0 {
		r := &batch.Events[0]
		begins := r.Type == held || r.Type == requested
		if begins && s.open.len() >= s.cfg.MaxOpen {
			return nil
		}
		if err := s.apply(r); err != nil {
			return err
		}
		s.open.Position = r.Position
		batch.Events = batch.Events[1:]
	}
	s.open.Position = max(s.open.Position, batch.Position)
	return nil
}

func (s *Sweeper) apply(r *eventlog.Recorded) error {
	// Most charges capture no hold; they are recognized without decoding.
	if r.Type == charged && !bytes.Contains(r.Data, []byte(`"hold_id"`)) {
		return nil
	}
	ev, err := eventlog.Decode(r, eventschemas.Decode)
	switch {
	case errors.Is(err, eventschemas.ErrDamaged):
		s.cfg.Logger.Error("a damaged event is skipped", "stream", r.Stream, "revision", r.Revision, "error", err)
		return nil
	case err != nil:
		return fmt.Errorf("sweep over %s at position %d: %w", r.Type, r.Position, err)
	}
	if accountID, ok := strings.CutPrefix(r.Stream, account.StreamPrefix); ok {
		s.open.applyHold(accountID, ev)
	} else if domain, ok := strings.CutPrefix(r.Stream, brand.StreamPrefix); ok {
		s.open.applyCrawl(domain, ev, r.OccurredAt)
	}
	return nil
}

func (o *open) applyHold(accountID string, ev eventschemas.Event) {
	switch ev := ev.(type) {
	case eventschemas.CreditsHeld:
		o.Holds[holdKey(accountID, ev.HoldID)] = openHold{Account: accountID, Left: ev.Credits, Deadline: ev.Deadline}
	case eventschemas.CreditsCharged:
		key := holdKey(accountID, ev.HoldID)
		h, known := o.Holds[key]
		if h.Left -= ev.Credits; h.Left <= 0 {
			delete(o.Holds, key)
		} else if known {
			o.Holds[key] = h
		}
	case eventschemas.HoldReleased:
		delete(o.Holds, holdKey(accountID, ev.HoldID))
	}
}

func holdKey(accountID, holdID string) string { return accountID + "/" + holdID }

func (o *open) applyCrawl(domain string, ev eventschemas.Event, at time.Time) {
	switch ev := ev.(type) {
	case eventschemas.CrawlRequested: // replaces one that it supersedes
		o.Crawls[domain] = runningCrawl{ID: ev.CrawlID,
			Deadline: at.Add(time.Duration(ev.AllowedMS) * time.Millisecond)}
	case eventschemas.BrandWithdrawn:
		delete(o.Crawls, domain)
	default:
		// not the late end of an older crawl
		if ended, _ := brand.EndOf(ev); ended != "" && ended == o.Crawls[domain].ID {
			delete(o.Crawls, domain)
		}
	}
}

// remember loads the state of the last save. If it is unusable it is ignored, and the log is read from
// its beginning. Errors: as the log, ctx.Err().
func (s *Sweeper) remember(ctx context.Context) error {
	s.open, s.saved = nothing(), 0
	_, state, found, err := s.memory.Load(ctx, stateName, foldVersion)
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if err == nil && !found {
		return nil
	}
	var known open
	if err == nil {
		err = json.Unmarshal(state, &known)
	}
	if err == nil && (known.Holds == nil || known.Crawls == nil) {
		err = errors.New("parts are missing")
	}
	if err != nil {
		s.cfg.Logger.Warn("the sweeper's saved memory is unreadable; reading the log from its beginning", "error", err)
		if !found && !errors.Is(err, sqlstore.ErrSnapshotDamaged) {
			return nil // the database is unavailable
		}
		if err := s.memory.Discard(ctx, stateName, foldVersion); err != nil { // otherwise it could prevent later saves
			s.cfg.Logger.Warn("the sweeper's saved memory could not be discarded", "error", err)
		}
		return nil
	}
	head, err := s.log.Head(ctx)
	if err != nil {
		return fmt.Errorf("read the head of the log: %w", err)
	}
	if known.Position > head {
		// The log was replaced by an older one; the state belongs to another.
		s.cfg.Logger.Warn("the sweeper's saved memory is past the log; reading the log from its beginning",
			"position", known.Position, "head", head)
		return nil
	}
	s.open, s.saved = known, known.Position
	return nil
}

// save saves the state if it has changed.
func (s *Sweeper) save(ctx context.Context) {
	if s.open.Position == s.saved {
		return
	}
	state, err := json.Marshal(s.open)
	if err == nil {
		err = s.memory.Save(ctx, stateName, foldVersion, uint64(s.open.Position), state)
	}
	if err != nil {
		s.cfg.Logger.Warn("the sweeper's memory could not be saved", "error", err)
		return
	}
	s.saved = s.open.Position
}

// saveAtLast saves at the end of Run, so that the next start reads little of the log.
func (s *Sweeper) saveAtLast(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), saveTime)
	defer cancel()
	s.save(ctx)
}
