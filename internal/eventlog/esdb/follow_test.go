package esdb

import (
	"math"
	"testing"
	"time"

	"github.com/EventStore/EventStore-Client-Go/v4/esdb"
	"github.com/google/uuid"

	"letterhead/internal/eventlog"
	"letterhead/internal/eventlog/esdb/esdbtest"
	"letterhead/internal/testmust"
)

// A checkpoint at the position of an event counts, one before an event means the previous event, which is
// looked up occasionally, and one past all events means nothing.
func TestCheckpoints_AdvancePosition(t *testing.T) {
	l := testmust.Get(Open(t.Context(), Config{ConnectionString: esdbtest.Start(t).ConnectionString()}))(t)
	defer l.Close()
	var at []uint64
	for n := range uint64(3) {
		appended := testmust.Get(l.Append(t.Context(), "s", eventlog.After(n), []eventlog.Proposed{{ID: uuid.New(), Type: "Happened", Data: []byte(`{}`)}}))(t)
		at = append(at, uint64(appended.Position))
	}
	m := testmust.Get(l.supervisor.acquire(t.Context()))(t)
	defer m.release()
	for name, c := range map[string]struct {
		position esdb.Position
		looked   time.Time // last look-up
		from     uint64
		want     uint64
	}{
		"an event":                        {esdb.Position{Commit: at[1], Prepare: at[1]}, time.Now(), 0, at[1]},
		"before an event, not yet":        {esdb.Position{Commit: at[2]}, time.Now(), at[0], at[0]},
		"before an event, at last":        {esdb.Position{Commit: at[2]}, time.Time{}, at[0], at[1]},
		"before the current one":          {esdb.Position{Commit: at[1]}, time.Time{}, at[1], at[1]},
		"before the position":             {esdb.Position{Commit: at[0], Prepare: at[0]}, time.Time{}, at[1], at[1]},
		"past everything, as servers did": {esdb.Position{Commit: math.MaxUint64, Prepare: math.MaxUint64}, time.Time{}, at[0], at[0]},
	} {
		f := &follower{log: l, member: m, at: eventlog.Position(c.from), exact: c.looked}
		if err := f.checkpoint(t.Context(), &c.position); err != nil || f.at != eventlog.Position(c.want) {
			t.Errorf("%s: at %d, %v, want %d of %v", name, f.at, err, c.want, at)
		}
	}
}
