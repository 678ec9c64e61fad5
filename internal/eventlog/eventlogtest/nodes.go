package eventlogtest

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"

	"letterhead/internal/eventlog"
)

// OpenNodes makes an empty store for one test and opens two logs on it, like two nodes, and closes them at
// the end of the test. For a store that only one process may open, both are the same log.
type OpenNodes func(t *testing.T) (one, other eventlog.Log)

// RunNodes tests two nodes on one store.
func RunNodes(t *testing.T, open OpenNodes) {
	for name, test := range map[string]func(*nodes){
		"one winner at each revision":                     (*nodes).race,
		"a repeat on the other node":                      (*nodes).repeat,
		"each reads the other's writes":                   (*nodes).readOther,
		"each follows the other":                          (*nodes).follow,
		"a filter of many prefixes":                       (*nodes).manyPrefixes,
		"a filter that selects nothing advances":          (*nodes).idle,
		"a filtered subscription advances in small steps": (*nodes).smallSteps,
	} {
		t.Run(name, func(t *testing.T) { test(startNodes(t, open)) })
	}
	RunNodeRepeats(t, open)
}

// RunNodeRepeats is RunRepeats for two nodes. It is a part of RunNodes.
func RunNodeRepeats(t *testing.T, open OpenNodes) {
	t.Run("the same append on both concurrently", func(t *testing.T) { startNodes(t, open).repeatAtOnce() })
}

func startNodes(t *testing.T, open OpenNodes) *nodes {
	t.Helper()
	var n nodes
	n.one = start(t, func(t *testing.T) eventlog.Log {
		one, other := open(t)
		n.other.log = other
		return one
	})
	n.other.log = &uniqueIDs{Log: n.other.log, t: t, streams: n.one.log.(*uniqueIDs).streams}
	n.other.t, n.other.ctx = n.one.t, n.one.ctx
	return &n
}

type nodes struct {
	one   *fixture
	other fixture
}

func (n *nodes) both() []*fixture { return []*fixture{n.one, &n.other} }

func (n *nodes) race() {
	const rounds, callers = 30, 3
	for round := range uint64(rounds) {
		var won atomic.Int64
		var all sync.WaitGroup
		for i, f := range n.both() {
			for c := range uint64(callers) {
				all.Go(func() {
					number := round<<16 | uint64(i)<<8 | c + 1
					switch _, err := f.log.Append(f.ctx, "s", eventlog.After(round), events(number)); {
					case err == nil:
						won.Add(1)
					case !errors.Is(err, eventlog.ErrWrongRevision):
						f.t.Errorf("round %d: %v", round, err)
					}
				})
			}
		}
		all.Wait()
		if won.Load() != 1 {
			n.one.t.Fatalf("round %d had %d winners", round, won.Load())
		}
	}
	same(n.one.t, "the other node's stream", n.other.stream("s"), n.one.stream("s"))
}

func (n *nodes) repeat() {
	first := n.one.append("s", eventlog.NoStream(), 1, 2)
	again := n.other.append("s", eventlog.NoStream(), 1, 2)
	if again.FirstRevision != first.FirstRevision || again.LastRevision != first.LastRevision {
		n.one.t.Errorf("the repeat returned %+v, want %+v", again, first)
	}
	second := n.other.append("s", eventlog.Exact(1), 3)
	again = n.one.append("s", eventlog.Exact(1), 3)
	if again.LastRevision != second.LastRevision {
		n.one.t.Errorf("the repeat returned %+v, want %+v", again, second)
	}
	n.one.rejected(eventlog.ErrWrongRevision, "s", eventlog.NoStream(), events(1, 9))
	n.other.rejected(eventlog.ErrWrongRevision, "s", eventlog.Exact(1), events(4))
	n.one.holds("s", 1, 2, 3)
	n.other.holds("s", 1, 2, 3)
}

func (n *nodes) repeatAtOnce() {
	const rounds, callers = 20, 3
	for round := range uint64(rounds) {
		var all sync.WaitGroup
		for _, f := range n.both() {
			for range callers {
				all.Go(func() {
					got, err := f.log.Append(f.ctx, "s", eventlog.After(2*round), events(2*round+1, 2*round+2))
					if err != nil || got.FirstRevision != 2*round || got.LastRevision != 2*round+1 {
						f.t.Errorf("round %d: %+v, %v", round, got, err)
					}
				})
			}
		}
		all.Wait()
	}
	if count := len(n.one.stream("s")); count != 2*rounds {
		n.one.t.Errorf("the stream holds %d events, want %d", count, 2*rounds)
	}
}

func (n *nodes) readOther() {
	both := n.both()
	for i := range uint64(30) {
		writer, reader := both[i%2], both[(i+1)%2]
		appended := writer.append("s", eventlog.After(i), i+1)
		last, err := reader.log.ReadStream(reader.ctx, "s", eventlog.End, eventlog.Backward, 1)
		if err != nil || len(last) != 1 || last[0].ID != id(i+1) {
			reader.t.Fatalf("the other node reads %+v, %v as the last event, want number %d", last, err, i+1)
		}
		if head := reader.head(); head < last[0].Position {
			reader.t.Fatalf("the other node's head is %d, but the event is at %d", head, last[0].Position)
		}
		if appended.Position < last[0].Position {
			reader.t.Fatalf("the append returned position %d, but the event is at %d", appended.Position, last[0].Position)
		}
	}
	same(n.one.t, "the global order on both", n.other.all(0, eventlog.Filter{}, 7), n.one.all(0, eventlog.Filter{}, 500))
}

func (n *nodes) follow() {
	const writers, perWriter = 2, 80
	var followers []*follower
	for i, f := range n.both() {
		followers = append(followers, f.follow(fmt.Sprintf("node %d", i), 0, eventlog.Filter{}))
	}
	var work sync.WaitGroup
	for i, f := range n.both() {
		for w := range writers {
			work.Go(func() { f.writeMany(writers*i+w, perWriter) })
		}
	}
	work.Wait()
	last := n.one.append("end", eventlog.NoStream(), 1<<60)
	whole := n.one.all(0, eventlog.Filter{}, 1000)
	for _, s := range followers {
		s.until(last.Position)
		same(s.t, s.what, s.got, whole)
		s.close()
	}
}

func (n *nodes) manyPrefixes() {
	const streams = 100
	var chosen eventlog.Filter
	for i := range streams / 2 {
		chosen.StreamPrefixes = append(chosen.StreamPrefixes, fmt.Sprintf("many-%03d-", 2*i))
	}
	chosen.EventTypes = []string{"Counted"}
	s := n.other.follow("many prefixes", 0, chosen)
	defer s.close()
	for i := range uint64(streams) {
		batch := events(2*i+1, 2*i+2)
		batch[1].Type = "Tallied"
		if _, err := n.one.log.Append(n.one.ctx, fmt.Sprintf("many-%03d-x", i), eventlog.NoStream(), batch); err != nil {
			n.one.t.Fatal(err)
		}
	}
	last := n.one.append("end", eventlog.NoStream(), 1000)
	s.until(last.Position)
	whole := choose(chosen, n.one.all(0, eventlog.Filter{}, 1000))
	if len(whole) != streams/2 {
		n.one.t.Fatalf("%d events are chosen, want %d", len(whole), streams/2)
	}
	same(s.t, s.what, s.got, whole)
	same(s.t, "read", n.other.all(0, chosen, 10), whole)
}

func (n *nodes) idle() {
	s := n.other.follow("never chosen", 0, eventlog.Filter{StreamPrefixes: []string{"never-"}})
	defer s.close()
	s.untilLive()
	begun := s.at
	var appended eventlog.Appended
	for i := range uint64(300) {
		appended = n.one.append("s", eventlog.After(i), i+1)
	}
	s.until(appended.Position)
	if s.at <= begun || len(s.got) > 0 {
		n.one.t.Errorf("the subscription is at %d with %d events", s.at, len(s.got))
	}
	// A subscription from there misses nothing.
	late := n.other.follow("from an idle position", s.at, eventlog.Filter{})
	defer late.close()
	appended = n.one.append("late", eventlog.NoStream(), 5000)
	late.until(appended.Position)
	same(late.t, late.what, late.got, n.one.stream("late"))
}

// smallSteps waits for each event that the filter excludes: its position must arrive without any later event.
func (n *nodes) smallSteps() {
	chosen := eventlog.Filter{EventTypes: []string{"Never"}}
	for round := range uint64(5) {
		s := n.other.follow("small steps", 0, chosen)
		for i := range uint64(4) {
			appended := n.one.append("s", eventlog.After(4*round+i), 4*round+i+1)
			if !s.until(appended.Position) {
				return
			}
		}
		s.close()
	}
}
