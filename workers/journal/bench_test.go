package journal

import (
	"cmp"
	"io"
	"os"
	"strconv"
	"testing"
	"time"

	"letterhead/domain/books"
	"letterhead/eventschemas"
	"letterhead/internal/eventlog/sqlite"
	"letterhead/internal/testmust"
	"letterhead/workers/generate"
)

// history returns a log with the generated events of 1,000 accounts over 18 months: LETTERHEAD_BENCH_EVENTS of them.
func history(b *testing.B) (log *sqlite.Log, events int) {
	b.Helper()
	events, err := strconv.Atoi(cmp.Or(os.Getenv("LETTERHEAD_BENCH_EVENTS"), "100000"))
	testmust.Succeed(b, err)
	w := newWorld(b)
	o := generate.Defaults()
	o.Accounts, o.Events = 1000, events
	testmust.Succeed(b, testmust.Err(generate.History(b.Context(), w.log, o, func(int) {})))
	return w.log, events
}

func BenchmarkWrite(b *testing.B) {
	log, events := history(b)
	for _, format := range Formats() {
		b.Run(string(format), func(b *testing.B) {
			for b.Loop() {
				testmust.Succeed(b, Write(b.Context(), log, Options{Format: format, Chart: DefaultChart()}, io.Discard))
			}
			b.ReportMetric(float64(events*b.N)/b.Elapsed().Seconds(), "events/s")
		})
	}
}

// BenchmarkClosing derives the closing of the last month, without the verification of the accounts.
func BenchmarkClosing(b *testing.B) {
	log, events := history(b)
	last := generate.Defaults().Until.AddDate(0, -1, 0)
	for b.Loop() {
		r, err := newReader(b.Context(), log, "", nil)
		if err == nil {
			err = r.periods.Apply(eventschemas.PeriodEnded{Month: last.Format(books.MonthLayout)}, uint64(r.head), time.Now())
		}
		if err == nil {
			d := newDerivation(r, last)
			err = d.run(b.Context(), d.add)
		}
		testmust.Succeed(b, err)
	}
	b.ReportMetric(float64(events*b.N)/b.Elapsed().Seconds(), "events/s")
}
