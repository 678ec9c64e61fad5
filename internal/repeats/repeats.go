// Package repeats remembers the answers to requests with an idempotency key, so that a repeated request gets the first
// answer. The table is not a read model and not in backups: the decisions behind the requests recognize a repeat by ids
// that follow from the key, also when the table is lost.
package repeats

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"letterhead/internal/sqlstore"
)

// Window is how long an answer is remembered.
const Window = 24 * time.Hour

// ErrMismatch means that the key was used for another request.
var ErrMismatch = errors.New("idempotency key was used for another request")

const (
	create = `
CREATE TABLE IF NOT EXISTS operator_requests (
	caller  TEXT   NOT NULL,
	key     TEXT   NOT NULL,
	request TEXT   NOT NULL,
	at      BIGINT NOT NULL,
	status  BIGINT NOT NULL,
	answer  TEXT   NOT NULL,
	PRIMARY KEY (caller, key)
)`
	prune   = `DELETE FROM operator_requests WHERE at < $1`
	insert  = `INSERT INTO operator_requests (caller, key, request, at, status, answer) VALUES ($1, $2, $3, $4, 0, '') ON CONFLICT (caller, key) DO NOTHING`
	get     = `SELECT request, status, answer FROM operator_requests WHERE caller = $1 AND key = $2`
	finish  = `UPDATE operator_requests SET status = $4, answer = $5 WHERE caller = $1 AND key = $2 AND request = $3`
	release = `DELETE FROM operator_requests WHERE caller = $1 AND key = $2 AND request = $3 AND at = $4 AND status = 0`
)

// Table stores the requests. It is safe for concurrent use.
type Table struct{ store *sqlstore.Store }

// New creates the table if it is missing.
func New(ctx context.Context, store *sqlstore.Store) (*Table, error) {
	if err := store.Create(ctx, create); err != nil {
		return nil, fmt.Errorf("create the table of requests: %w", err)
	}
	return &Table{store: store}, nil
}

// Request is a request with an idempotency key.
type Request struct {
	Caller string // the keys of different callers are different
	Key    string // hash of the key
	Hash   string // of the request
	At     time.Time
}

// Answer is the first answer to a request.
type Answer struct {
	Status int // 0 if there is none yet: the request is running, or its process ended
	Body   string
}

// Begin records a request and forgets old ones, or returns the answer that the same request got before. Errors:
// ErrMismatch, sqlstore.ErrUnavailable, sqlstore.ErrClosed, ctx.Err().
func (t *Table) Begin(ctx context.Context, r Request) (Answer, error) {
	var before Answer
	var hash string
	err := t.store.Write(ctx, func(tx *sqlstore.Tx) error {
		before, hash = Answer{}, r.Hash
		if _, err := tx.ExecContext(ctx, prune, r.At.Add(-Window).UnixMicro()); err != nil {
			return err
		}
		if _, err := tx.ExecContext(ctx, insert, r.Caller, r.Key, r.Hash, r.At.UnixMicro()); err != nil {
			return err
		}
		err := tx.QueryRowContext(ctx, get, r.Caller, r.Key).Scan(&hash, &before.Status, &before.Body)
		if errors.Is(err, sql.ErrNoRows) { // another node inserted it after this transaction began
			return nil
		}
		return err
	})
	if err != nil {
		return Answer{}, fmt.Errorf("record a request: %w", err)
	}
	if hash != r.Hash {
		return Answer{}, ErrMismatch
	}
	return before, nil
}

// Finish records the answer to a request that was begun, unless its key belongs to another request by now. Errors: as
// Begin, without ErrMismatch.
func (t *Table) Finish(ctx context.Context, r Request, a Answer) error {
	return t.change(ctx, finish, r.Caller, r.Key, r.Hash, a.Status, a.Body)
}

// Release forgets a request that was rejected, so that its key may be used again. If the same request was running
// already when this one began, that one keeps the key. Errors: as Finish.
func (t *Table) Release(ctx context.Context, r Request) error {
	return t.change(ctx, release, r.Caller, r.Key, r.Hash, r.At.UnixMicro())
}

func (t *Table) change(ctx context.Context, statement string, args ...any) error {
	err := t.store.Write(ctx, func(tx *sqlstore.Tx) error {
		_, err := tx.ExecContext(ctx, statement, args...)
		return err
	})
	if err != nil {
		return fmt.Errorf("record the answer to a request: %w", err)
	}
	return nil
}
