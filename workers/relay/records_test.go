package relay_test

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"

	"letterhead/domain/brand"
	"letterhead/eventschemas"
	"letterhead/internal/broker"
	"letterhead/internal/eventlog"
	"letterhead/internal/eventlog/eventlogtest"
	"letterhead/internal/testmust"
	"letterhead/workers/relay"
)

// shelf is a publisher of record topics that stores everything in memory, as one partition.
type shelf struct {
	mu     sync.Mutex
	topics map[string][]broker.Message
	arrive chan struct{}
	fail   func(topic string, m []broker.Message) error
}

func newShelf() *shelf {
	return &shelf{topics: map[string][]broker.Message{}, arrive: make(chan struct{}, 1)}
}

func (s *shelf) Publish(_ context.Context, topic string, m ...broker.Message) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.fail != nil {
		if err := s.fail(topic, m); err != nil {
			return err
		}
	}
	s.topics[topic] = append(s.topics[topic], m...)
	select {
	case s.arrive <- struct{}{}:
	default:
	}
	return nil
}

func (s *shelf) held(topic string) []broker.Message {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.topics[topic])
}

// wait waits until a topic has n different messages and returns all of it.
func (s *shelf) wait(t *testing.T, topic string, n int) []broker.Message {
	t.Helper()
	deadline := time.After(timeout)
	for {
		held, ids := s.held(topic), map[string]bool{}
		for _, m := range held {
			ids[m.ID] = true
		}
		if len(ids) >= n {
			return held
		}
		select {
		case <-s.arrive:
		case <-deadline:
			t.Fatalf("topic %s holds %d messages after %s, want %d", topic, len(ids), timeout, n)
		}
	}
}

// account appends n events to an account's stream, chained like those of commands.
func account(t *testing.T, log eventlog.Log, id string, n int) {
	t.Helper()
	stream := "account-" + id
	var head eventschemas.Hash
	for revision := range n {
		ev := eventlog.Proposed{
			ID: uuid.New(), Type: "CreditsGranted", SchemaVersion: 1, OccurredAt: time.Now().UTC().Truncate(time.Microsecond),
			Data:     fmt.Appendf(nil, `{"grant_id":"g%d","kind":"free","credits":1}`, revision),
			Metadata: eventlog.Metadata{RequestID: "r", Actor: "operator:test", CorrelationID: "c", CausationID: "d"},
		}
		head = eventschemas.ChainLink{
			Stream: stream, Revision: uint64(revision), EventID: ev.ID, Type: ev.Type, SchemaVersion: ev.SchemaVersion,
			OccurredAt: ev.OccurredAt, Actor: ev.Metadata.Actor, RequestID: ev.Metadata.RequestID, Data: ev.Data,
		}.Next(head)
		ev.Metadata.Hash = hex.EncodeToString(head[:])
		testmust.Succeed(t, testmust.Err(log.Append(t.Context(), stream, eventlog.After(uint64(revision)), []eventlog.Proposed{ev})))
	}
}

// usage appends an event that is unknown to this release.
func usage(t *testing.T, log eventlog.Log, stream string) {
	t.Helper()
	_, err := log.Append(t.Context(), stream, eventlogtest.End(t, log, stream), []eventlog.Proposed{{
		ID: uuid.New(), Type: "OfANewerRelease", SchemaVersion: 9, OccurredAt: time.Now().UTC().Truncate(time.Microsecond), Data: []byte("{}"),
	}})
	testmust.Succeed(t, err)
}

func TestRecordTopics_CarryWholeEvents(t *testing.T) {
	log, to := openLog(t), newShelf()
	account(t, log, "a", 5)
	usage(t, log, "usage-a-202611")
	request(t, log, brand.PriorityLive, "acme.com")
	account(t, log, "b", 5)
	run(t, log, newTap(t), newPositions(t), relay.Config{Topics: relay.RecordTopics(to)})
	page := testmust.Get(log.ReadAll(t.Context(), 0, eventlog.Filter{}, 1000))(t)
	var want = map[string][]eventlog.Recorded{}
	for _, r := range page.Events {
		topic := broker.Ledger
		if strings.HasPrefix(r.Stream, "brand-") {
			topic = broker.Brands
		}
		want[topic] = append(want[topic], r)
	}
	if len(want[broker.Ledger]) != 11 || len(want[broker.Brands]) == 0 {
		t.Fatalf("the log holds %d and %d events", len(want[broker.Ledger]), len(want[broker.Brands]))
	}
	for topic, events := range want {
		for i, m := range to.wait(t, topic, len(events)) {
			got, err := broker.Recorded(m)
			if err != nil || fmt.Sprint(got) != fmt.Sprint(events[i]) || m.Key != events[i].Stream {
				t.Errorf("%s: event %d is %v, want %v (%v)", topic, i, got, events[i], err)
			}
		}
	}
}

// With several nodes each topic is copied by its leader, which continues where the last one ended.
// Rule 6.
func TestTopic_SeveralNodes_IsCopiedByItsLeader(t *testing.T) {
	log, to, positions := openLog(t), newShelf(), newPositions(t)
	account(t, log, "a", 10)
	type turn struct {
		ctx  context.Context
		ends chan struct{}
	}
	turns := make(chan turn)
	lead := func(ctx context.Context, name string, do func(context.Context) error) error {
		if name != "relay ledger" {
			<-ctx.Done()
			return nil
		}
		for {
			select {
			case now := <-turns:
				leading, stop := context.WithCancel(ctx)
				release := context.AfterFunc(now.ctx, stop)
				err := do(leading)
				release()
				stop()
				close(now.ends)
				if err != nil || ctx.Err() != nil {
					return err
				}
			case <-ctx.Done():
				return nil
			}
		}
	}
	run(t, log, newTap(t), positions, relay.Config{Topics: relay.RecordTopics(to), Lead: lead})
	run(t, log, newTap(t), positions, relay.Config{Topics: relay.RecordTopics(to), Lead: lead})
	for n := 10; n <= 30; n += 10 {
		ctx, stop := context.WithCancel(t.Context())
		now := turn{ctx, make(chan struct{})}
		turns <- now // to either of them
		held := to.wait(t, broker.Ledger, n)
		if len(held) != n {
			t.Errorf("%d messages of %d events: the next leader began elsewhere", len(held), n)
		}
		stop()
		<-now.ends
		if n < 30 {
			account(t, log, fmt.Sprint("next", n), 10)
		}
	}
}

// verify compares the contents of a shelf with a log.
func verify(t *testing.T, log eventlog.Log, checkpoint eventlog.Position, topic []broker.Message) (relay.Verified, []relay.Fault) {
	t.Helper()
	var faults []relay.Fault
	source := func(_ context.Context, do func(int, broker.Message) error) error {
		for _, m := range topic {
			if err := do(0, m); err != nil {
				return err
			}
		}
		return nil
	}
	found := testmust.Get(relay.Verify(t.Context(), log, relay.LedgerStreams(), checkpoint, source, func(f relay.Fault) { faults = append(faults, f) }))(t)
	if found.Faults != len(faults) {
		t.Errorf("%d faults were counted but %d reported", found.Faults, len(faults))
	}
	return found, faults
}

func TestVerify_DifferentTopic_ReportsFaults(t *testing.T) {
	log := openLog(t)
	for _, id := range []string{"a", "b", "c"} {
		account(t, log, id, 70) // more than one word of bits
	}
	usage(t, log, "usage-a-202611")
	head := testmust.Get(log.Head(t.Context()))(t)
	to := newShelf()
	run(t, log, newTap(t), newPositions(t), relay.Config{Topics: relay.RecordTopics(to)})
	sound := to.wait(t, broker.Ledger, 211)
	if found, faults := verify(t, log, head, sound); len(faults) > 0 || found.Equal != 211 || found.Events != 211 || found.Streams != 4 {
		t.Fatalf("a sound topic: %+v, %v, want 211 equal events of 4 streams", found, faults)
	}
	repeated := append(slices.Clone(sound[:150]), sound[100:]...)
	if found, faults := verify(t, log, head, repeated); len(faults) > 0 || found.Repeats != 50 {
		t.Errorf("repeats: %+v, %v, want 50 repeats", found, faults)
	}
	if found, faults := verify(t, log, sound99(t, sound), sound[:120]); len(faults) > 0 || found.Equal != 100 || found.Newer != 20 {
		t.Errorf("a checkpoint in the middle: %+v, %v, want 100 equal and 20 newer events", found, faults)
	}
	altered := func(change func(m *broker.Message)) []broker.Message {
		out := slices.Clone(sound)
		m := out[75]
		m.Metadata = map[string]string{}
		for k, v := range out[75].Metadata {
			m.Metadata[k] = v
		}
		m.Payload = slices.Clone(m.Payload)
		change(&m)
		out[75] = m
		return out
	}
	swapped := slices.Clone(sound)
	swapped[75], swapped[76] = swapped[76], swapped[75]
	for name, c := range map[string]struct {
		topic []broker.Message
		kind  string
	}{
		"one is gone":        {slices.Delete(slices.Clone(sound), 75, 76), relay.FaultMissing},
		"the topic is empty": {nil, relay.FaultMissing},
		"two changed places": {swapped, relay.FaultOrder},
		"other data":         {altered(func(m *broker.Message) { m.Payload[3] ^= 1 }), relay.FaultDifferent},
		"another id":         {altered(func(m *broker.Message) { m.ID = uuid.NewString() }), relay.FaultDifferent},
		"another actor":      {altered(func(m *broker.Message) { m.Metadata[broker.MetaActor] = "x" }), relay.FaultDifferent},
		"another time":       {altered(func(m *broker.Message) { m.Metadata[broker.MetaOccurredAt] = "2020-01-01T00:00:00.000000Z" }), relay.FaultDifferent},
		"another stream":     {altered(func(m *broker.Message) { m.Metadata[broker.MetaStream], m.Key = "account-x", "account-x" }), relay.FaultForeign},
		"a later revision":   {altered(func(m *broker.Message) { m.Metadata[broker.MetaRevision] = "70" }), relay.FaultForeign},
		"no event at all":    {altered(func(m *broker.Message) { delete(m.Metadata, broker.MetaType) }), relay.FaultForeign},
		"another key":        {altered(func(m *broker.Message) { m.Key = "account-x" }), relay.FaultDifferent},
	} {
		_, faults := verify(t, log, head, c.topic)
		if !slices.ContainsFunc(faults, func(f relay.Fault) bool { return f.Kind == c.kind }) {
			t.Errorf("%s: %v, want one that is %s", name, faults, c.kind)
		}
	}
}

// sound99 returns the position of the hundredth event.
func sound99(t *testing.T, topic []broker.Message) eventlog.Position {
	t.Helper()
	r := testmust.Get(broker.Recorded(topic[99]))(t)
	return r.Position
}

func TestVerify_BrokenChain_IsReported(t *testing.T) {
	log := openLog(t)
	account(t, log, "a", 3)
	_, err := log.Append(t.Context(), "account-a", eventlog.Exact(2), []eventlog.Proposed{{
		ID: uuid.New(), Type: "CreditsGranted", SchemaVersion: 1, OccurredAt: time.Now().UTC().Truncate(time.Microsecond), Data: []byte("{}"), Metadata: eventlog.Metadata{Hash: "00"},
	}})
	testmust.Succeed(t, err)
	if _, faults := verify(t, log, 0, nil); len(faults) != 1 || faults[0].Kind != relay.FaultChain || faults[0].Revision != 3 {
		t.Errorf("faults are %v, want a broken chain at revision 3", faults)
	}
}

// Events that are appended and copied while the topic is read are not faults.
func TestVerify_RelayRuns_NoFaults(t *testing.T) {
	log, to := openLog(t), newShelf()
	account(t, log, "a", 10)
	run(t, log, newTap(t), newPositions(t), relay.Config{Topics: relay.RecordTopics(to)})
	to.wait(t, broker.Ledger, 10)
	source := func(_ context.Context, do func(int, broker.Message) error) error {
		account(t, log, "late", 5)
		for _, m := range to.wait(t, broker.Ledger, 15) {
			if err := do(0, m); err != nil {
				return err
			}
		}
		return nil
	}
	found, err := relay.Verify(t.Context(), log, relay.LedgerStreams(), 0, source, func(f relay.Fault) { t.Errorf("%v", f) })
	if err != nil || found.Newer != 15 {
		t.Errorf("Verify = %+v, %v, want 15 newer events", found, err)
	}
	broken := errors.New("kafka is unavailable")
	_, err = relay.Verify(t.Context(), log, relay.LedgerStreams(), 0, func(context.Context, func(int, broker.Message) error) error { return broken }, nil)
	if !errors.Is(err, broken) {
		t.Errorf("Verify = %v, want the error of the source", err)
	}
}

// TestRecords_StoppedWhileMessagesGather_FollowAtNextStart stops a relay in the long pause after its first publish.
// Rule 6.
func TestRecords_StoppedWhileMessagesGather_FollowAtNextStart(t *testing.T) {
	log, positions, to := openLog(t), newPositions(t), newShelf()
	topics := relay.RecordTopics(to)
	for i := range topics {
		topics[i].Gather = time.Hour
	}
	request(t, log, brand.PriorityLive, "first.com")
	stop := run(t, log, to, positions, relay.Config{Topics: topics})
	to.wait(t, broker.Brands, 1)
	const more = 20
	request(t, log, brand.PriorityLive, domains("later", more)...)
	stop()
	if n := len(to.held(broker.Brands)); n != 1 {
		t.Errorf("%d messages were published during the pause, want none after the first", n)
	}
	run(t, log, to, positions, relay.Config{Topics: relay.RecordTopics(to)})
	if n := len(to.wait(t, broker.Brands, 1+more)); n != 1+more {
		t.Errorf("%d messages were published, want each of %d once", n, 1+more)
	}
}
