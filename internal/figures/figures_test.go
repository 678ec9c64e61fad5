package figures_test

import (
	"maps"
	"testing"
	"time"

	"letterhead/internal/figures"
	"letterhead/internal/sqlstore"
	"letterhead/internal/sqlstore/sqlstoretest"
	"letterhead/internal/testmust"
)

// Any process reads the sum of the figures of the processes that run, and none of those that have ended.
func TestSum_CountsProcessesThatRun(t *testing.T) {
	sqlstoretest.EachStore(t, func(t *testing.T, store *sqlstore.Store) {
		now := time.Date(2026, 11, 29, 12, 0, 0, 0, time.UTC)
		open := func() *figures.Table {
			return testmust.Get(figures.New(t.Context(), store, func() time.Time { return now }))(t)
		}
		a, b := open(), open()
		noted := func(in *figures.Table, process string, ended, errors int64) {
			t.Helper()
			testmust.Succeed(t, in.Note(t.Context(), process, figures.Figures{"crawls ended": ended, "errors " + process: errors}))
		}
		check := func(processes int, want figures.Figures) {
			t.Helper()
			sum, n, err := b.Sum(t.Context())
			if err != nil || n != processes || !maps.Equal(sum, want) {
				t.Errorf("%v of %d processes, %v; want %v of %d", sum, n, err, want, processes)
			}
		}
		check(0, figures.Figures{})
		noted(a, "one", 1, 7)
		noted(a, "one", 3, 7) // replaces the figures before
		noted(b, "two", 4, 0)
		check(2, figures.Figures{"crawls ended": 7, "errors one": 7, "errors two": 0})
		now = now.Add(3 * figures.Every)
		noted(b, "two", 5, 0)
		check(2, figures.Figures{"crawls ended": 8, "errors one": 7, "errors two": 0})
		now = now.Add(time.Microsecond)
		check(1, figures.Figures{"crawls ended": 5, "errors two": 0})
	})
}
