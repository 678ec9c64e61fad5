package main

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"letterhead/internal/eventlog"
	"letterhead/projections/engine"
	"letterhead/workers/backup"
)

// Positions of an event store are not counts, so they must only be shown as a percentage of the log.
func TestStages_PrintCountsRateAndTimeLeft(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out strings.Builder
		show := stages(&out, "backup")
		for _, p := range []backup.Progress{
			{Stage: backup.StageEvents, Done: 1000, Position: 5_000_000, Head: 25_000_000}, // 1,000 in an earlier run
			{Stage: backup.StageEvents, Done: 2000, Position: 10_000_000, Head: 25_000_000},
			{Stage: backup.StageEvents, Done: 6000, Position: 25_000_000, Head: 25_000_000},
			{Stage: backup.StageNames, Done: 10, Total: 40},
			{Stage: backup.StageNames, Done: 20, Total: 40},
			{Stage: backup.StageAssets, Done: 7},
			{Stage: backup.StageAssets, Done: 17},
		} {
			show(p)
			time.Sleep(2 * time.Second)
		}
		const want = `backup: events: 1000 events, 20 % of the log
backup: events: 2000 events, 40 % of the log, 500/s, about 6s left
backup: events: 6000 events, 100 % of the log, 1250/s
backup: names: 10 of 40 names
backup: names: 20 of 40 names, 5/s, about 4s left
backup: assets: 7 files
backup: assets: 17 files, 5/s
`
		if out.String() != want {
			t.Errorf("printed\n%s\nwant\n%s", out.String(), want)
		}
	})
}

func TestStages_WithinASecond_EndIsPrintedOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out strings.Builder
		show := stages(&out, "journal")
		for _, done := range []uint64{10, 20, 30, 30} {
			show(backup.Progress{Stage: backup.StageEvents, Done: done, Position: eventlog.Position(done) * 100, Head: 3000})
			time.Sleep(progressEvery / 10)
		}
		show(backup.Progress{Stage: backup.StageNames, Done: 1, Total: 2})
		show(backup.Progress{Stage: backup.StageNames, Done: 2, Total: 2})
		const want = `journal: events: 10 events, 33 % of the log
journal: events: 30 events, 100 % of the log, 100/s
journal: names: 1 of 2 names
journal: names: 2 of 2 names
`
		if out.String() != want {
			t.Errorf("printed\n%s\nwant\n%s", out.String(), want)
		}
	})
}

func TestProgress_OwnAndOthersFolding_PrintsKnownFigures(t *testing.T) {
	for what, c := range map[string]struct {
		shown []engine.Progress
		want  string
	}{
		"folded here": {
			[]engine.Progress{{Events: 100, Position: 1000, Target: 10_000}, {Events: 300, Position: 3000, Target: 10_000}},
			"rebuild: 300 events, 30 % of the log, 100/s, about 7s left\n",
		},
		"folded by another node": {
			[]engine.Progress{{Position: 0, Target: 10_000}, {Position: 2000, Target: 10_000}, {Position: 10_000, Target: 10_000}},
			"rebuild: 20 % of the log, about 8s left\nrebuild: 100 % of the log\n",
		},
	} {
		synctest.Test(t, func(t *testing.T) {
			var out strings.Builder
			show := progress(&out, "rebuild")
			for _, p := range c.shown {
				show(p)
				time.Sleep(2 * time.Second)
			}
			if out.String() != c.want {
				t.Errorf("%s: printed\n%s\nwant\n%s", what, out.String(), c.want)
			}
		})
	}
}
