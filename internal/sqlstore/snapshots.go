package sqlstore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
)

// MaxSnapshotBytes bounds one stored state. A larger one is refused: folding the stream's end again is
// cheaper than reading it.
const MaxSnapshotBytes = 16 << 20

// ErrSnapshotTooLarge: the state is past MaxSnapshotBytes; nothing was stored.
var ErrSnapshotTooLarge = errors.New("snapshot is too large")

const createSnapshots = `
CREATE TABLE IF NOT EXISTS snapshots (
	stream       TEXT   NOT NULL PRIMARY KEY,
	fold_version BIGINT NOT NULL,
	revision     BIGINT NOT NULL,
	state        BYTEA  NOT NULL
)`

// An older revision must not overwrite a newer one of the same fold: two nodes, or a slow goroutine,
// may save out of order.
const saveSnapshot = `
INSERT INTO snapshots (stream, fold_version, revision, state) VALUES ($1, $2, $3, $4)
ON CONFLICT (stream) DO UPDATE SET
	fold_version = excluded.fold_version, revision = excluded.revision, state = excluded.state
WHERE snapshots.fold_version <> excluded.fold_version OR snapshots.revision < excluded.revision`

// Snapshots keeps folded states of streams, so that a long stream need not be read from its beginning.
// They are disposable: whoever finds none folds the stream. One state is kept for a stream.
type Snapshots struct{ store *Store }

// NewSnapshots makes the table when it is missing.
func NewSnapshots(ctx context.Context, store *Store) (*Snapshots, error) {
	err := store.Setup(ctx, func(tx *Tx) error {
		_, err := tx.ExecContext(ctx, store.DDL(createSnapshots))
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("create table of snapshots: %w", err)
	}
	return &Snapshots{store: store}, nil
}

// Load returns the state of a stream after the event with the returned revision, when one was saved by
// this version of the fold. Errors: ErrUnavailable, ErrCorrupt, ctx.Err().
func (s *Snapshots) Load(ctx context.Context, stream string, foldVersion int) (revision uint64, state []byte, found bool, err error) {
	var rev int64
	err = s.store.Read().QueryRowContext(ctx,
		"SELECT revision, state FROM snapshots WHERE stream = $1 AND fold_version = $2", stream, foldVersion).Scan(&rev, &state)
	if errors.Is(err, sql.ErrNoRows) {
		return 0, nil, false, nil
	}
	if err != nil {
		return 0, nil, false, fmt.Errorf("load snapshot of %s: %w", stream, s.store.classify(err))
	}
	return uint64(rev), state, true, nil
}

// Save keeps the state of a stream after the event with that revision, unless a newer state of the same
// fold version is there. Errors: ErrSnapshotTooLarge, ErrUnavailable, ErrClosed, ctx.Err().
func (s *Snapshots) Save(ctx context.Context, stream string, foldVersion int, revision uint64, state []byte) error {
	if len(state) > MaxSnapshotBytes {
		return fmt.Errorf("save snapshot of %s with %d bytes: %w", stream, len(state), ErrSnapshotTooLarge)
	}
	if state == nil {
		state = []byte{}
	}
	err := s.store.Write(ctx, func(tx *Tx) error {
		_, err := tx.ExecContext(ctx, saveSnapshot, stream, foldVersion, int64(revision), state)
		return err
	})
	if err != nil {
		return fmt.Errorf("save snapshot of %s: %w", stream, err)
	}
	return nil
}
