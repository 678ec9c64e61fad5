package engine

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"

	"letterhead/internal/delay"
	"letterhead/internal/eventlog"
	"letterhead/internal/sqlstore"
	"letterhead/projections"
)

const (
	// scrubEvents limits the events of one step of a scrub. It is less than folds take for a replay, so that they keep
	// few rows in memory.
	scrubEvents = 400
	// scrubRows limits the rows of one table that a step compares.
	scrubRows = 500
	// scrubLeast is the least work that a pass counts as, so that passes over small tables do not follow each other
	// without a pause: at one percent of a core, one pass begins about every ten seconds.
	scrubLeast = 100 * time.Millisecond
	// scrubWait is the interval at which a scrub that pauses looks whether it may continue.
	scrubWait = time.Second
	// repairTries limits the attempts to write a repair while the database is unavailable. With the default pauses they
	// take about 8 seconds, longer than a short failover.
	repairTries = 10
	// scrubStrict is the age of the last pass from which a process begins with a Strict read model.
	scrubStrict = 24 * time.Hour
	// MaxScrubPercent leaves the read models half of a core.
	MaxScrubPercent = 50
)

var (
	// ErrNotFolding: another node folds the read models, or none yet, or the read model is quarantined.
	ErrNotFolding = errors.New("this node does not fold the read model now")
	// errWithheld: a row of a Strict read model differs from the log and could not be repaired.
	errWithheld = fmt.Errorf("%w: rows differ from the event log and could not be repaired", projections.ErrNotReady)
)

// Scrub compares the live tables of one read model after the other with a fold of the log, on the node that folds,
// until ctx ends; then it returns nil. A pass folds the log into scratch tables, as Verify does, and compares every
// column of every row. Rows that differ are replaced by rows of the scratch tables, and caches on every node are
// emptied.
//
// Each step takes a few milliseconds. After a step Scrub pauses so long that it works percent of the time, at most
// MaxScrubPercent, and also while tables are built for a rebuild or an upgrade, or a read model is quarantined. While a
// read model is not read until its rows are repaired, passes work MaxScrubPercent of the time.
func (r *Runner) Scrub(ctx context.Context, percent int) error {
	percent = min(max(percent, 1), MaxScrubPercent)
	pace := func(ctx context.Context, worked time.Duration) error {
		return r.awaitQuiet(ctx, r.scrubPause(worked, percent))
	}
	tried := make(map[*model]time.Time)
	failing := make(map[*model]bool)
	var m *model
	for r.awaitQuiet(ctx, pauseAfter(scrubLeast, percent)) == nil {
		var err error
		if m, err = r.nextToScrub(ctx, tried, m); err == nil {
			tried[m] = r.cfg.Now()
			err = r.scrub(ctx, m, pace)
		}
		r.logPass(ctx, failing, m, err)
	}
	return nil
}

// logPass logs when the passes over a read model begin to fail, and when one succeeds again. The model is nil if none
// could be chosen.
func (r *Runner) logPass(ctx context.Context, failing map[*model]bool, m *model, err error) {
	switch {
	case ctx.Err() != nil, errors.Is(err, ErrNotFolding), errors.Is(err, errDeposed), errors.Is(err, errReplaced):
	case err != nil && !failing[m]:
		failing[m] = true
		r.cfg.Logger.WarnContext(ctx, "read models could not be compared with the event log; will retry",
			slog.Any("error", err))
	case err == nil && (failing[m] || failing[nil]):
		delete(failing, m)
		delete(failing, nil)
		r.cfg.Logger.InfoContext(ctx, "read model can be compared with the event log again",
			slog.String("projection", m.name))
	}
}

// ScrubOnce is one pass of Scrub over each of the named read models (all without names), without pauses. Errors:
// ErrNotFolding, ErrUnknown, ErrNotStarted, ErrNoSpace, sqlstore.ErrUnavailable, the errors of the log and of the
// folds, ctx.Err().
func (r *Runner) ScrubOnce(ctx context.Context, names ...string) error {
	models, err := r.choose(names)
	if err != nil {
		return err
	}
	for _, m := range models {
		if err := r.scrub(ctx, m, func(context.Context, time.Duration) error { return nil }); err != nil {
			return err
		}
	}
	return nil
}

// pauseAfter returns the pause after work of which the share of the time is percent.
func pauseAfter(worked time.Duration, percent int) time.Duration {
	return worked * time.Duration(100-percent) / time.Duration(percent)
}

// scrubPause returns the pause after a step of a pass.
func (r *Runner) scrubPause(worked time.Duration, percent int) time.Duration {
	if len(r.unread()) > 0 {
		percent = MaxScrubPercent
	}
	return pauseAfter(worked, percent)
}

// unread returns the read models that are not read until their rows are repaired.
func (r *Runner) unread() []*model {
	return slices.DeleteFunc(slices.Clone(r.models), func(m *model) bool { return m.readError() == nil })
}

// awaitQuiet pauses, and then waits until quiet.
func (r *Runner) awaitQuiet(ctx context.Context, pause time.Duration) error {
	for {
		if err := delay.For(ctx, pause); err != nil {
			return err
		}
		if ok, err := r.quiet(ctx); ok || err != nil {
			return err
		}
		pause = scrubWait
	}
}

// quiet reports whether no tables are built on this node, and no read model is quarantined.
func (r *Runner) quiet(ctx context.Context) (bool, error) {
	if err := r.step.lock(ctx); err != nil {
		return false, err
	}
	defer r.step.Unlock()
	busy := func(m *model) bool {
		m.mu.Lock()
		defer m.mu.Unlock()
		return m.building != nil || m.busy || m.failure != nil || m.next != nil && !slices.Contains(r.inLive, m.next)
	}
	return !slices.ContainsFunc(r.models, busy), nil
}

// nextToScrub returns the read model whose last pass, or attempt of this process, is the longest ago. Those that are
// not read until their rows are repaired come first, unless the one tried before is one of them. A process begins with
// the Strict ones that were not compared for scrubStrict.
func (r *Runner) nextToScrub(ctx context.Context, tried map[*model]time.Time, before *model) (*model, error) {
	if r.shared && !r.leads.Load() {
		return nil, ErrNotFolding
	}
	records, err := readGenerations(ctx, r.store.Read())
	if err != nil {
		return nil, sqlstore.Classify(err)
	}
	last := func(m *model) time.Time {
		finished := scrubbedOf(records, m.name).Finished
		if finished.Before(tried[m]) || m.current().Strict && r.cfg.Now().Sub(finished) >= scrubStrict {
			return tried[m]
		}
		return finished
	}
	models := r.unread()
	if len(models) == 0 || before != nil && before.readError() != nil {
		models = r.models
	}
	return slices.MinFunc(models, func(a, b *model) int { return last(a).Compare(last(b)) }), nil
}

// scrub is a pass over one read model. pace is called after each step with the time that it took.
func (r *Runner) scrub(ctx context.Context, m *model,
	pace func(ctx context.Context, worked time.Duration) error) error {
	s := &scrub{verifier: &verifier{r: r, results: make(map[string]*projections.Verification)}, m: m, pace: pace}
	defer s.end(ctx)
	return sqlstore.Wrap(s.run(ctx), "scrub %s", m.name)
}

// scrub is a pass over one read model.
type scrub struct {
	*verifier
	m      *model
	live   *generation
	folded *generation // its scratch tables
	pace   func(ctx context.Context, worked time.Duration) error
	again  bool // a table is compared again, after a repair

	rows, differences int64 // compared, and found to differ
}

func (s *scrub) run(ctx context.Context) error {
	if err := s.step(ctx, func() error { return s.begin(ctx) }); err != nil {
		return err
	}
	for _, table := range s.live.version.Tables {
		clean, err := s.compareTable(ctx, table)
		if err == nil && !clean {
			// A missing row of which a wrong one had a unique value could not be inserted before that one was deleted.
			s.again = true
			_, err = s.compareTable(ctx, table)
			s.again = false
		}
		if err != nil {
			return fmt.Errorf("table %s: %w", table.Name, err)
		}
	}
	if err := s.step(ctx, func() error { return s.finish(ctx) }); err != nil {
		return fmt.Errorf("finish: %w", err)
	}
	s.r.cfg.Logger.DebugContext(ctx, "read model was compared with the event log", slog.String("projection", s.m.name),
		slog.Uint64("position", uint64(s.folded.position())),
		slog.Int64("rows", s.rows), slog.Int64("differences", s.differences))
	return nil
}

// compareTable reports whether all rows were right.
func (s *scrub) compareTable(ctx context.Context, table projections.Table) (clean bool, err error) {
	clean = true
	for more, after := true, []any(nil); more; {
		if err := s.approach(ctx); err != nil {
			return false, err
		}
		err := s.step(ctx, func() error {
			f, err := s.slice(ctx, table, after)
			after, more, clean = f.upTo, f.more, clean && f.count == 0
			if !s.again {
				s.rows += f.rows
				s.differences += f.count
			}
			return err
		})
		if err != nil {
			return false, err
		}
	}
	return clean, nil
}

func (s *scrub) step(ctx context.Context, do func() error) error {
	began := time.Now()
	if err := do(); err != nil {
		return err
	}
	return s.pace(ctx, time.Since(began))
}

// begin chooses the live tables and creates empty scratch tables for them.
func (s *scrub) begin(ctx context.Context) error {
	if err := s.r.step.lock(ctx); err != nil {
		return err
	}
	s.live = s.m.liveGeneration()
	ours := s.live != nil && slices.Contains(s.r.inLive, s.live)
	s.r.step.Unlock()
	if !ours {
		return ErrNotFolding
	}
	parent, err := s.openScratch(ctx)
	if err != nil {
		return err
	}
	if s.file != nil {
		s.space = freeSpace{parent, s.r.space}
	}
	if err := s.verifier.begin(ctx, []*model{s.m}); err != nil {
		return err
	}
	if len(s.scratch) != 1 || s.scratch[0].version != s.live.version {
		return errReplaced
	}
	s.folded = s.scratch[0]
	s.r.scrubbing.Store(s.folded)
	return nil
}

func (s *scrub) end(ctx context.Context) {
	s.cleanUp(ctx)
	s.r.scrubbing.Store(nil)
}

// approach folds until a step finds few events between the scratch tables and the live ones.
func (s *scrub) approach(ctx context.Context) error {
	for few := false; !few; {
		if s.folded.position() >= s.live.position() {
			return nil
		}
		err := s.step(ctx, func() (err error) {
			few, err = s.fold(ctx, s.live.position())
			return err
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// fold folds the next events up to a position. It reports whether it got there.
func (s *scrub) fold(ctx context.Context, upTo eventlog.Position) (reached bool, err error) {
	p, err := s.r.readPage(ctx, s.folded.position(), upTo,
		eventlog.Filter{StreamPrefixes: s.folded.version.Streams}, scrubEvents)
	if err != nil {
		return false, err
	}
	b := s.r.decodePage(p)
	if err := s.space.check(int64(b.bytes) * writeAmplification); err != nil {
		return false, err
	}
	failed, err := s.folder.foldAndWrite(ctx, []*generation{s.folded}, b)
	if err == nil && failed != nil {
		err = fmt.Errorf("replay: %w", failed[s.folded])
	}
	return b.upTo >= upTo, err
}

func (s *scrub) foldTo(ctx context.Context, upTo eventlog.Position) error {
	for s.folded.position() < upTo {
		if _, err := s.fold(ctx, upTo); err != nil {
			return err
		}
	}
	return nil
}

// slice compares the rows of a table after a key, and repairs those that differ. It compares one state of the live
// tables with the scratch tables at exactly the same position, so that rows that change meanwhile are no differences.
func (s *scrub) slice(ctx context.Context, table projections.Table, after []any) (f compared, err error) {
	moment, err := s.r.store.Snapshot(ctx)
	if err != nil {
		return f, err
	}
	defer moment.Rollback() // nothing was written
	records, err := readGenerations(ctx, moment)
	if err != nil {
		return f, sqlstore.Classify(err)
	}
	live := find(records, s.m.name, stateLive)
	switch {
	case live == nil || live.generation != s.live.number || live.position < s.folded.position():
		return f, errReplaced
	case live.failure != "":
		return f, ErrNotFolding
	}
	if err := s.foldTo(ctx, live.position); err != nil {
		return f, err
	}
	f, err = s.compareRows(ctx, moment, table, after)
	if err != nil || f.count == 0 {
		return f, sqlstore.Classify(err)
	}
	if err := moment.Rollback(); err != nil {
		return f, err
	}
	return s.repair(ctx, table, after)
}

// compared is the result of comparing a slice of a table.
type compared struct {
	upTo    []any // key of the last row compared
	more    bool
	rows    int64
	columns []string
	wrong   [][]any // keys of live rows that the log does not know, or knows differently
	right   [][]any // rows that are missing or wrong in the live table
	first   string  // the first difference, without values
	count   int64   // of rows
}

func (f *compared) differs(table projections.Table, row []any, how string) {
	if f.count++; f.count == 1 {
		f.first = fmt.Sprintf("%s %s", showKey(table.Key, f.columns, row), how)
	}
}

// compareRows compares at most scrubRows rows of each table.
func (s *scrub) compareRows(ctx context.Context, q projections.Queryer, table projections.Table,
	after []any) (f compared, err error) {
	a := &walk{q: q, name: s.live.tables.Name(table.Name), key: table.Key, last: after, limit: scrubRows}
	b := &walk{q: s.folder.store.Read(), name: s.folded.tables.Name(table.Name), key: table.Key,
		last: after, limit: scrubRows}
	if err := errors.Join(a.read(ctx), b.read(ctx)); err != nil {
		return f, err
	}
	f.columns, f.more = a.columns, !a.ended || !b.ended
	for live, right := a.coming, b.coming; ; f.rows++ {
		// Beyond the end of a slice that is not the table's end, nothing is known about the other's rows.
		if len(live) == 0 && (len(right) == 0 || !a.ended) || len(right) == 0 && !b.ended {
			return f, nil
		}
		var l, r []any
		if len(live) > 0 {
			l = live[0]
		}
		if len(right) > 0 {
			r = right[0]
		}
		switch order := compareKeys(table.Key, f.columns, l, r); {
		case order < 0:
			f.differs(table, l, "is not in the event log")
			f.wrong, f.upTo, live = append(f.wrong, keyOf(table.Key, f.columns, l)),
				keyOf(table.Key, f.columns, l), live[1:]
		case order > 0:
			f.differs(table, r, "is missing")
			f.right, f.upTo, right = append(f.right, r), keyOf(table.Key, f.columns, r), right[1:]
		default:
			f.upTo, live, right = keyOf(table.Key, f.columns, r), live[1:], right[1:]
			if d := compareRow(table, f.columns, l, r); d != nil {
				f.differs(table, l, "has another "+d.Column)
				f.wrong, f.right = append(f.wrong, f.upTo), append(f.right, r)
			}
		}
	}
}

// repair compares a slice again while the live loop is paused, and replaces the live rows that differ, in a transaction
// that fails if another node has moved the live tables.
func (s *scrub) repair(ctx context.Context, table projections.Table, after []any) (f compared, err error) {
	r := s.r
	if err := r.step.lock(ctx); err != nil {
		return f, err
	}
	defer r.step.Unlock()
	if !slices.Contains(r.inLive, s.live) {
		return f, ErrNotFolding
	}
	if err := s.foldTo(ctx, s.live.position()); err != nil {
		return f, err
	}
	f, err = s.compareRows(ctx, r.store.Read(), table, after)
	if err != nil || f.count == 0 {
		return f, sqlstore.Classify(err)
	}
	pause := r.cfg.faultBackoff()
	for try := 1; ; try++ {
		err = r.store.Write(ctx, func(tx *sqlstore.Tx) error { return s.replace(r.within(ctx), tx, table, &f) })
		if try == repairTries || !errors.Is(err, sqlstore.ErrUnavailable) || errors.Is(err, sqlstore.ErrFull) ||
			delay.For(ctx, pause.pause()) != nil {
			break
		}
	}
	if errors.Is(err, errDeposed) || ctx.Err() != nil {
		return f, errors.Join(err, ctx.Err())
	}
	r.metrics.scrubDiffers.WithLabelValues(s.m.name).Add(float64(f.count))
	r.cfg.Logger.ErrorContext(ctx, "rows of a read model differ from the event log",
		slog.String("projection", s.m.name),
		slog.String("table", table.Name), slog.Int64("rows", f.count), slog.String("first", f.first),
		slog.Uint64("position", uint64(s.live.position())), slog.Bool("repaired", err == nil))
	if err == nil {
		s.live.fold.Reset()
		s.live.publish()
		return f, nil
	}
	return f, errors.Join(fmt.Errorf("repair: %w", err), s.withhold(ctx))
}

// replace is the transaction of repair.
func (s *scrub) replace(ctx context.Context, tx *sqlstore.Tx, table projections.Table, f *compared) error {
	if err := setFailure(ctx, tx, s.live, ""); err != nil { // which it is; fails if another node has moved the tables
		return err
	}
	name := s.live.tables.Name(table.Name)
	if len(f.wrong) > 0 {
		keys := slices.Concat(f.wrong...)
		query := "DELETE FROM " + name + " WHERE (" + strings.Join(table.Key, ", ") + ") IN " +
			sqlstore.InValues(len(table.Key), keys)
		if _, err := tx.ExecContext(ctx, query, keys...); err != nil {
			return err
		}
	}
	values := slices.Concat(f.right...)
	for i, v := range values {
		if b, ok := v.([]byte); ok && b == nil { // which would be written as NULL
			values[i] = []byte{}
		}
	}
	into := name + " (" + strings.Join(f.columns, ", ") + ")"
	if err := sqlstore.Insert(ctx, tx, into, len(f.columns), "ON CONFLICT DO NOTHING", values); err != nil {
		return err
	}
	if swapper, ok := s.m.p.(projections.Swapper); ok {
		if err := swapper.Swap(ctx, tx, s.live.tables); err != nil {
			return err
		}
	}
	return s.note(ctx, tx, func(now *Scrubbed) {
		now.Repaired, now.RepairedAt = now.Repaired+f.count, s.r.cfg.Now().UTC()
	})
}

// finish records the end of the pass. A read model that was withheld is read again, because all its rows are right.
func (s *scrub) finish(ctx context.Context) (err error) {
	m := s.m
	if err := s.r.step.lock(ctx); err != nil {
		return err
	}
	defer s.r.step.Unlock()
	if !slices.Contains(s.r.inLive, s.live) {
		return ErrNotFolding
	}
	withheld := m.withheld
	m.withheld = 0
	err = s.record(ctx, func(now *Scrubbed) {
		now.Finished, now.Rows, now.Differences, now.withheld = s.r.cfg.Now().UTC(), s.rows, s.differences, 0
	})
	switch {
	case err != nil:
		m.withheld = withheld
	case withheld == s.live.number:
		s.live.publish()
	}
	return err
}

// withhold is called when rows could not be repaired. The tables of a Strict read model are no longer read: here at
// once, and if that can be recorded, also by other nodes and after a restart. The caller holds step.
func (s *scrub) withhold(ctx context.Context) error {
	if !s.live.version.Strict {
		return nil
	}
	s.m.withheld = s.live.number
	s.live.publish()
	return s.record(ctx, func(now *Scrubbed) { now.withheld = s.live.number })
}

// stateScrub is the state of the rows of projections.ScrubPrefix. Their position counts the rows repaired, so that
// other nodes notice a repair. Their failure is a Scrubbed as JSON.
const stateScrub = "scrub"

// Scrubbed is the result of the scrubs of a read model.
type Scrubbed struct {
	// Finished is the end of the last complete pass, zero before the first.
	Finished time.Time `json:"finished_at,omitzero"`
	// Rows is the number of rows compared in that pass, and Differences how many of them differed from the log.
	Rows        int64 `json:"rows"`
	Differences int64 `json:"differences"`
	// Repaired is the number of rows ever repaired, and RepairedAt the time of the last repair.
	Repaired   int64     `json:"repaired"`
	RepairedAt time.Time `json:"repaired_at,omitzero"`

	withheld int // the generation that no node reads, or 0
}

// scrubbedOf returns the result of the scrubs of a read model, empty if there was none.
func scrubbedOf(records []record, name string) (s Scrubbed) {
	for _, e := range records {
		if e.state == stateScrub && e.name == projections.ScrubPrefix+name {
			_ = json.Unmarshal([]byte(e.failure), &s) // an unreadable text is as good as none
			s.Repaired, s.withheld = int64(e.position), e.version
		}
	}
	return s
}

// Scrubs returns a clause for operators about the scrubs of all read models.
func Scrubs(models []Status) string {
	var oldest, repaired time.Time
	var rows int64
	for i, m := range models {
		s := cmp.Or(m.Scrub, &Scrubbed{})
		if i == 0 || s.Finished.Before(oldest) {
			oldest = s.Finished
		}
		if rows += s.Repaired; s.RepairedAt.After(repaired) {
			repaired = s.RepairedAt
		}
	}
	text := "not all compared with the event log yet"
	if !oldest.IsZero() {
		text = "each compared with the event log since " + oldest.Format(time.RFC3339)
	}
	if rows == 0 {
		return text + ", no row ever differed"
	}
	return fmt.Sprintf("%s, %d rows differed and were repaired, the last at %s",
		text, rows, repaired.Format(time.RFC3339))
}

// record changes the result, in a transaction that fails with errDeposed if another node has moved the live tables.
func (s *scrub) record(ctx context.Context, change func(*Scrubbed)) error {
	return s.r.store.Write(ctx, func(tx *sqlstore.Tx) error {
		if err := setFailure(ctx, tx, s.live, ""); err != nil { // which it is
			return err
		}
		return s.note(ctx, tx, change)
	})
}

// note is record as part of a transaction.
func (s *scrub) note(ctx context.Context, tx *sqlstore.Tx, change func(*Scrubbed)) error {
	records, err := readGenerations(ctx, tx)
	if err != nil {
		return err
	}
	now := scrubbedOf(records, s.m.name)
	change(&now)
	text, err := json.Marshal(now)
	if err != nil {
		return err
	}
	err = insertRecord(ctx, tx, record{name: projections.ScrubPrefix + s.m.name, version: now.withheld, state: stateScrub,
		position: eventlog.Position(now.Repaired), failure: string(text)}, replaceRecord)
	return sqlstore.Wrap(err, "record a scrub of %s", s.m.name)
}
