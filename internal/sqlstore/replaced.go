package sqlstore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
)

// An accepted loss of events, a restore and a migration replace the event log. Positions and revisions that a process
// has read before do not belong to the new log. They must not be saved any more, because saved ones only grow: the new
// log would seem to have lost events. Each replacement has an id, which a transaction that saves one compares.

// ErrLogReplaced: nothing was saved, because another process has replaced the event log since this one opened the
// database.
var ErrLogReplaced = errors.New(
	"the event log was replaced, or a loss of events was accepted, after this process had read it")

// CreateLogWork creates the table of the last replacement, and of the one that is under way (workers/loss).
const CreateLogWork = `CREATE TABLE IF NOT EXISTS log_work (name TEXT NOT NULL PRIMARY KEY, state TEXT NOT NULL)`

// The row exists before the first replacement, because CheckLogID locks it.
const noReplacement = `INSERT INTO log_work (name, state) VALUES ('accepted', '') ON CONFLICT (name) DO NOTHING`

const replaceLog = `
INSERT INTO log_work (name, state) VALUES ('accepted', $1) ON CONFLICT (name) DO UPDATE SET state = excluded.state`

const readLogID = `SELECT state FROM log_work WHERE name = 'accepted'`

// LogID returns the id of the last replacement that this process knows: as of Open, or its own. "" means none.
func (s *Store) LogID() string { return *s.logID.Load() }

// CurrentLogID returns the id of the last replacement. Errors: ErrUnavailable, ErrCorrupt, ErrClosed, ctx.Err().
func (s *Store) CurrentLogID(ctx context.Context) (id string, err error) {
	err = s.Read().QueryRowContext(ctx, readLogID).Scan(&id)
	if errors.Is(err, sql.ErrNoRows) || IsUndefinedTable(err) {
		return "", nil
	}
	if err != nil {
		return "", fmt.Errorf("read which log the database belongs to: %w", s.classify(err))
	}
	return id, nil
}

// learnLogID sets LogID, and creates its row where other processes may replace the log.
func (s *Store) learnLogID(ctx context.Context) error {
	id, err := s.CurrentLogID(ctx)
	if err == nil && id == "" && s.Shared() {
		err = s.Setup(ctx, func(tx *Tx) error {
			for _, query := range []string{s.DDL(CreateLogWork), noReplacement} {
				if _, err := tx.ExecContext(ctx, query); err != nil {
					return err
				}
			}
			return tx.QueryRowContext(ctx, readLogID).Scan(&id)
		})
	}
	s.logID.Store(&id)
	return err
}

// ReplaceLog runs fn, which discards the data about the log, and records the replacement in the same transaction.
// Transactions that compare the id end before fn begins, or fail. Errors: as Setup, and those of fn.
func (s *Store) ReplaceLog(ctx context.Context, id string, fn func(*Tx) error) error {
	err := s.Setup(ctx, func(tx *Tx) error {
		if _, err := tx.ExecContext(ctx, s.DDL(CreateLogWork)); err != nil {
			return fmt.Errorf("create the table of replacements of the log: %w", err)
		}
		if _, err := tx.ExecContext(ctx, replaceLog, id); err != nil {
			return fmt.Errorf("record the replacement of the log: %w", err)
		}
		return fn(tx)
	})
	if err == nil {
		s.logID.Store(&id)
	}
	return err
}

// CheckLogID fails with ErrLogReplaced if another process has replaced the log, which none can do until the
// transaction ends.
func (tx *Tx) CheckLogID(ctx context.Context) error {
	query := readLogID
	if tx.store.Shared() {
		query += " FOR SHARE"
	}
	var id string
	err := tx.QueryRowContext(ctx, query).Scan(&id)
	if err != nil && !errors.Is(err, sql.ErrNoRows) && !IsUndefinedTable(err) {
		return fmt.Errorf("read which log the database belongs to: %w", err)
	}
	if id != tx.store.LogID() {
		return ErrLogReplaced
	}
	return nil
}
