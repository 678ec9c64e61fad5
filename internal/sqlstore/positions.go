package sqlstore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"letterhead/internal/eventlog"
)

const createPositions = `
CREATE TABLE IF NOT EXISTS positions (
	name     TEXT   NOT NULL PRIMARY KEY,
	position BIGINT NOT NULL
)`

const savePosition = `
INSERT INTO positions (name, position) VALUES ($1, $2)
ON CONFLICT (name) DO UPDATE SET position = excluded.position
WHERE positions.position < excluded.position`

const resetPosition = `
INSERT INTO positions (name, position) VALUES ($1, $2)
ON CONFLICT (name) DO UPDATE SET position = excluded.position`

// Positions stores the positions of readers of the log that have no tables: relays and workers. They are
// disposable: a reader without a position chooses where to begin, and repeats are harmless. A process that has read
// another log cannot save one (ErrLogReplaced).
type Positions struct{ store *Store }

// NewPositions creates the table if it is missing.
func NewPositions(ctx context.Context, store *Store) (*Positions, error) {
	if err := store.Create(ctx, createPositions); err != nil {
		return nil, fmt.Errorf("create table of positions: %w", err)
	}
	return &Positions{store: store}, nil
}

// Load returns the position saved under a name. Errors: ErrUnavailable, ErrCorrupt, ErrClosed, ctx.Err().
func (p *Positions) Load(ctx context.Context, name string) (position eventlog.Position, found bool, err error) {
	var at int64
	err = p.store.Read().QueryRowContext(ctx, "SELECT position FROM positions WHERE name = $1", name).Scan(&at)
	if errors.Is(err, sql.ErrNoRows) {
		return 0, false, nil
	}
	if err != nil {
		return 0, false, fmt.Errorf("load position of %s: %w", name, p.store.classify(err))
	}
	return eventlog.Position(at), true, nil
}

// Save stores a position unless a later one is stored. Errors: ErrLogReplaced, ErrUnavailable, ErrCorrupt, ErrClosed,
// ctx.Err() if it ended before the writer was free.
func (p *Positions) Save(ctx context.Context, name string, position eventlog.Position) error {
	return p.write(ctx, savePosition, name, position)
}

// Reset stores a position even if a later one is stored: after another log was put in place, stored positions do not
// belong to it, and Save would store nothing until the log is as long. Errors: as Save.
func (p *Positions) Reset(ctx context.Context, name string, position eventlog.Position) error {
	return p.write(ctx, resetPosition, name, position)
}

func (p *Positions) write(ctx context.Context, query, name string, position eventlog.Position) error {
	err := p.store.Write(ctx, func(tx *Tx) error {
		if err := tx.CheckLogID(ctx); err != nil {
			return err
		}
		_, err := tx.ExecContext(ctx, query, name, int64(position))
		return err
	})
	if err != nil {
		return fmt.Errorf("save position of %s: %w", name, err)
	}
	return nil
}
