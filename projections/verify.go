package projections

import (
	"bytes"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"letterhead/internal/eventlog"
	"letterhead/internal/sqlstore"
)

const (
	// compareRows is how many rows of each table are held in memory while two tables are compared.
	compareRows = 1000
	// maxShownBytes bounds a value in a Difference.
	maxShownBytes = 200
	// cleanupTimeout bounds the dropping of scratch tables after the caller has gone.
	cleanupTimeout = 30 * time.Second
)

// Verification is the outcome of Verify for one read model.
type Verification struct {
	Name    string `json:"name"`
	Version int    `json:"version"`
	// Position is where both sets of tables were compared, Rows how many rows that were.
	Position eventlog.Position `json:"position"`
	Rows     int64             `json:"rows"`
	// Difference is the first one found, nil when every column of every row agrees.
	Difference *Difference `json:"difference,omitempty"`
	// Err is why nothing could be compared: the read model is set aside, or the fold failed on the replay.
	Err error `json:"-"`
}

// OK says whether the tables were compared and agree.
func (v Verification) OK() bool { return v.Err == nil && v.Difference == nil }

// Difference is a place where the live tables are not what the log says.
type Difference struct {
	Table string `json:"table"`
	// Key is the row's primary key.
	Key string `json:"key"`
	// Column is empty when one side has no such row.
	Column  string `json:"column,omitempty"`
	Live    string `json:"live"`
	Rebuilt string `json:"rebuilt"`
}

func (d *Difference) String() string {
	if d.Column == "" {
		return fmt.Sprintf("table %s, row %s: live %s, rebuilt %s", d.Table, d.Key, d.Live, d.Rebuilt)
	}
	return fmt.Sprintf("table %s, row %s, column %s: live %s, rebuilt %s", d.Table, d.Key, d.Column, d.Live, d.Rebuilt)
}

// Verify folds the log from the beginning into scratch tables, up to where the live ones stand, and
// compares every column of every row, in the order of the primary keys. The live tables go on being read
// and folded meanwhile; one moment of them is compared. The progress may be nil.
//
// Errors: ErrNotStarted, ErrUnknown, sqlstore.ErrUnavailable, those of the log, ctx.Err(). What was found
// is in the Verifications, by name.
func (r *Runner) Verify(ctx context.Context, names []string, progress func(Progress)) ([]Verification, error) {
	models, err := r.named(names)
	if err != nil {
		return nil, err
	}
	v := &verifier{r: r, results: make(map[string]*Verification)}
	defer v.cleanUp(ctx)
	if err := v.begin(ctx, models); err != nil {
		return nil, fmt.Errorf("verify: %w", err)
	}
	c := &chaser{r: r, units: slices.Clone(v.scratch), progress: progress}
	if err := c.run(ctx, nil, func(ctx context.Context) error { return v.pin(ctx, c.units) }); err != nil {
		return nil, fmt.Errorf("verify: %w", err)
	}
	for g, cause := range c.failed {
		v.results[g.model.name].Err = fmt.Errorf("replay: %w", cause)
	}
	if err := v.compare(ctx); err != nil {
		return nil, fmt.Errorf("verify: %w", err)
	}
	out := make([]Verification, 0, len(v.results))
	for _, res := range v.results {
		out = append(out, *res)
	}
	slices.SortFunc(out, func(a, b Verification) int { return strings.Compare(a.Name, b.Name) })
	return out, nil
}

type verifier struct {
	r       *Runner
	scratch []*generation
	pairs   []pair
	moment  *sql.Tx // one state of the database that both sides are read from
	results map[string]*Verification
}

// pair is a live generation and the scratch one that should be its like.
type pair struct{ live, scratch *generation }

func (v *verifier) begin(ctx context.Context, models []*model) error {
	v.r.step.Lock()
	defer v.r.step.Unlock()
	return v.r.store.Write(ctx, func(tx *sqlstore.Tx) error {
		for _, m := range models {
			live := m.liveGeneration()
			v.results[m.name] = &Verification{Name: m.name}
			if live == nil {
				v.results[m.name].Err = ErrNotReady
				continue
			}
			v.results[m.name].Version = live.version.Number
			g, err := m.begin(ctx, tx, live.version, stateScratch)
			if err != nil {
				return err
			}
			v.scratch = append(v.scratch, g)
		}
		return nil
	})
}

// pin holds the moment at which live and scratch tables stand at one position. The main lane stands still.
func (v *verifier) pin(ctx context.Context, units []*generation) error {
	for _, g := range units {
		m, res := g.model, v.results[g.model.name]
		live := m.liveGeneration()
		switch {
		case live.version != g.version:
			res.Err = errors.New("a new version became live meanwhile; verify again")
			continue
		case live.position() != g.position():
			m.mu.Lock()
			f := m.failure
			m.mu.Unlock()
			cause := errors.New("it is catching up")
			if f != nil {
				cause = f.err
			}
			res.Err = &SetAsideError{Name: m.name, Position: live.position(), Err: cause}
			continue
		}
		if !live.readers.enter() {
			return fmt.Errorf("%s: live tables are retired", m.name)
		}
		v.pairs = append(v.pairs, pair{live: live, scratch: g})
	}
	tx, err := v.r.store.Read().BeginTx(ctx, &sql.TxOptions{ReadOnly: true})
	if err != nil {
		return fmt.Errorf("begin comparison: %w", sqlstore.Classify(err))
	}
	v.moment = tx
	for _, p := range v.pairs { // the first question fixes the moment
		res := v.results[p.live.model.name]
		if res.Position, err = readPosition(ctx, tx, p.live.model.name, p.live.number); err != nil {
			return sqlstore.Classify(err)
		}
	}
	return nil
}

func (v *verifier) compare(ctx context.Context) error {
	for _, p := range v.pairs {
		res := v.results[p.live.model.name]
		for _, table := range p.live.version.Tables {
			rows, diff, err := compareTable(ctx, v.moment, table, p)
			if err != nil {
				return fmt.Errorf("compare %s: %w", p.live.tables.names[table.Name], sqlstore.Classify(err))
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
	for _, p := range v.pairs {
		p.live.readers.leave()
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), cleanupTimeout)
	defer cancel()
	for _, g := range v.scratch {
		v.r.dropLogged(ctx, g)
	}
}

// compareTable walks both tables in the order of the primary key.
func compareTable(ctx context.Context, tx *sql.Tx, table Table, p pair) (rows int64, diff *Difference, err error) {
	a := &walk{tx: tx, name: p.live.tables.names[table.Name], key: table.Key}
	b := &walk{tx: tx, name: p.scratch.tables.names[table.Name], key: table.Key}
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

func compareRow(table Table, columns []string, left, right []any) *Difference {
	switch {
	case right == nil:
		return &Difference{Table: table.Name, Key: showKey(table.Key, columns, left), Live: "has it", Rebuilt: "has no more rows"}
	case left == nil:
		return &Difference{Table: table.Name, Key: showKey(table.Key, columns, right), Live: "has no more rows", Rebuilt: "has it"}
	}
	if l, r := showKey(table.Key, columns, left), showKey(table.Key, columns, right); l != r {
		return &Difference{Table: table.Name, Key: l, Live: "has it", Rebuilt: "has " + r + " in its place"}
	}
	for i, column := range columns {
		if !sameValue(left[i], right[i]) {
			return &Difference{
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
	tx      *sql.Tx
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
	rows, err := w.tx.QueryContext(ctx, fmt.Sprintf("%s ORDER BY %s LIMIT %d", query, key, compareRows), w.last...)
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
