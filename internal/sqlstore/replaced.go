package sqlstore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
)

// ErrLogReplaced: nothing was saved. A restore, a migration, or the acceptance of a loss of events by another process
// has replaced the log since this one opened the database. What it has read before must not be saved: positions only
// grow, so that the new log would seem to have lost events.
var ErrLogReplaced = errors.New(
	"the event log was replaced, or a loss of events was accepted, after this process had read it")

// CreateLogWork creates the table of the last replacement, and of the one that is under way (workers/loss).
const CreateLogWork = `CREATE TABLE IF NOT EXISTS log_work (name TEXT NOT NULL PRIMARY KEY, state TEXT NOT NULL)`

const readLogID = `SELECT state FROM log_work WHERE name = 'accepted'`
const writeLogID = `INSERT INTO log_work (name, state) VALUES ('accepted', $1) ON CONFLICT (name) DO `

// LogID returns the id of the last replacement that this process knows: as of Open, or its own. "" means none.
func (s *Store) LogID() string { return *s.logID.Load() }

// CurrentLogID returns the id of the last replacement. Errors: ErrUnavailable, ErrCorrupt, ErrClosed, ctx.Err().
func (s *Store) CurrentLogID(ctx context.Context) (id string, err error) {
	if err = s.Read().QueryRowContext(ctx, readLogID).Scan(&id); none(err) {
		return "", nil
	}
	return id, s.classify(err)
}

func none(err error) bool { return errors.Is(err, sql.ErrNoRows) || IsUndefinedTable(err) }

// learnLogID sets LogID. It creates the row, which CheckLogID locks, where other processes may replace the log.
func (s *Store) learnLogID(ctx context.Context) error {
	var id string
	err := s.Read().QueryRowContext(ctx, readLogID).Scan(&id)
	if none(err) && s.Shared() {
		err = s.writeLogID(ctx, "", "NOTHING", func(tx *Tx) error {
			return tx.QueryRowContext(ctx, readLogID).Scan(&id)
		})
	}
	if s.logID.Store(&id); none(err) {
		return nil
	}
	return s.classify(err)
}

func (s *Store) writeLogID(ctx context.Context, id, conflict string, fn func(*Tx) error) error {
	return s.Setup(ctx, func(tx *Tx) error {
		_, err := tx.ExecContext(ctx, s.DDL(CreateLogWork))
		if err == nil {
			_, err = tx.ExecContext(ctx, writeLogID+conflict, id)
		}
		if err != nil {
			return fmt.Errorf("record which log the database belongs to: %w", err)
		}
		return fn(tx)
	})
}

// ReplaceLog runs fn, which discards the data about the log, and records the replacement in the same transaction.
// Transactions with CheckLogID end before fn begins, or fail. Errors: as Setup, and those of fn.
func (s *Store) ReplaceLog(ctx context.Context, id string, fn func(*Tx) error) error {
	err := s.writeLogID(ctx, id, "UPDATE SET state = excluded.state", fn)
	if err == nil {
		s.logID.Store(&id)
	}
	return err
}

// CheckLogID fails with ErrLogReplaced if another process has replaced the log. None can until the transaction ends.
func (tx *Tx) CheckLogID(ctx context.Context) error {
	query := readLogID
	if tx.store.Shared() {
		query += " FOR SHARE"
	}
	var id string
	if err := tx.QueryRowContext(ctx, query).Scan(&id); err != nil && !none(err) {
		return fmt.Errorf("read which log the database belongs to: %w", err)
	}
	if id != tx.store.LogID() {
		return ErrLogReplaced
	}
	return nil
}
