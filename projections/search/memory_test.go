package search_test

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/google/uuid"

	"letterhead/internal/eventlog"
	"letterhead/internal/searchindex"
	"letterhead/projections/brands"
)

// memory is a shared index without a server. All handles see its data.
type memory struct {
	mu         sync.Mutex
	away       error
	generation int
	frozen     bool
	building   *building
	docs       map[string]searchindex.Document
	checkpoint uint64
	log, last  string // of the live generation
	asked      int    // number of checkpoint reads
	rebuilds   int
}

// handle is one process's view of the index.
type handle struct {
	*memory
	bound int
	own   searchindex.Origin
}

func (h *handle) Use(of searchindex.Origin) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.own = of
}

// other returns an error if the live generation is of another log.
func (h *handle) other() error {
	if h.away == nil && h.own.Log != "" && h.log != "" && h.log != h.own.Log {
		return fmt.Errorf("%w: %w", searchindex.ErrUnavailable, searchindex.ErrOtherLog)
	}
	return h.away
}

func (m *memory) open() *handle { return &handle{memory: m, bound: m.generation} }

func (h *handle) Apply(ctx context.Context, docs []searchindex.Document, checkpoint uint64) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case h.away != nil:
		return h.away
	case h.bound != h.generation:
		h.bound = h.generation
		return searchindex.ErrReplaced
	case h.own.Log != "" && h.log != h.own.Log:
		return fmt.Errorf("%w: %w", searchindex.ErrUnavailable, searchindex.ErrOtherLog)
	case h.frozen:
		return searchindex.ErrUnavailable
	}
	if h.docs == nil {
		h.docs = map[string]searchindex.Document{}
	}
	merge(h.docs, docs)
	if checkpoint > h.checkpoint {
		h.checkpoint, h.last = checkpoint, h.own.Last
	}
	return nil
}

func merge(into map[string]searchindex.Document, docs []searchindex.Document) {
	for _, d := range docs {
		if d.Version > into[d.Domain].Version {
			into[d.Domain] = d
		}
	}
}

func (h *handle) Checkpoint(ctx context.Context) (uint64, searchindex.Origin, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.asked++
	if ctx.Err() != nil {
		return 0, searchindex.Origin{}, ctx.Err()
	}
	return h.checkpoint, searchindex.Origin{Log: h.log, Last: h.last, Generation: fmt.Sprintf("memory-%d", h.generation)}, h.away
}

func (h *handle) Search(_ context.Context, text string, limit int) ([]searchindex.Hit, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return searchindex.Rank(searchindex.ReadQuery(text), slices.Collect(maps.Values(h.docs)), limit), h.other()
}

func (h *handle) Scan(_ context.Context, after string, limit int) ([]searchindex.Document, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	var out []searchindex.Document
	for domain, d := range h.docs {
		if domain > after {
			out = append(out, d)
		}
	}
	slices.SortFunc(out, func(a, b searchindex.Document) int { return strings.Compare(a.Domain, b.Domain) })
	return out[:min(limit, len(out))], h.other()
}

func (h *handle) Close() error { return nil }

func (h *handle) Rebuild(context.Context) (searchindex.Generation, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.rebuilds++
	h.building = &building{handle: h, docs: map[string]searchindex.Document{}, log: h.own.Log}
	return h.building, h.away
}

type building struct {
	handle *handle
	docs   map[string]searchindex.Document
	at     uint64
	log    string
}

func (b *building) Apply(_ context.Context, docs []searchindex.Document, checkpoint uint64) error {
	merge(b.docs, docs)
	b.at = max(b.at, checkpoint)
	return nil
}

func (b *building) Freeze(context.Context) (uint64, error) {
	b.handle.mu.Lock()
	defer b.handle.mu.Unlock()
	b.handle.frozen = true
	return b.handle.checkpoint, nil
}

func (b *building) Publish(context.Context) error {
	h := b.handle
	h.mu.Lock()
	defer h.mu.Unlock()
	h.generation++
	h.docs, h.checkpoint, h.frozen, h.building = b.docs, b.at, false, nil
	h.log, h.last = b.log, h.own.Last
	h.bound = h.generation
	return nil
}

func (b *building) Discard() error {
	h := b.handle
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.building == b {
		h.building, h.frozen = nil, false
	}
	return nil
}

// table is a brands table that the test writes and all nodes see.
type table struct {
	mu   sync.Mutex
	docs map[string]brands.Doc
	head eventlog.Position
	id   uuid.UUID // of the first event; random unless set
	// began is when all events occurred.
	began time.Time
}

// change writes a brand's next state, with the next event.
func (s *table) change(domain, name string) eventlog.Position {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.docs == nil {
		s.docs = map[string]brands.Doc{}
	}
	s.head++
	s.docs[domain] = brands.Doc{Domain: domain, Name: name, BrandID: "id", Position: s.head}
	return s.head
}

// pass simulates events that change no brand.
func (s *table) pass(events int) eventlog.Position {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.head += eventlog.Position(events)
	return s.head
}

func (s *table) Changed(ctx context.Context, after eventlog.Position, limit int) ([]brands.Doc, eventlog.Position, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var out []brands.Doc
	for _, d := range s.docs {
		if d.Position > after {
			out = append(out, d)
		}
	}
	slices.SortFunc(out, func(a, b brands.Doc) int { return int(a.Position) - int(b.Position) })
	if len(out) >= limit {
		return out[:limit], out[limit-1].Position, ctx.Err()
	}
	return out, max(after, s.head), ctx.Err()
}

// The table is also the log: every event is on one stream.
func (s *table) First(ctx context.Context) (eventlog.Recorded, bool, error) {
	return s.At(ctx, "stream", 0)
}

func (s *table) Last(ctx context.Context) (eventlog.Recorded, bool, error) {
	head, err := s.End(ctx)
	if err != nil || head == 0 {
		return eventlog.Recorded{}, false, err
	}
	return s.At(ctx, "stream", uint64(head)-1)
}

func (s *table) At(_ context.Context, stream string, revision uint64) (eventlog.Recorded, bool, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.id == uuid.Nil {
		s.id = uuid.New()
	}
	if stream != "stream" || eventlog.Position(revision) >= s.head {
		return eventlog.Recorded{}, false, nil
	}
	id := s.id
	if revision > 0 {
		id = uuid.NewSHA1(s.id, fmt.Append(nil, revision))
	}
	e := eventlog.Recorded{Stream: stream, Revision: revision, Position: eventlog.Position(revision) + 1}
	e.ID, e.OccurredAt = id, s.began
	return e, true, nil
}

func (s *table) End(context.Context) (eventlog.Position, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.head, nil
}
