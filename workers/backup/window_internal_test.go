package backup

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	"pgregory.net/rapid"

	"letterhead/commands"
	"letterhead/domain/account"
	"letterhead/domain/usage"
	"letterhead/eventschemas"
	"letterhead/internal/eventlog"
	"letterhead/internal/testmust"
)

// memoryLog is a log that is not an importer. Its process may end: after a number of appends none succeeds,
// and those already sent are written immediately, later, or never.
type memoryLog struct {
	eventlog.Log
	mu      sync.Mutex
	events  []eventlog.Recorded
	streams map[string][]uuid.UUID

	most int      // bytes of an append of several events
	left int      // appends until the process ends
	fate []string // of the appends after that: "stored", "late" or "lost", in turn
	late []func() // appends that are written during a later run
}

func newMemoryLog() *memoryLog {
	return &memoryLog{streams: map[string][]uuid.UUID{}, most: 1 << 30, left: 1 << 30}
}

func (m *memoryLog) Append(_ context.Context, stream string, expected eventlog.Expected, events []eventlog.Proposed) (eventlog.Appended, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.left--; m.left < 0 {
		if n := -m.left - 1; n < len(m.fate) {
			switch m.fate[n] {
			case "stored":
				_ = m.add(stream, expected, events) // the process is gone and gets no answer
			case "late":
				m.late = append(m.late, func() { _ = m.add(stream, expected, events) })
			}
		}
		return eventlog.Appended{}, errCut
	}
	if len(m.late) > 0 {
		m.late[0]()
		m.late = m.late[1:]
	}
	return eventlog.Appended{}, m.add(stream, expected, events)
}

// add implements the promises of eventlog.Log.Append.
func (m *memoryLog) add(stream string, expected eventlog.Expected, events []eventlog.Proposed) error {
	size := 0
	for i := range events {
		size += eventlog.Size(&events[i])
	}
	if len(events) > 1 && size > m.most {
		return eventlog.ErrTooLarge
	}
	held := m.streams[stream]
	next := expected.Next()
	if next < uint64(len(held)) {
		for i, e := range events {
			if at := next + uint64(i); at >= uint64(len(held)) || held[at] != e.ID {
				return &eventlog.WrongRevisionError{Stream: stream, Expected: expected}
			}
		}
		return nil
	}
	if next > uint64(len(held)) {
		return &eventlog.WrongRevisionError{Stream: stream, Expected: expected}
	}
	for _, e := range events {
		m.events = append(m.events, eventlog.Recorded{Proposed: e, Stream: stream, Revision: uint64(len(m.streams[stream])), Position: eventlog.Position(7 * (len(m.events) + 1))})
		m.streams[stream] = append(m.streams[stream], e.ID)
	}
	return nil
}

func (m *memoryLog) ReadAll(_ context.Context, after eventlog.Position, _ eventlog.Filter, limit int) (eventlog.Page, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	first := int(after / 7)
	page := slices.Clone(m.events[first:min(len(m.events), first+min(limit, 5))])
	return eventlog.Page{Events: page, Next: eventlog.Position(7 * (first + len(page))), End: first+len(page) == len(m.events)}, nil
}

func (m *memoryLog) ReadStream(_ context.Context, stream string, from uint64, _ eventlog.Direction, limit int) ([]eventlog.Recorded, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	var page []eventlog.Recorded
	for _, e := range m.events {
		if e.Stream == stream && e.Revision >= from && len(page) < limit {
			page = append(page, e)
		}
	}
	return page, nil
}

func (m *memoryLog) Head(context.Context) (eventlog.Position, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return eventlog.Position(7 * len(m.events)), nil
}

// inWindows checks that every stream of the copy is the beginning of the origin's, that at each of its
// events the copy holds the beginning of the origin and some of the events of one window with at most that
// many events and bytes, that no event of another stream precedes an earlier account event, and that no event changes its
// place relative to an event of the books.
func inWindows(t *rapid.T, copied, origin []eventlog.Recorded, window, bytes int) {
	t.Helper()
	index := map[uuid.UUID]int{}
	for i, e := range origin {
		index[e.ID] = i
	}
	before := make([]int, len(origin)+1) // bytes of the events before
	for i := range origin {
		before[i+1] = before[i] + eventlog.Size(&origin[i].Proposed)
	}
	alone := []string{eventschemas.BooksStream, eventschemas.CheckpointsStream, eventschemas.NoticesPrefix + "1"}
	there, whole := make([]bool, len(origin)), 0
	next := map[string]uint64{}
	for _, e := range copied {
		at, known := index[e.ID]
		if !known || there[at] || e.Revision != next[e.Stream] || difference(&e, &origin[at]) != "" {
			t.Fatalf("revision %d of %s is not the next one of the origin", e.Revision, e.Stream)
		}
		next[e.Stream]++
		if !strings.HasPrefix(e.Stream, account.StreamPrefix) {
			for i := range at {
				if !there[i] && strings.HasPrefix(origin[i].Stream, account.StreamPrefix) {
					t.Fatalf("event %d was copied before the earlier event %d of an account", at, i)
				}
			}
		}
		// No event moves from one side of an event of the books, of a checkpoint or of notices to the other.
		for i := range at {
			if !there[i] && (slices.Contains(alone, e.Stream) || slices.Contains(alone, origin[i].Stream)) {
				t.Fatalf("event %d of %s was copied before event %d of %s", at, e.Stream, i, origin[i].Stream)
			}
		}
		if size := before[at+1] - before[whole]; at > whole && size > bytes {
			t.Fatalf("event %d was copied while event %d was missing, %d bytes before its end, with windows of %d", at, whole, size, bytes)
		}
		if at >= whole+window {
			t.Fatalf("event %d was copied while event %d was missing, with windows of %d", at, whole, window)
		}
		for there[at] = true; whole < len(there) && there[whole]; whole++ {
		}
	}
}

// A migration to a log that is not an importer may end at any append, any number of times, and its appends
// may be written during the next run. Each run continues, and the copy has every stream unchanged.
// Rules 2, 14.
func TestMigrate_InterruptedAnywhere_Resumes(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		window := rapid.IntRange(1, 12).Draw(r, "window")
		bytes := rapid.SampledFrom([]int{1, 300, 1 << 30}).Draw(r, "window bytes")
		from, to := newMemoryLog(), newMemoryLog()
		to.most = rapid.SampledFrom([]int{1, 200, 400, 1 << 30}).Draw(r, "append bytes")
		chains := map[string]eventschemas.Hash{}
		write := func(n int) {
			for range n {
				stream := fmt.Sprint(rapid.SampledFrom([]string{account.StreamPrefix, usage.StreamPrefix}).Draw(r, "kind"), rapid.IntRange(0, 3).Draw(r, "stream"))
				if rapid.IntRange(0, 5).Draw(r, "divides") == 0 {
					stream = rapid.SampledFrom([]string{eventschemas.BooksStream, eventschemas.CheckpointsStream, eventschemas.NoticesPrefix + "1"}).Draw(r, "stream that divides")
				}
				i := len(from.events)
				e := eventlog.Proposed{ID: uuid.NewSHA1(uuid.NameSpaceOID, fmt.Append(nil, i)), Type: "T", OccurredAt: time.UnixMicro(int64(i)).UTC(), Data: fmt.Append(nil, i)}
				if rapid.IntRange(0, 3).Draw(r, "large") == 0 {
					e.Data = slices.Repeat(e.Data, 150)
				}
				revision := uint64(len(from.streams[stream]))
				if strings.HasPrefix(stream, account.StreamPrefix) {
					chains[stream] = eventschemas.ChainLink{
						Stream: stream, Revision: revision, EventID: e.ID, Type: e.Type, OccurredAt: e.OccurredAt, Data: e.Data,
					}.Next(chains[stream])
					e.Metadata.Hash = fmt.Sprintf("%x", chains[stream])
				}
				testmust.Succeed(r, from.add(stream, eventlog.After(revision), []eventlog.Proposed{e}))
			}
		}
		write(rapid.IntRange(0, 60).Draw(r, "events"))
		relay := eventlog.Position(7 * rapid.IntRange(0, len(from.events)).Draw(r, "relay"))
		at := remember{}
		migrate := func(final bool) error {
			_, err := Migrate(t.Context(), Config{RetryAfter: time.Nanosecond, windowEvents: window, windowBytes: bytes}, final,
				Source{Log: from, Readers: map[string]eventlog.Position{"relay": relay}}, Target{Log: to, Positions: at, Done: []string{"relay"}})
			return err
		}
		cuts := rapid.IntRange(0, 4).Draw(r, "cuts")
		for range cuts {
			to.left = rapid.IntRange(0, 20).Draw(r, "appends")
			to.fate = rapid.SliceOfN(rapid.SampledFrom([]string{"stored", "late", "lost"}), 0, 6).Draw(r, "fate")
			if err := migrate(false); err != nil && !errors.Is(err, errCut) {
				r.Fatalf("an interrupted pass: %v", err)
			}
			inWindows(r, to.events, from.events, window, bytes)
			write(rapid.IntRange(0, 5).Draw(r, "meanwhile"))
		}
		to.left = 1 << 30
		testmust.Succeed(r, migrate(true))
		inWindows(r, to.events, from.events, window, bytes)
		if len(to.events) != len(from.events) {
			r.Fatalf("%d events, want %d", len(to.events), len(from.events))
		}
		// The relay continues before all events that it has not read; without an interruption exactly there.
		again := 0
		for i := range to.events {
			e := &to.events[i]
			n := slices.IndexFunc(from.events, func(o eventlog.Recorded) bool { return o.ID == e.ID })
			switch read := eventlog.Position(7*(n+1)) <= relay; {
			case !read && e.Position <= at["relay"]:
				r.Fatalf("the relay begins at %d and misses event %d, which it has not read", at["relay"], n)
			case read && e.Position > at["relay"]:
				again++
			}
		}
		if again >= window || cuts == 0 && again > 0 {
			r.Fatalf("the relay reads %d events again, with windows of %d and %d interruptions", again, window, cuts)
		}
	})
}

// hooked is a log with hooks before each append but the first, and after a page is read. No stream may be read.
type hooked struct {
	*memoryLog
	appends atomic.Int64
	later   func(ctx context.Context) error
	read    func(ctx context.Context, page []eventlog.Recorded) error
}

func (h *hooked) Append(ctx context.Context, stream string, expected eventlog.Expected, events []eventlog.Proposed) (eventlog.Appended, error) {
	if h.appends.Add(1) > 1 {
		if err := h.later(ctx); err != nil {
			return eventlog.Appended{}, err
		}
	}
	return h.memoryLog.Append(ctx, stream, expected, events)
}

func (h *hooked) ReadAll(ctx context.Context, after eventlog.Position, f eventlog.Filter, limit int) (eventlog.Page, error) {
	page, err := h.memoryLog.ReadAll(ctx, after, f, limit)
	return page, errors.Join(err, h.read(ctx, page.Events))
}

func (h *hooked) ReadStream(context.Context, string, uint64, eventlog.Direction, int) ([]eventlog.Recorded, error) {
	return nil, errors.New("a stream is read")
}

// happens waits for an event.
func happens(event <-chan struct{}, what string) error {
	select {
	case <-event:
		return nil
	case <-time.After(time.Minute):
		return errors.New("this did not happen: " + what)
	}
}

// Events are compared, and chains verified, while later ones are written, in one pass over the target. A difference ends
// the writing, and a failed append ends the comparison.
func TestMigrate_ReadsTargetOnce_WhileItWrites(t *testing.T) {
	from := newMemoryLog()
	head, stream := eventschemas.Hash{}, account.StreamPrefix+"1"
	for i := range 20 {
		e := eventlog.Proposed{ID: uuid.NewSHA1(uuid.NameSpaceOID, fmt.Append(nil, i)), Type: "T", OccurredAt: time.UnixMicro(int64(i)).UTC()}
		head = commands.Chain.Link(head, stream, uint64(i), &e)
		testmust.Succeed(t, from.add(stream, eventlog.After(uint64(i)), []eventlog.Proposed{e}))
	}
	migrate := func(to *hooked) (Migrated, error) {
		to.memoryLog = newMemoryLog()
		return Migrate(t.Context(), Config{windowEvents: 4}, true, Source{Log: from}, Target{Log: to})
	}

	first := make(chan struct{})
	begins := sync.OnceFunc(func() { close(first) })
	out, err := migrate(&hooked{
		later: func(context.Context) error { return happens(first, "the first append is read back") },
		read:  func(context.Context, []eventlog.Recorded) error { begins(); return nil },
	})
	if err != nil || out.Events != 20 || out.ChainEvents != 20 {
		t.Errorf("migrated %+v, %v", out, err)
	}

	_, err = migrate(&hooked{
		later: func(ctx context.Context) error {
			return errors.Join(happens(ctx.Done(), "the writing ends"), ctx.Err())
		},
		read: func(_ context.Context, page []eventlog.Recorded) error { page[0].Data = []byte("x"); return nil },
	})
	if !errors.Is(err, ErrDiffers) {
		t.Errorf("an event reads back differently: %v, want %v", err, ErrDiffers)
	}

	second := make(chan struct{})
	begins = sync.OnceFunc(func() { close(second) })
	_, err = migrate(&hooked{
		later: func(context.Context) error {
			return errors.Join(happens(second, "the first append is read back"), errCut)
		},
		read: func(ctx context.Context, _ []eventlog.Recorded) error {
			begins()
			return errors.Join(happens(ctx.Done(), "the comparison ends"), ctx.Err())
		},
	})
	if !errors.Is(err, errCut) {
		t.Errorf("an append failed: %v, want %v", err, errCut)
	}
}

// remember are positions in memory.
type remember map[string]eventlog.Position

func (r remember) Reset(_ context.Context, name string, at eventlog.Position) error {
	r[name] = at
	return nil
}

// A target whose events are further apart than a window belongs to another log.
func TestCompare_FurtherApartThanAWindow_Fails(t *testing.T) {
	const window = 8
	for _, apart := range []int{window, window + 1} {
		from, to := newMemoryLog(), newMemoryLog()
		for i := range 2 * window {
			e := eventlog.Proposed{ID: uuid.NewSHA1(uuid.NameSpaceOID, fmt.Append(nil, i)), Type: "T", OccurredAt: time.UnixMicro(int64(i)).UTC()}
			testmust.Succeed(t, from.add(fmt.Sprint("s-", i), eventlog.NoStream(), []eventlog.Proposed{e}))
			if i == apart {
				testmust.Succeed(t, to.add(fmt.Sprint("s-", i), eventlog.NoStream(), []eventlog.Proposed{e}))
			}
		}
		_, err := Migrate(t.Context(), Config{windowEvents: window}, false, Source{Log: from}, Target{Log: to})
		if rejected := errors.Is(err, ErrNotEmpty); rejected != (apart > window) || !rejected && err != nil {
			t.Errorf("%d events apart: %v", apart, err)
		}
		if apart > window && len(to.events) != 1 {
			t.Errorf("%d events were written to a rejected target", len(to.events)-1)
		}
	}
}
