package streamwriter_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"letterhead/commands/streamwriter"
	"letterhead/eventschemas"
	"letterhead/internal/eventlog"
	"letterhead/internal/eventlog/sqlite/sqlitetest"
	"letterhead/internal/testmust"
)

// pot is a minimal state: it allots logos until none is left. The engine needs no more from a use case. Package
// commands tests the engine under faults, with accounts.
type pot struct {
	Taken  int64
	Events uint64
	At     time.Time

	before potBefore
}

type potBefore struct {
	taken  int64
	events uint64
	at     time.Time
}

const potSize = 100

func (p *pot) Apply(ev eventschemas.Event, at time.Time) {
	p.Events, p.At = p.Events+1, at
	if a, ok := ev.(eventschemas.LogosAllotted); ok {
		p.Taken += a.Requests
	}
}

func (p *pot) Revisions() uint64                          { return p.Events }
func (p *pot) LastAt() time.Time                          { return p.At }
func (p *pot) Begin()                                     { p.before = potBefore{p.Taken, p.Events, p.At} }
func (p *pot) Commit()                                    {}
func (p *pot) Rollback()                                  { p.Taken, p.Events, p.At = p.before.taken, p.before.events, p.before.at }
func (p *pot) Remembered() int                            { return 1 }
func (p *pot) MarshalBinary() ([]byte, error)             { return json.Marshal(p) }
func (p *pot) UnmarshalBinary(data []byte) error          { return json.Unmarshal(data, p) }
func (p *pot) Reset()                                     { *p = pot{} }
func (p *pot) BeforeGroup(time.Time) []streamwriter.Event { return nil }
func (p *pot) AfterGroup() []streamwriter.Event           { return nil }
func (p *pot) Publish(bool)                               {}
func (p *pot) Withdraw()                                  {}
func (p *pot) Idle() bool                                 { return true }

var errEmpty = errors.New("the pot is empty")

// take is a command that takes n from the pot, or appends its event.
type take struct {
	n     int64
	event eventschemas.Event
}

func (c *take) Decide(p *pot, _ time.Time) (streamwriter.Decision, error) {
	switch {
	case c.event != nil:
		return streamwriter.Decision{Events: []eventschemas.Event{c.event}}, nil
	case p.Taken+c.n > potSize:
		return streamwriter.Decision{}, errEmpty
	}
	return streamwriter.Decision{Events: []eventschemas.Event{eventschemas.LogosAllotted{Requests: c.n}}}, nil
}

func (c *take) Applied(*pot)                                                 {}
func (c *take) Undone(*pot)                                                  {}
func (c *take) Finished(*streamwriter.Actor[*pot], error, eventlog.Position) {}
func (c *take) Compensation() *streamwriter.Compensation[*pot]               { return nil }

func pots(label string) streamwriter.Kind[*pot] {
	return streamwriter.Kind[*pot]{
		Label:       label,
		FoldVersion: 1,
		Encoder:     eventschemas.Encoder{},
		Decode:      eventschemas.Decode,
		EventID:     eventschemas.EventID,
		Open:        func(key string) (string, *pot, error) { return "pot-" + key, &pot{}, nil },
		Identify: func(ev eventschemas.Event, request streamwriter.Request) (string, string, error) {
			if _, ok := ev.(eventschemas.LogosAllotted); !ok {
				return "", "", fmt.Errorf("pots hold no %s", ev.EventType())
			}
			return request.ID, "", nil
		},
		Final:         func(error) bool { return false },
		NeedsOperator: func(error) bool { return false },
	}
}

func newActors(t *testing.T, log eventlog.Log) *streamwriter.Actors[*pot] {
	t.Helper()
	actors := testmust.Get(streamwriter.New(streamwriter.Config{}, pots("pot"), log, nil))(t)
	t.Cleanup(func() {
		if err := actors.Drain(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return actors
}

func request(n int) streamwriter.Request {
	return streamwriter.Request{ID: fmt.Sprint("r", n), Actor: "system:test"}
}

// taken folds the stream.
func taken(t *testing.T, log eventlog.Log) (sum int64) {
	t.Helper()
	recorded := testmust.Get(log.ReadStream(t.Context(), "pot-a", 0, eventlog.Forward, 4096))(t)
	for _, rec := range recorded {
		ev := testmust.Get(eventschemas.Decode(rec.Type, rec.SchemaVersion, rec.Data))(t)
		sum += ev.(eventschemas.LogosAllotted).Requests
	}
	return sum
}

func TestDo_ConcurrentCallersOfTwoNodes_TakeExactlyAll(t *testing.T) {
	log := sqlitetest.Open(t)
	nodes := []*streamwriter.Actors[*pot]{newActors(t, log), newActors(t, log)}
	var mu sync.Mutex
	var callers sync.WaitGroup
	served, rejected := 0, 0
	for i := range 2 * potSize {
		callers.Go(func() {
			err := nodes[i%2].Do(context.Background(), "a", request(i), &take{n: 1})
			mu.Lock()
			defer mu.Unlock()
			switch {
			case err == nil:
				served++
			case errors.Is(err, errEmpty):
				rejected++
			default:
				t.Errorf("caller %d: %v", i, err)
			}
		})
	}
	callers.Wait()
	if got := taken(t, log); got != potSize || served != potSize || rejected != potSize {
		t.Errorf("the stream has %d, %d were served, %d rejected, want %d each", got, served, rejected, potSize)
	}
}

func TestDo_EventWithoutIdentity_FailsOnlyItsCommand(t *testing.T) {
	log := sqlitetest.Open(t)
	actors := newActors(t, log)
	var callers sync.WaitGroup
	for i := range 50 {
		callers.Go(func() {
			c := &take{n: 1}
			if i%10 == 0 {
				c.event = eventschemas.AccountClosed{Reason: "not for pots"}
			}
			if err := actors.Do(context.Background(), "a", request(i), c); (err == nil) != (c.event == nil) {
				t.Errorf("caller %d: %v", i, err)
			}
		})
	}
	callers.Wait()
	if got := taken(t, log); got != 45 {
		t.Errorf("the stream has %d, want 45", got)
	}
}

func TestNew_WithoutEventLog_Fails(t *testing.T) {
	if _, err := streamwriter.New(streamwriter.Config{}, pots("pot"), nil, nil); err == nil {
		t.Error("no error without an event log")
	}
}
