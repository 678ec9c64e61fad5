package runs_test

import (
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/google/uuid"

	"letterhead/internal/eventlog"
	"letterhead/internal/runs"
	"letterhead/internal/sqlstore"
	"letterhead/internal/sqlstore/sqlstoretest"
	"letterhead/internal/testmust"
)

var noon = time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)

func after(seconds int) time.Time { return noon.Add(time.Duration(seconds) * time.Second) }

func TestRuns_RecordStartAndEnd(t *testing.T) {
	sqlstoretest.EachStore(t, func(t *testing.T, store *sqlstore.Store) {
		r, err := runs.New(t.Context(), store)
		testmust.Succeed(t, err)
		forgotten := runs.Run{ID: "0", Node: "n", Started: noon.AddDate(0, 0, -31), AnswerWithin: time.Minute}
		clean := runs.Run{ID: "1", Node: "n", Started: noon, AnswerWithin: time.Minute}
		killed := runs.Run{ID: "2", Node: "n", Started: after(20), AnswerWithin: time.Second}
		for _, err := range []error{
			r.Begin(t.Context(), forgotten),
			r.Begin(t.Context(), clean), r.Beat(t.Context(), "1", after(5), runs.Answered{UpTo: 7}),
			r.End(t.Context(), "1", after(7)),
			r.Begin(t.Context(), killed),
			r.Beat(t.Context(), "2", after(25), runs.Answered{UpTo: 40, Except: []string{"r1", "r2"}}),
		} {
			testmust.Succeed(t, err)
		}
		clean.Alive, clean.Ended, killed.Alive = after(7), after(7), after(25)
		clean.Answered = &runs.Answered{UpTo: 7, Except: []string{}}
		killed.Answered = &runs.Answered{UpTo: 40, Except: []string{"r1", "r2"}}
		again, err := runs.New(t.Context(), store) // another node
		testmust.Succeed(t, err)
		got, err := again.All(t.Context())
		if want := []runs.Run{clean, killed}; err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%+v, %v\nwant %+v", got, err, want)
		}
		want := []runs.UncertainPeriod{{Run: killed, From: after(24), Until: after(85)}}
		if !reflect.DeepEqual(runs.UncertainNodes(got, time.Minute, after(100)), want) {
			t.Errorf("UncertainNodes = %+v\nwant %+v", runs.UncertainNodes(got, time.Minute, after(100)), want)
		}
		// When the events get other positions, the run counts as one of an earlier release.
		err = store.Setup(t.Context(), func(tx *sqlstore.Tx) error {
			_, err := tx.ExecContext(t.Context(), runs.Forget)
			return err
		})
		testmust.Succeed(t, err)
		if got, err = r.All(t.Context()); err != nil || len(got) != 2 || got[0].Answered != nil ||
			got[1].Answered != nil {
			t.Errorf("after Forget: %+v, %v", got, err)
		}
	})
}

// A release before the positions of answers made the table, and its processes still write it.
func TestRuns_TableOfEarlierRelease_GetsColumns(t *testing.T) {
	sqlstoretest.EachStore(t, func(t *testing.T, store *sqlstore.Store) {
		exec := func(query string, args ...any) {
			t.Helper()
			err := store.Setup(t.Context(), func(tx *sqlstore.Tx) error {
				_, err := tx.ExecContext(t.Context(), query, args...)
				return err
			})
			testmust.Succeed(t, err)
		}
		exec(`CREATE TABLE runs (id TEXT NOT NULL PRIMARY KEY, node TEXT NOT NULL, started BIGINT NOT NULL,
			alive BIGINT NOT NULL, ended BIGINT NOT NULL, answer_within BIGINT NOT NULL)`)
		r, err := runs.New(t.Context(), store)
		if err == nil {
			_, err = runs.New(t.Context(), store) // again
		}
		testmust.Succeed(t, err)
		exec(`INSERT INTO runs (id, node, started, alive, ended, answer_within)
			VALUES ('old', 'n', $1, $1, 0, 1000000)`, noon.UnixMicro())
		exec(`UPDATE runs SET alive = $2 WHERE id = $1`, "old", after(5).UnixMicro())
		current := runs.Run{ID: "new", Node: "m", Started: after(1), AnswerWithin: time.Second}
		testmust.Succeed(t, r.Begin(t.Context(), current))
		all, err := r.All(t.Context())
		if err != nil || len(all) != 2 || all[0].Answered != nil || all[1].Answered == nil {
			t.Fatalf("All = %+v, %v", all, err)
		}
		periods := runs.UncertainNodes(all, time.Minute, after(1000))
		for _, p := range periods {
			if !p.Covers(p.Run.Alive, 1, "r") {
				t.Errorf("a charge of run %s that was not answered is not covered", p.Run.ID)
			}
		}
	})
}

func TestUncertainPeriod_AnsweredCharges_AreNotCovered(t *testing.T) {
	r := run("1", "n", 0, 100)
	r.Answered = &runs.Answered{UpTo: 50, Except: []string{"slow"}}
	p := runs.UncertainSingleNode([]runs.Run{r}, "", after(110))[0]
	for _, c := range []struct {
		at       time.Time
		position eventlog.Position
		request  string
		covered  bool
	}{
		{after(99), 50, "quick", false}, {after(99), 51, "quick", true}, {after(99), 40, "slow", true},
		{after(39), 51, "quick", false}, {after(111), 51, "quick", false},
	} {
		if got := p.Covers(c.at, c.position, c.request); got != c.covered {
			t.Errorf("Covers(%s, %d, %s) = %t, want %t", c.at, c.position, c.request, got, c.covered)
		}
	}
}

// A request's id shows which run created it.
func TestByRequest_ReturnsRunOfRequest(t *testing.T) {
	a, b := runs.Run{ID: uuid.NewString()}, runs.Run{ID: uuid.NewString()}
	runOf := runs.ByRequest([]runs.Run{a, b})
	seen := map[string]bool{}
	for range 100 {
		for _, run := range []runs.Run{a, b} {
			id := runs.RequestID(run.ID)
			if parsed, err := uuid.Parse(id); err != nil || parsed.Version() != 4 || seen[id] || runOf(id) != run.ID {
				t.Fatalf("request %s of run %s (%v) is attributed to %q", id, run.ID, err, runOf(id))
			}
			seen[id] = true
		}
	}
	for _, other := range []string{"", "r", runs.RequestID("00000000"), uuid.NewString()} {
		if got := runOf(other); got != "" {
			t.Errorf("request %q of no run is attributed to %s", other, got)
		}
	}
}

func run(id, node string, started, alive int) runs.Run {
	return runs.Run{ID: id, Node: node, Started: after(started), Alive: after(alive), AnswerWithin: 60 * time.Second}
}

func ended(r runs.Run, at int) runs.Run {
	r.Alive, r.Ended = after(at), after(at)
	return r
}

func TestUncertainSingleNode_NoCleanEnd_LastsUntilNextRun(t *testing.T) {
	all := []runs.Run{ended(run("1", "n", 0, 0), 10), run("2", "n", 20, 200), run("3", "n", 300, 310), ended(run("4", "n", 320, 0), 400), run("5", "n", 500, 505)}
	first, second := runs.UncertainPeriod{Run: all[1], From: after(140), Until: after(300)}, runs.UncertainPeriod{Run: all[2], From: after(300), Until: after(320)}
	if got, want := runs.UncertainSingleNode(all, "5", after(510)), []runs.UncertainPeriod{first, second}; !slices.Equal(got, want) {
		t.Errorf("while run 5 serves: %+v\nwant %+v", got, want)
	}
	last := runs.UncertainPeriod{Run: all[4], From: after(500), Until: after(510)}
	if got, want := runs.UncertainSingleNode(all, "", after(510)), []runs.UncertainPeriod{first, second, last}; !slices.Equal(got, want) {
		t.Errorf("while nothing serves: %+v\nwant %+v", got, want)
	}
	if first.Covers(after(139), 1, "r") || !first.Covers(after(140), 1, "r") || !first.Covers(after(300), 1, "r") ||
		first.Covers(after(301), 1, "r") {
		t.Error("Covers does not match From and Until")
	}
}

func TestUncertainNodes_SilentNode_LastsUntilGone(t *testing.T) {
	all := []runs.Run{run("1", "a", 0, 100), ended(run("2", "b", 1, 0), 90), run("3", "c", 2, 300), run("4", "a", 110, 300), run("5", "d", 120, 200)}
	want := []runs.UncertainPeriod{
		{Run: all[4], From: after(140), Until: after(230)}, // its node never started again
		{Run: all[0], From: after(40), Until: after(110)},
	}
	if got := runs.UncertainNodes(all, 30*time.Second, after(310)); !slices.Equal(got, want) {
		t.Errorf("UncertainNodes = %+v\nwant %+v", got, want)
	}
}
