package engine

import (
	"bytes"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"slices"
	"strings"
	"time"

	"letterhead/internal/eventlog"
	"letterhead/internal/sqlstore"
	"letterhead/projections"
)

const (
	// compareRows is how many rows of each table are held in memory while two tables are compared.
	compareRows = 1000
	// maxShownBytes bounds a value in a Difference.
	maxShownBytes = 200
	// cleanupTimeout bounds the dropping of scratch tables after the caller has gone.
	cleanupTimeout = 30 * time.Second
)

// Verify folds the log from the beginning into scratch tables, up to where the live ones stand, and compares every
// column of every row, in the order of the primary keys. The live tables go on being read and folded meanwhile, by
// whichever node does: one moment of them is compared. The progress may be nil.
//
// Beside a SQLite file the scratch tables go to a file of their own (Config.ScratchFolder), which is deleted at the
// end; it is begun only when there is room for it, and given up before the reserve is touched. On PostgreSQL they are
// tables of the same schema.
//
// Errors: ErrNotStarted, ErrUnknown, ErrNoRoom, sqlstore.ErrUnavailable, those of the log, ctx.Err().
// What was found is in the Verifications, by name.
func (r *Runner) Verify(ctx context.Context, names []string, progress func(Progress)) ([]projections.Verification, error) {
	models, err := r.choose(names)
	if err != nil {
		return nil, err
	}
	v := &verifier{r: r, results: make(map[string]*projections.Verification)}
	defer v.cleanUp(ctx)
	err = v.verify(ctx, models, progress)
	if errors.Is(err, sqlstore.ErrFull) {
		err = fmt.Errorf("%w: %w", ErrNoRoom, err)
	}
	if err != nil {
		return nil, fmt.Errorf("verify: %w", err)
	}
	out := make([]projections.Verification, 0, len(v.results))
	for _, res := range v.results {
		out = append(out, *res)
	}
	slices.SortFunc(out, func(a, b projections.Verification) int { return strings.Compare(a.Name, b.Name) })
	return out, nil
}

type verifier struct {
	r       *Runner
	file    *scratch // of the scratch tables; nil when they are in the database itself
	folder  *Runner  // folds into them
	scratch []*generation
	room    room
	left    []*generation // whose readers keep its tables here
	pairs   []pair
	moment  *sql.Tx // one state of the database that the live tables are read from
	results map[string]*projections.Verification
}

// pair is a live generation and the scratch one that should be its like.
type pair struct{ live, scratch *generation }

func (v *verifier) verify(ctx context.Context, models []*model, progress func(Progress)) error {
	if err := v.open(ctx, models); err != nil {
		return err
	}
	if err := v.begin(ctx, models); err != nil {
		return err
	}
	c := &chaser{r: v.folder, units: slices.Clone(v.scratch), progress: progress, room: v.room}
	if err := v.approach(ctx, c); err != nil {
		return err
	}
	if err := v.pin(ctx, c); err != nil {
		return err
	}
	for g, cause := range c.failed {
		v.results[g.model.name].Err = fmt.Errorf("replay: %w", cause)
	}
	return v.compare(ctx)
}

// open decides where the scratch tables go.
func (v *verifier) open(ctx context.Context, models []*model) (err error) {
	if v.folder = v.r; v.r.shared {
		return nil
	}
	parent := v.r.cfg.ScratchFolder
	if parent == "" {
		parent = os.TempDir()
	} else if err := errors.Join(os.MkdirAll(parent, 0o700), RemoveScratch(parent)); err != nil {
		return fmt.Errorf("make a folder for scratch tables: %w", err)
	}
	if v.room, err = v.r.roomFor(ctx, models, parent); err != nil {
		return err
	}
	if v.file, err = openScratch(ctx, parent); err != nil {
		return err
	}
	v.folder = &Runner{cfg: v.r.cfg, log: v.r.log, store: v.file.store, metrics: v.r.metrics}
	return nil
}

func (v *verifier) begin(ctx context.Context, models []*model) error {
	return v.folder.store.Setup(ctx, func(tx *sqlstore.Tx) error {
		v.scratch = nil
		live := projections.Queryer(tx)
		if v.file != nil {
			live = v.r.store.Read()
		}
		entries, err := readRegistry(ctx, live)
		if err != nil {
			return err
		}
		for _, m := range models {
			live := liveEntry(entries, m.name)
			if live == nil && v.r.isNew(m) {
				continue // until the upgrade is finished it may be that nobody folds it
			}
			res := &projections.Verification{Name: m.name}
			v.results[m.name] = res
			if live == nil {
				res.Err = projections.ErrNotReady
				continue
			}
			version := m.version(live.version)
			if version == nil {
				res.Err = newerRelease(m, live)
				continue
			}
			res.Version = live.version
			e, err := m.begin(ctx, tx, version, m.following(entries), stateScratch)
			if err != nil {
				return err
			}
			v.scratch = append(v.scratch, m.generation(version, e))
		}
		return nil
	})
}

func liveEntry(entries []entry, name string) *entry {
	for i := range entries {
		if entries[i].name == name && entries[i].state == stateLive {
			return &entries[i]
		}
	}
	return nil
}

// approach folds until hardly anything is left to where the live tables stand by then.
func (v *verifier) approach(ctx context.Context, c *chaser) error {
	for folded := levelEvents + 1; folded > levelEvents && len(c.units) > 0; {
		entries, err := readRegistry(ctx, v.r.store.Read())
		if err != nil {
			return sqlstore.Classify(err)
		}
		if folded, err = v.advance(ctx, c, entries); err != nil {
			return err
		}
	}
	return nil
}

// advance folds each unit up to where its live like stands; one that is set aside stands alone.
func (v *verifier) advance(ctx context.Context, c *chaser, entries []entry) (folded int, err error) {
	targets := make(map[eventlog.Position][]*generation)
	for _, g := range c.units {
		if live := liveEntry(entries, g.model.name); live != nil {
			targets[live.position] = append(targets[live.position], g)
		}
	}
	var going []*generation
	for _, target := range slices.Sorted(maps.Keys(targets)) {
		part := &chaser{r: c.r, units: targets[target], progress: c.progress, events: c.events, room: c.room}
		n, err := part.advance(ctx, target)
		if err != nil {
			return folded, err
		}
		folded, c.events = folded+n, part.events
		going = append(going, part.units...)
		for g, cause := range part.failed {
			c.failed = c.failed.add(g, cause)
		}
	}
	c.units = going
	return folded, nil
}

// pin holds a moment of the live tables and brings the scratch ones, which nobody else writes, to exactly
// where they stand in it.
func (v *verifier) pin(ctx context.Context, c *chaser) error {
	if err := v.enter(); err != nil {
		return err
	}
	tx, err := v.r.store.Snapshot(ctx)
	if err != nil {
		return fmt.Errorf("begin comparison: %w", err)
	}
	v.moment = tx
	entries, err := readRegistry(ctx, tx) // the first question fixes the moment
	if err != nil {
		return sqlstore.Classify(err)
	}
	var same []*generation
	for _, g := range c.units {
		m, res := g.model, v.results[g.model.name]
		live := liveEntry(entries, m.name)
		switch {
		case live == nil || live.version != g.version.Number:
			res.Err = errors.New("a new version became live meanwhile; verify again")
			continue
		case live.failure != "":
			res.Err = &SetAsideError{Name: m.name, Position: live.position, Err: errors.New(live.failure)}
			continue
		}
		res.Position = live.position
		same = append(same, g)
		v.pairs = append(v.pairs, pair{live: m.known(g.version, *live), scratch: g})
	}
	if err := v.hold(ctx); err != nil {
		return err
	}
	c.units = same
	if _, err := v.advance(ctx, c, entries); err != nil {
		return err
	}
	v.pairs = slices.DeleteFunc(v.pairs, func(p pair) bool { return c.failed[p.scratch] != nil })
	return nil
}

// enter keeps the tables of a database of this process alone: their last reader drops them.
func (v *verifier) enter() error {
	if v.r.shared {
		return nil
	}
	for _, g := range v.scratch {
		live, err := g.model.enter()
		if err != nil {
			return err
		}
		v.left = append(v.left, live)
	}
	return nil
}

// hold keeps the tables of a shared database: whoever drops them waits for those who have asked them.
func (v *verifier) hold(ctx context.Context) error {
	if !v.r.shared {
		return nil
	}
	for _, p := range v.pairs {
		for _, t := range p.live.version.Tables {
			table := p.live.tables.Name(t.Name)
			if _, err := v.moment.ExecContext(ctx, "SELECT 1 FROM "+table+" LIMIT 0"); err != nil {
				return fmt.Errorf("hold %s for comparison: %w", table, sqlstore.Classify(err))
			}
		}
	}
	return nil
}

func (v *verifier) compare(ctx context.Context) error {
	for _, p := range v.pairs {
		res := v.results[p.live.model.name]
		for _, table := range p.live.version.Tables {
			rows, diff, err := compareTable(ctx, v.moment, v.folder.store.Read(), table, p)
			if err != nil {
				return fmt.Errorf("compare %s: %w", p.live.tables.Name(table.Name), sqlstore.Classify(err))
			}
			if res.Rows += rows; diff != nil {
				res.Difference = diff
				break
			}
		}
	}
	return nil
}

// cleanUp lets the moment go and drops the scratch tables, also when the caller has gone.
func (v *verifier) cleanUp(ctx context.Context) {
	if v.moment != nil {
		_ = v.moment.Rollback() // nothing was written
	}
	for _, g := range v.left {
		g.readers.leave()
	}
	if v.file != nil {
		if err := v.file.close(); err != nil {
			v.r.cfg.Logger.WarnContext(ctx, "scratch tables could not be deleted; the next start tries again", slog.Any("error", err))
		}
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), cleanupTimeout)
	defer cancel()
	for _, g := range v.scratch {
		v.r.dropLogged(ctx, g.entry())
	}
}

// compareTable walks both tables in the order of the primary key.
func compareTable(ctx context.Context, moment, now projections.Queryer, table projections.Table, p pair) (rows int64, diff *projections.Difference, err error) {
	a := &walk{q: moment, name: p.live.tables.Name(table.Name), key: table.Key}
	b := &walk{q: now, name: p.scratch.tables.Name(table.Name), key: table.Key}
	for ; ; rows++ {
		left, err := a.next(ctx)
		if err != nil {
			return rows, nil, err
		}
		right, err := b.next(ctx)
		if err != nil {
			return rows, nil, err
		}
		if left == nil && right == nil {
			return rows, nil, nil
		}
		if diff := compareRow(table, a.columns, left, right); diff != nil {
			return rows, diff, nil
		}
	}
}

func compareRow(table projections.Table, columns []string, left, right []any) *projections.Difference {
	switch {
	case right == nil:
		return &projections.Difference{Table: table.Name, Key: showKey(table.Key, columns, left), Live: "has it", Rebuilt: "has no more rows"}
	case left == nil:
		return &projections.Difference{Table: table.Name, Key: showKey(table.Key, columns, right), Live: "has no more rows", Rebuilt: "has it"}
	}
	if l, r := showKey(table.Key, columns, left), showKey(table.Key, columns, right); l != r {
		return &projections.Difference{Table: table.Name, Key: l, Live: "has it", Rebuilt: "has " + r + " in its place"}
	}
	for i, column := range columns {
		if !sameValue(left[i], right[i]) {
			return &projections.Difference{
				Table: table.Name, Key: showKey(table.Key, columns, left), Column: column,
				Live: show(left[i]), Rebuilt: show(right[i]),
			}
		}
	}
	return nil
}

func sameValue(a, b any) bool {
	if x, ok := a.([]byte); ok {
		y, ok := b.([]byte)
		return ok && bytes.Equal(x, y)
	}
	if _, ok := b.([]byte); ok {
		return false
	}
	return a == b
}

func show(v any) string {
	text := fmt.Sprintf("%#v", v)
	switch v := v.(type) {
	case []byte:
		text = fmt.Sprintf("%q", v)
	case nil:
		text = "NULL"
	}
	if len(text) > maxShownBytes {
		text = text[:maxShownBytes] + "…"
	}
	return text
}

func showKey(key, columns []string, row []any) string {
	parts := make([]string, len(key))
	for i, k := range key {
		parts[i] = k + "=" + show(row[slices.Index(columns, k)])
	}
	return strings.Join(parts, " ")
}

// walk reads a table in the order of its primary key, a bounded number of rows at a time: one connection
// cannot be relied on to read two tables at once.
type walk struct {
	q       projections.Queryer
	name    string
	key     []string
	columns []string
	rows    [][]any
	last    []any // key of the last row read
	ended   bool
}

func (w *walk) next(ctx context.Context) ([]any, error) {
	if len(w.rows) == 0 && !w.ended {
		if err := w.read(ctx); err != nil {
			return nil, err
		}
	}
	if len(w.rows) == 0 {
		return nil, nil
	}
	row := w.rows[0]
	w.rows = w.rows[1:]
	return row, nil
}

func (w *walk) read(ctx context.Context) error {
	key := strings.Join(w.key, ", ")
	query := "SELECT * FROM " + w.name
	if w.last != nil {
		query += " WHERE (" + key + ") > " + sqlstore.In(1, len(w.key))
	}
	rows, err := w.q.QueryContext(ctx, fmt.Sprintf("%s ORDER BY %s LIMIT %d", query, key, compareRows), w.last...)
	if err != nil {
		return err
	}
	defer rows.Close()
	if w.columns, err = rows.Columns(); err != nil {
		return err
	}
	for rows.Next() {
		row, into := make([]any, len(w.columns)), make([]any, len(w.columns))
		for i := range row {
			into[i] = &row[i]
		}
		if err := rows.Scan(into...); err != nil {
			return err
		}
		w.rows = append(w.rows, row)
	}
	if err := rows.Err(); err != nil {
		return err
	}
	w.ended = len(w.rows) < compareRows
	if len(w.rows) > 0 {
		last := w.rows[len(w.rows)-1]
		w.last = make([]any, len(w.key))
		for i, k := range w.key {
			w.last[i] = last[slices.Index(w.columns, k)]
		}
	}
	return nil
}
