// Package figures shares figures of processes among them: each process notes its own, and any reads the sum.
package figures

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"letterhead/internal/sqlstore"
)

const (
	// Every is how often a process should note its figures: as often as it is usually scraped, because some metrics are
	// read from the stores.
	Every = 15 * time.Second
	// counted is how long the figures of a process count after it noted them: it has probably ended.
	counted = 3 * Every

	create = `
CREATE TABLE IF NOT EXISTS process_figures (
	process TEXT   NOT NULL PRIMARY KEY,
	figures TEXT   NOT NULL,
	noted   BIGINT NOT NULL
)`
	prune = `DELETE FROM process_figures WHERE noted < $1`
	note  = `
INSERT INTO process_figures (process, figures, noted) VALUES ($1, $2, $3)
ON CONFLICT (process) DO UPDATE SET figures = excluded.figures, noted = excluded.noted`
	all = `SELECT figures FROM process_figures WHERE noted >= $1`
)

// Figures are numbers by name.
type Figures map[string]int64

// Table is the table of figures of processes.
type Table struct {
	store *sqlstore.Store
	now   func() time.Time // the clock that all processes follow
}

// New creates the table if it is missing. Errors: sqlstore.ErrUnavailable, sqlstore.ErrClosed, ctx.Err().
func New(ctx context.Context, store *sqlstore.Store, now func() time.Time) (*Table, error) {
	return &Table{store, now}, store.Create(ctx, create)
}

// Note notes the present figures of a process. Errors: as New.
func (t *Table) Note(ctx context.Context, process string, f Figures) error {
	text, err := json.Marshal(f)
	if err != nil {
		return err
	}
	now := t.now()
	return t.store.Write(ctx, func(tx *sqlstore.Tx) error {
		_, pruned := tx.ExecContext(ctx, prune, now.Add(-counted).UnixMicro())
		_, noted := tx.ExecContext(ctx, note, process, string(text), now.UnixMicro())
		return errors.Join(pruned, noted)
	})
}

// Sum adds up the figures of the processes that run, and counts these. Errors: as New.
func (t *Table) Sum(ctx context.Context) (sum Figures, processes int, err error) {
	sum = Figures{}
	err = sqlstore.EachRow(ctx, t.store.Read(), all, func(row sqlstore.Scanner) error {
		var text []byte
		if err := row.Scan(&text); err != nil {
			return err
		}
		var one Figures
		if err := json.Unmarshal(text, &one); err != nil {
			return err
		}
		for name, n := range one {
			sum[name] += n
		}
		processes++
		return nil
	}, t.now().Add(-counted).UnixMicro())
	if err != nil {
		return nil, 0, fmt.Errorf("read the figures of processes: %w", sqlstore.Classify(err))
	}
	return sum, processes, nil
}
