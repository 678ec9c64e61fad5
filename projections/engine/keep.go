package engine

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"letterhead/internal/sqlstore"
	"letterhead/projections"
)

// Errors of Keep, Compare, Switch and Discard.
var (
	// ErrNotKept: no rebuilt tables are kept, or they are of another version than the live ones.
	ErrNotKept = errors.New("no rebuilt tables are kept")
	// ErrKept: complete rebuilt tables are kept already.
	ErrKept = errors.New("rebuilt tables are kept already")
	// ErrLiveTables: the live tables cannot be read, though the database is available.
	ErrLiveTables = errors.New("the live tables cannot be read")
	// ErrKeeping: another command works on the kept tables.
	ErrKeeping = errors.New("another command works on the rebuilt tables")
)

// shownDifferences limits the rows of a table that a Comparison shows.
const shownDifferences = 5

// Keep fills new tables of the named read models (of all without names) beside the live ones, and leaves them there until
// Switch makes them live or Discard drops them. The live tables are folded and read as before. Tables that an interrupted
// Keep left are continued; those that are complete already are an error.
//
// This process folds them, also on a shared database. If a fold fails, Keep drops the new tables of that read model, and
// completes the others. It returns the names of those that are complete, also with an error. In a SQLite file it starts
// only if there is space for them, and drops them before they use the reserve. Errors: ErrNotStarted, ErrUnknown,
// ErrBuilding, ErrKeeping, ErrKept, ErrNoSpace, projections.ErrNotReady, sqlstore.ErrUnavailable, those of the log and of
// the folds, ctx.Err().
func (r *Runner) Keep(ctx context.Context, names []string, progress func(Progress)) (complete []string, err error) {
	k, models, err := r.keeper(names)
	if err != nil {
		return nil, err
	}
	defer r.keeping.Unlock()
	err = k.fill(ctx, models, progress)
	if errors.Is(err, sqlstore.ErrFull) {
		err = fmt.Errorf("%w: %w", ErrNoSpace, err)
	}
	var errs []error
	if err != nil {
		errs = append(errs, fmt.Errorf("rebuild: %w", kept(err)))
	}
	if errors.Is(err, ErrNoSpace) {
		for _, g := range k.scratch {
			if k.failed[g] == nil {
				errs = append(errs, r.drop(ctx, g.record()))
			}
		}
	}
	for g, cause := range k.failed {
		errs = append(errs, fmt.Errorf("rebuild %s: %w", g.model.name, cause), r.drop(ctx, g.record()))
	}
	if !r.shared && (len(k.failed) > 0 || errors.Is(err, ErrNoSpace)) {
		r.reclaim(ctx)
	}
	for _, g := range k.scratch {
		if g.state == stateKept {
			complete = append(complete, g.model.name)
		}
	}
	return complete, errors.Join(errs...)
}

// Compare brings kept tables to the position of the live ones and compares every column of every row, in the order of the
// primary keys. It compares one snapshot of the live tables. Its memory does not depend on their size. The results are
// sorted by name. In a SQLite file it stops before it uses the reserve. Errors: ErrNotStarted, ErrUnknown, ErrNotKept,
// ErrKeeping, ErrLiveTables, ErrNoSpace, projections.ErrNotReady, sqlstore.ErrUnavailable, those of the log, ctx.Err().
func (r *Runner) Compare(ctx context.Context, names []string, progress func(Progress)) ([]projections.Comparison, error) {
	k, models, err := r.keeper(names)
	if err != nil {
		return nil, err
	}
	defer r.keeping.Unlock()
	found, err := k.compare(ctx, models, progress)
	if err != nil {
		return nil, fmt.Errorf("compare: %w", kept(err))
	}
	return found, nil
}

// Switch makes kept tables live when they have caught up. On a shared database the leader does so, and Switch waits for
// it. In a SQLite file it drops them before they use the reserve. If ctx ends first, the live tables stay until the next
// Switch, or the next start or the leader, continues. Errors: as Rebuild, ErrNotKept, ErrKeeping.
func (r *Runner) Switch(ctx context.Context, names []string, progress func(Progress)) error {
	_, models, err := r.keeper(names)
	if err != nil {
		return err
	}
	defer r.keeping.Unlock()
	space, err := r.reserveSpace(ctx)
	if err != nil {
		return fmt.Errorf("switch: %w", err)
	}
	asked, err := r.release(ctx, models)
	if err != nil {
		return fmt.Errorf("switch: %w", kept(err))
	}
	if r.shared {
		return r.await(ctx, asked, models, progress)
	}
	return r.finish(ctx, models, space, progress)
}

// Discard drops kept tables. Errors: ErrNotStarted, ErrUnknown, ErrNotKept, ErrKeeping, sqlstore.ErrUnavailable, ctx.Err().
func (r *Runner) Discard(ctx context.Context, names []string) error {
	_, models, err := r.keeper(names)
	if err != nil {
		return err
	}
	defer r.keeping.Unlock()
	err = r.store.Setup(ctx, func(tx *sqlstore.Tx) error {
		records, err := readGenerations(ctx, tx)
		if err != nil {
			return err
		}
		for _, m := range models {
			e := keptRecord(records, m.name, stateKept, stateFilling)
			if e == nil {
				return fmt.Errorf("%s: %w", m.name, ErrNotKept)
			}
			if err := drop(ctx, tx, *e); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("discard: %w", kept(err))
	}
	if !r.shared {
		r.reclaim(ctx)
	}
	return nil
}

// kept explains errDeposed of a generation that no loop folds.
func kept(err error) error {
	if errors.Is(err, errDeposed) {
		return fmt.Errorf("%w: %w", ErrKeeping, err)
	}
	return err
}

// keeper folds and compares kept generations.
type keeper struct {
	*verifier
	failed failures
}

// keeper returns the chosen models, and locks keeping.
func (r *Runner) keeper(names []string) (*keeper, []*model, error) {
	models, err := r.choose(names)
	if err != nil {
		return nil, nil, err
	}
	if !r.keeping.TryLock() {
		return nil, nil, ErrKeeping
	}
	return &keeper{verifier: &verifier{r: r, folder: r, results: map[string]*projections.Verification{}}}, models, nil
}

func keptRecord(records []record, name string, states ...string) *record {
	for i := range records {
		if records[i].name == name && slices.Contains(states, records[i].state) {
			return &records[i]
		}
	}
	return nil
}

// fill folds until the kept tables are close to the live ones, and creates their indexes.
func (k *keeper) fill(ctx context.Context, models []*model, progress func(Progress)) error {
	r := k.r
	records, err := readGenerations(ctx, r.store.Read())
	if err != nil {
		return sqlstore.Classify(err)
	}
	space, err := r.spaceFor(ctx, models, "", func(m *model) *generation {
		if e := keptRecord(records, m.name, stateFilling); e != nil && m.version(e.version) != nil {
			return m.withoutFold(m.version(e.version), *e)
		}
		return nil
	})
	if err != nil {
		return err
	}
	err = r.store.Setup(ctx, func(tx *sqlstore.Tx) error {
		k.scratch = nil
		records, err := readGenerations(ctx, tx)
		if err != nil {
			return err
		}
		for _, m := range models {
			version := r.target(m)
			if err := m.checkFree(records, version); err != nil {
				return err
			}
			if liveRecord(records, m.name) == nil {
				return fmt.Errorf("%s: %w", m.name, projections.ErrNotReady)
			}
			e := keptRecord(records, m.name, stateKept, stateFilling)
			if e != nil && e.version != version.Number { // it cannot become live
				if err := drop(ctx, tx, *e); err != nil {
					return err
				}
				e = nil
			}
			if e != nil && e.state == stateKept {
				return fmt.Errorf("%s: %w; make them live with \"projections switch %[1]s\", or drop them with \"projections discard %[1]s\"", m.name, ErrKept)
			}
			if e == nil {
				begun, err := m.begin(ctx, tx, version, m.nextNumber(records), stateFilling)
				if err != nil {
					return err
				}
				e = &begun
			}
			k.scratch = append(k.scratch, m.withFold(version, *e))
		}
		return nil
	})
	if err != nil {
		return err
	}
	c := &catchUp{r: r, units: slices.Clone(k.scratch), progress: progress, space: space}
	defer func() { k.failed = c.failed }()
	if err := k.approach(ctx, c); err != nil {
		return err
	}
	if err := r.index(ctx, c.units); err != nil {
		return err
	}
	if err := k.approach(ctx, c); err != nil { // creating indexes took time, in which events were appended
		return err
	}
	err = r.store.Setup(ctx, func(tx *sqlstore.Tx) error {
		for _, g := range c.units {
			if err := setState(ctx, tx, g, stateKept); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	for _, g := range c.units {
		g.state = stateKept
	}
	return nil
}

// compare brings the kept tables to the position of a snapshot of the live ones, and compares both.
func (k *keeper) compare(ctx context.Context, models []*model, progress func(Progress)) ([]projections.Comparison, error) {
	records, err := readGenerations(ctx, k.r.store.Read())
	if err != nil {
		return nil, sqlstore.Classify(err)
	}
	for _, m := range models {
		e, live := keptRecord(records, m.name, stateKept), liveRecord(records, m.name)
		switch {
		case e == nil:
			return nil, m.notKept(nil, 0)
		case live == nil:
			return nil, fmt.Errorf("%s: %w", m.name, projections.ErrNotReady)
		case m.version(e.version) == nil || live.version != e.version:
			return nil, m.notKept(e, live.version)
		}
		k.scratch = append(k.scratch, m.withFold(m.version(e.version), *e))
		k.results[m.name] = &projections.Verification{Name: m.name, Version: e.version}
	}
	defer k.leave()
	space, err := k.r.reserveSpace(ctx)
	if err != nil {
		return nil, err
	}
	c := &catchUp{r: k.r, units: slices.Clone(k.scratch), progress: progress, space: space}
	if err := k.approach(ctx, c); err != nil {
		return nil, err
	}
	if err := k.pin(ctx, c); err != nil {
		return nil, err
	}
	for g, cause := range c.failed {
		k.results[g.model.name].Err = fmt.Errorf("replay: %w", cause)
	}
	tables := map[string][]projections.TableComparison{}
	for _, p := range k.pairs {
		if at := p.scratch.position(); at != p.live.position() {
			k.results[p.live.model.name].Err = fmt.Errorf("the rebuilt tables are at position %d, the live ones at %d", at, p.live.position())
			continue
		}
		for _, table := range p.live.version.Tables {
			t, err := compareWholeTable(ctx, k.moment, k.r.store.Read(), table, p)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", p.live.tables.Name(table.Name), sqlstore.Classify(err))
			}
			tables[p.live.model.name] = append(tables[p.live.model.name], t)
		}
	}
	var out []projections.Comparison
	for _, res := range k.results {
		out = append(out, projections.Comparison{Name: res.Name, Version: res.Version, Position: res.Position, Tables: tables[res.Name], Err: res.Err})
	}
	slices.SortFunc(out, func(a, b projections.Comparison) int { return strings.Compare(a.Name, b.Name) })
	return out, nil
}

// compareWholeTable counts the rows of both tables that differ. Both have the same columns.
func compareWholeTable(ctx context.Context, moment, now projections.Queryer, table projections.Table, p pair) (out projections.TableComparison, err error) {
	a := &walk{q: moment, name: p.live.tables.Name(table.Name), key: table.Key, limit: compareRows}
	b := &walk{q: now, name: p.scratch.tables.Name(table.Name), key: table.Key, limit: compareRows}
	out.Table = table.Name
	var live, rebuilt []any
	for order := 0; ; {
		if order <= 0 {
			if live, err = a.next(ctx); err != nil {
				return out, unreadable(ctx, err)
			}
		}
		if order >= 0 {
			if rebuilt, err = b.next(ctx); err != nil {
				return out, err
			}
		}
		if live == nil && rebuilt == nil {
			return out, nil
		}
		var diff *projections.Difference
		switch order = compareKeys(table.Key, a.columns, live, rebuilt); {
		case order < 0:
			out.OnlyLive++
			diff = &projections.Difference{Table: table.Name, Key: showKey(table.Key, a.columns, live), Live: "has it", Rebuilt: "lacks it"}
		case order > 0:
			out.OnlyRebuilt++
			diff = &projections.Difference{Table: table.Name, Key: showKey(table.Key, a.columns, rebuilt), Live: "lacks it", Rebuilt: "has it"}
		default:
			if diff = compareRow(table, a.columns, live, rebuilt); diff == nil {
				out.Same++
				continue
			}
			out.Changed++
		}
		if len(out.First) < shownDifferences {
			out.First = append(out.First, *diff)
		}
	}
}

// unreadable marks an error of reading the live tables, unless the database is unavailable or ctx has ended.
func unreadable(ctx context.Context, err error) error {
	if err = sqlstore.Classify(err); ctx.Err() != nil || errors.Is(err, sqlstore.ErrUnavailable) {
		return err
	}
	return fmt.Errorf("%w: %w", ErrLiveTables, err)
}

// compareKeys compares the keys of two rows as the databases do, which compare text by its bytes; no row comes last.
func compareKeys(key, columns []string, left, right []any) int {
	switch {
	case left == nil:
		return 1
	case right == nil:
		return -1
	}
	for _, k := range key {
		i := slices.Index(columns, k)
		if order := compareValues(left[i], right[i]); order != 0 {
			return order
		}
	}
	return 0
}

// compareValues compares values of a key column: text or integers.
func compareValues(a, b any) int {
	if a, ok := a.(int64); ok {
		if b, ok := b.(int64); ok {
			return cmp.Compare(a, b)
		}
	}
	return strings.Compare(fmt.Sprintf("%s", a), fmt.Sprintf("%s", b))
}

// release hands kept tables to the loop that makes them live. In one process it also takes over those of a Switch that was
// interrupted.
func (r *Runner) release(ctx context.Context, models []*model) (asked []record, err error) {
	r.step.Lock() // against a rebuild and the start of the loops
	defer r.step.Unlock()
	err = r.store.Setup(ctx, func(tx *sqlstore.Tx) error {
		asked = nil
		records, err := readGenerations(ctx, tx)
		if err != nil {
			return err
		}
		for _, m := range models {
			e := keptRecord(records, m.name, stateKept)
			if e == nil && m.interrupted() {
				continue
			}
			target := r.target(m)
			if err := m.checkFree(records, target); err != nil {
				return err
			}
			if e == nil || e.version != target.Number {
				return m.notKept(e, target.Number)
			}
			err := oneRow(tx.ExecContext(ctx, "UPDATE projections_registry SET state = $1 WHERE name = $2 AND generation = $3 AND state = $4 AND position = $5",
				stateBuilding, e.name, int64(e.generation), stateKept, int64(e.position)))
			if err != nil {
				return err
			}
			e.state = stateBuilding
			asked = append(asked, *e)
		}
		return nil
	})
	if err != nil || r.shared {
		return asked, err
	}
	for _, m := range models {
		e := keptRecord(asked, m.name, stateBuilding)
		m.mu.Lock()
		if m.busy = true; e != nil {
			m.building = m.withFold(r.target(m), *e)
		}
		m.mu.Unlock()
	}
	return asked, nil
}

// interrupted reports whether this process has begun to make tables of the live version live, and no loop fills them.
// A loop that is about to start builds those of a new version.
func (m *model) interrupted() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return !m.r.shared && m.building != nil && !m.busy && m.live != nil && m.live.version.Number == m.building.version.Number
}

// notKept returns the ErrNotKept of a read model. e, which may be nil, is of another version than the one needed.
func (m *model) notKept(e *record, version int) error {
	if e == nil {
		return fmt.Errorf("%s: %w", m.name, ErrNotKept)
	}
	return fmt.Errorf("%s: %w for version %d; \"projections discard %[1]s\" drops those of version %[4]d", m.name, ErrNotKept, version, e.version)
}
