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
	"path/filepath"
	"slices"
	"strings"
	"time"

	"letterhead/internal/disk"
	"letterhead/internal/eventlog"
	"letterhead/internal/sqlstore"
	"letterhead/projections"
)

const (
	// compareRows is the number of rows of each table that a comparison has in memory.
	compareRows = 1000
	// maxShownBytes limits a value in a Difference.
	maxShownBytes = 200
	// cleanupTimeout limits the time to drop scratch tables after the caller's ctx has ended.
	cleanupTimeout = 30 * time.Second
)

// Verify folds the log from the beginning into scratch tables, up to the position of the live ones, and compares every
// column of every row, in the order of the primary keys. Meanwhile the live tables are read and folded as before:
// Verify compares one snapshot of them. progress may be nil.
//
// If the database is a SQLite file, the scratch tables are in another file (Config.ScratchFolder), which is deleted at
// the end. Verify starts only if there is space for it, and stops before it uses the reserve. On PostgreSQL they are
// tables of the same schema.
//
// Errors: ErrNotStarted, ErrUnknown, ErrNoSpace, sqlstore.ErrUnavailable, the errors of the log, ctx.Err(). The result
// is in the Verifications, by name.
func (r *Runner) Verify(ctx context.Context, names []string,
	progress func(Progress)) ([]projections.Verification, error) {
	models, err := r.choose(names)
	if err != nil {
		return nil, err
	}
	v := &verifier{r: r, results: make(map[string]*projections.Verification)}
	defer v.cleanUp(ctx)
	err = v.verify(ctx, models, progress)
	if errors.Is(err, sqlstore.ErrFull) {
		err = fmt.Errorf("%w: %w", ErrNoSpace, err)
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
	file    *scratch // of the scratch tables; nil if they are in the database itself
	folder  *Runner  // folds into them
	scratch []*generation
	space   freeSpace
	left    []*generation // entered, so that their tables are kept
	pairs   []pair
	moment  *sql.Tx // snapshot of the live tables
	results map[string]*projections.Verification
}

// pair is a live generation and the scratch generation that is compared with it.
type pair struct{ live, scratch *generation }

func (v *verifier) verify(ctx context.Context, models []*model, progress func(Progress)) error {
	if err := v.open(ctx, models); err != nil {
		return err
	}
	if err := v.begin(ctx, models); err != nil {
		return err
	}
	c := &catchUp{r: v.folder, units: slices.Clone(v.scratch), progress: progress, space: v.space}
	tables, err := v.compare(ctx, c, 1)
	for name, all := range tables {
		res := v.results[name]
		for _, t := range all {
			if res.Rows += t.Same; len(t.First) > 0 {
				res.Difference = &t.First[0]
			}
		}
	}
	return err
}

// compare brings the scratch tables to the position of a snapshot of the live ones, and compares both: of each read
// model all tables, or those up to the first that has most differences, if that is not 0.
func (v *verifier) compare(ctx context.Context, c *catchUp, most int) (map[string][]projections.TableComparison, error) {
	if err := v.approach(ctx, c); err != nil {
		return nil, err
	}
	if err := v.pin(ctx, c); err != nil {
		return nil, err
	}
	for g, cause := range c.failed {
		v.results[g.model.name].Err = fmt.Errorf("replay: %w", cause)
	}
	tables := map[string][]projections.TableComparison{}
	for _, p := range v.pairs {
		name := p.live.model.name
		if at := p.scratch.position(); at != p.live.position() {
			v.results[name].Err = fmt.Errorf("the new tables are at position %d, the live ones at %d",
				at, p.live.position())
			continue
		}
		for _, table := range p.live.version.Tables {
			t, err := compareTable(ctx, v.moment, v.folder.store.Read(), table, p, most)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", p.live.tables.Name(table.Name), sqlstore.Classify(err))
			}
			tables[name] = append(tables[name], t)
			if most > 0 && len(t.First) == most {
				break
			}
		}
	}
	return tables, nil
}

// open chooses where the scratch tables are.
func (v *verifier) open(ctx context.Context, models []*model) error {
	if folder := v.r.cfg.ScratchFolder; folder != "" && !v.r.shared {
		if err := RemoveScratch(folder); err != nil {
			return err
		}
	}
	parent, err := v.openScratch(ctx)
	if err != nil || v.file == nil {
		return err
	}
	v.space, err = v.r.spaceFor(ctx, models, parent, nil)
	return err
}

// openScratch opens a file for the scratch tables, in a new folder below parent, unless the database is shared.
func (v *verifier) openScratch(ctx context.Context) (parent string, err error) {
	if v.folder = v.r; v.r.shared {
		return "", nil
	}
	if parent = v.r.cfg.ScratchFolder; parent == "" {
		parent = os.TempDir()
	} else if err := os.MkdirAll(parent, 0o700); err != nil {
		return "", fmt.Errorf("create a folder for scratch tables: %w", err)
	}
	if v.file, err = openScratch(ctx, parent); err != nil {
		return "", err
	}
	v.folder = &Runner{cfg: v.r.cfg, log: v.r.log, store: v.file.store, metrics: v.r.metrics, prefixes: v.r.prefixes}
	return parent, nil
}

func (v *verifier) begin(ctx context.Context, models []*model) error {
	return v.folder.store.Setup(ctx, func(tx *sqlstore.Tx) error {
		v.scratch = nil
		live := projections.Queryer(tx)
		if v.file != nil {
			live = v.r.store.Read()
		}
		records, err := readGenerations(ctx, live)
		if err != nil {
			return err
		}
		for _, m := range models {
			live := find(records, m.name, stateLive)
			if live == nil && v.r.isNew(m) {
				continue // possibly no node folds it until the upgrade is finished
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
			e, err := m.begin(ctx, tx, version, m.nextNumber(records), stateScratch)
			if err != nil {
				return err
			}
			v.scratch = append(v.scratch, m.withFold(version, e))
		}
		return nil
	})
}

// approach folds until the scratch tables are close to the position of the live ones.
func (v *verifier) approach(ctx context.Context, c *catchUp) error {
	for folded := levelEvents + 1; folded > levelEvents && len(c.units) > 0; {
		records, err := readGenerations(ctx, v.r.store.Read())
		if err != nil {
			return sqlstore.Classify(err)
		}
		if folded, err = v.advance(ctx, c, records); err != nil {
			return err
		}
	}
	return nil
}

// advance folds each unit up to the position of its live generation, which differs for a quarantined one.
func (v *verifier) advance(ctx context.Context, c *catchUp, records []record) (folded int, err error) {
	targets := make(map[eventlog.Position][]*generation)
	for _, g := range c.units {
		if live := find(records, g.model.name, stateLive); live != nil {
			targets[live.position] = append(targets[live.position], g)
		}
	}
	var going []*generation
	for _, target := range slices.Sorted(maps.Keys(targets)) {
		part := &catchUp{r: c.r, units: targets[target], progress: c.progress, events: c.events, space: c.space}
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

// pin begins a snapshot of the live tables and brings the scratch ones to exactly their position in it.
func (v *verifier) pin(ctx context.Context, c *catchUp) error {
	if err := v.enter(); err != nil {
		return err
	}
	tx, err := v.r.store.Snapshot(ctx)
	if err != nil {
		return fmt.Errorf("begin comparison: %w", err)
	}
	v.moment = tx
	records, err := readGenerations(ctx, tx) // the first query fixes the snapshot
	if err != nil {
		return sqlstore.Classify(err)
	}
	var same []*generation
	for _, g := range c.units {
		m, res := g.model, v.results[g.model.name]
		live := find(records, m.name, stateLive)
		switch {
		case live == nil || live.version != g.version.Number:
			res.Err = errors.New("a new version became live; verify again")
			continue
		case live.failure != "":
			res.Err = &QuarantinedError{Name: m.name, Position: live.position, Err: errors.New(live.failure)}
			continue
		}
		res.Position = live.position
		same = append(same, g)
		v.pairs = append(v.pairs, pair{live: m.withoutFold(g.version, *live), scratch: g})
	}
	if err := v.hold(ctx); err != nil {
		return err
	}
	c.units = same
	if _, err := v.advance(ctx, c, records); err != nil {
		return err
	}
	v.pairs = slices.DeleteFunc(v.pairs, func(p pair) bool { return c.failed[p.scratch] != nil })
	return nil
}

// enter keeps the live tables of a database that is not shared: their last reader drops them.
func (v *verifier) enter() error {
	if v.r.shared {
		return nil
	}
	for _, g := range v.scratch {
		live := g.model.liveGeneration() // even if it is withheld from other readers
		for live != nil && !live.readers.enter() {
			live = g.model.liveGeneration() // it was replaced
		}
		if live == nil {
			return fmt.Errorf("%s: %w", g.model.name, projections.ErrNotReady)
		}
		v.left = append(v.left, live)
	}
	return nil
}

// hold keeps the live tables of a shared database: dropping a table waits for transactions that have read it.
func (v *verifier) hold(ctx context.Context) error {
	if !v.r.shared {
		return nil
	}
	for _, p := range v.pairs {
		for _, t := range p.live.version.Tables {
			table := p.live.tables.Name(t.Name)
			if _, err := v.moment.ExecContext(ctx, "SELECT 1 FROM "+table+" LIMIT 0"); err != nil {
				return fmt.Errorf("hold %s for comparison: %w", table, unreadable(ctx, err))
			}
		}
	}
	return nil
}

// leave ends the snapshot of the live tables.
func (v *verifier) leave() {
	if v.moment != nil {
		_ = v.moment.Rollback() // nothing was written
	}
	for _, g := range v.left {
		g.readers.leave()
	}
}

// cleanUp ends the snapshot and drops the scratch tables, even if ctx has ended.
func (v *verifier) cleanUp(ctx context.Context) {
	v.leave()
	if v.file != nil {
		if err := v.file.close(); err != nil {
			v.r.cfg.Logger.WarnContext(ctx, "scratch tables could not be deleted; the next start will retry",
				slog.Any("error", err))
		}
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), cleanupTimeout)
	defer cancel()
	for _, g := range v.scratch {
		v.r.dropLogged(ctx, g.record())
	}
}

// compareRow returns the first difference between two rows with the same key, or nil.
func compareRow(table projections.Table, columns []string, left, right []any) *projections.Difference {
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

// walk reads a table in the order of its primary key, a limited number of rows at a time, because one connection may
// not be able to read two tables at the same time. While the caller uses some rows, it reads the next ones.
type walk struct {
	q       projections.Queryer
	name    string
	key     []string
	columns []string
	limit   int // of one read
	rows    [][]any
	last    []any // key of the last row read
	ended   bool
	ahead   chan error // receives the result of the read that runs; nil if none does
	coming  [][]any    // rows of that read
}

func (w *walk) next(ctx context.Context) ([]any, error) {
	if w.columns == nil && w.ahead == nil {
		w.readAhead(ctx)
	}
	if len(w.rows) == 0 && w.ahead != nil {
		err := <-w.ahead
		if w.ahead = nil; err != nil {
			return nil, err
		}
		if w.rows = w.coming; !w.ended {
			w.readAhead(ctx)
		}
	}
	if len(w.rows) == 0 {
		return nil, nil
	}
	row := w.rows[0]
	w.rows = w.rows[1:]
	return row, nil
}

func (w *walk) readAhead(ctx context.Context) {
	w.ahead = make(chan error, 1)
	go func() { w.ahead <- w.read(ctx) }()
}

// stop waits until nothing is read any more.
func (w *walk) stop() {
	if w.ahead != nil {
		<-w.ahead
	}
}

// read sets coming.
func (w *walk) read(ctx context.Context) error {
	key := strings.Join(w.key, ", ")
	query := "SELECT * FROM " + w.name
	if w.last != nil {
		query += " WHERE (" + key + ") > " + sqlstore.In(1, len(w.key))
	}
	rows, err := w.q.QueryContext(ctx, fmt.Sprintf("%s ORDER BY %s LIMIT %d", query, key, w.limit), w.last...)
	if err != nil {
		return err
	}
	defer rows.Close()
	if w.columns == nil { // the caller may use them already
		if w.columns, err = rows.Columns(); err != nil {
			return err
		}
	}
	w.coming = nil
	into := make([]any, len(w.columns))
	for rows.Next() {
		row := make([]any, len(w.columns))
		for i := range row {
			into[i] = &row[i]
		}
		if err := rows.Scan(into...); err != nil {
			return err
		}
		w.coming = append(w.coming, row)
	}
	if err := rows.Err(); err != nil {
		return err
	}
	w.ended = len(w.coming) < w.limit
	if len(w.coming) > 0 {
		w.last = keyOf(w.key, w.columns, w.coming[len(w.coming)-1])
	}
	return nil
}

// keyOf returns the values of the key's columns.
func keyOf(key, columns []string, row []any) []any {
	values := make([]any, len(key))
	for i, k := range key {
		values[i] = row[slices.Index(columns, k)]
	}
	return values
}

// scratch is a database file for the tables of one Verify, in a folder that is deleted afterwards.
type scratch struct {
	folder *disk.TempFolder
	store  *sqlstore.Store
}

const scratchPrefix = "letterhead-verify-"

// openScratch creates a scratch file in its own folder below parent.
func openScratch(ctx context.Context, parent string) (_ *scratch, err error) {
	s := &scratch{}
	if s.folder, err = disk.NewTempFolder(parent, scratchPrefix); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, s.close())
		}
	}()
	s.store, err = sqlstore.Open(ctx, sqlstore.Config{Path: filepath.Join(s.folder.Path, "tables.db"), Disposable: true})
	if err != nil {
		return nil, fmt.Errorf("create a file for scratch tables: %w", err)
	}
	err = s.store.Write(ctx, func(tx *sqlstore.Tx) error {
		_, err := tx.ExecContext(ctx, s.store.DDL(createGenerations))
		return err
	})
	return s, err
}

func (s *scratch) close() error {
	var err error
	if s.store != nil {
		err = s.store.Close()
	}
	return errors.Join(err, s.folder.Remove())
}

// RemoveScratch deletes what a killed Verify left in Config.ScratchFolder, but nothing that another process uses.
func RemoveScratch(parent string) error { return disk.RemoveLeft(parent, scratchPrefix) }
