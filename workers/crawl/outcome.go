package crawl

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"letterhead/domain/brand"
	"letterhead/internal/safehttp"
	"letterhead/internal/sqlstore"
)

// Failure reports a crawl without a result. Outcome is one of the brand's failures.
type Failure struct {
	Outcome string
	Detail  string // one sentence for operators, without fetched content
	Err     error  // the cause, or nil
}

func (f *Failure) Error() string { return f.Outcome + ": " + f.Detail }

// Unwrap returns the cause.
func (f *Failure) Unwrap() error { return f.Err }

// failed returns the outcome of a home page that could not be fetched. asked is the requested host: the target of a
// redirect may not exist although the domain does.
func failed(asked string, err error) *Failure {
	var dns *safehttp.DNSError
	detail := "The home page could not be fetched: " + safehttp.Reason(err) + "."
	switch {
	case errors.Is(err, errRulesUnavailable):
		return &Failure{Outcome: brand.FetchFailed, Detail: rulesUnavailable, Err: err}
	case errors.As(err, &dns) && dns.NotFound && dns.Host == asked:
		return &Failure{Outcome: brand.DNS, Detail: "The domain has no address.", Err: err}
	case errors.As(err, &dns) && dns.Timeout, errors.Is(err, safehttp.ErrTimeout), errors.Is(err, errSlowConnect),
		errors.Is(err, context.DeadlineExceeded):
		return &Failure{Outcome: brand.Timeout, Detail: "The home page did not answer in time.", Err: err}
	}
	return &Failure{Outcome: brand.FetchFailed, Detail: detail, Err: err}
}

// elsewhere reports whether the site may respond at another of its URLs: no web server has responded yet.
func elsewhere(err error) bool {
	if dns, ok := errors.AsType[*safehttp.DNSError](err); ok {
		return !dns.Timeout
	}
	kinds := []error{
		safehttp.ErrRefused, safehttp.ErrReset, safehttp.ErrUnreachable, safehttp.ErrTLS,
		safehttp.ErrTimeout, errSlowConnect,
	}
	return slices.ContainsFunc(kinds, func(kind error) bool { return errors.Is(err, kind) })
}

func noData(format string, args ...any) *Failure {
	return &Failure{Outcome: brand.NoData, Detail: fmt.Sprintf(format, args...)}
}

const (
	// attemptKept is how long an attempt is remembered: longer than any crawl may take after its request.
	attemptKept = 2 * time.Hour
	pruneEvery  = 10 * time.Minute // the time between two deletions of older attempts by one process
)

const (
	createAttempts = `
CREATE TABLE IF NOT EXISTS crawl_attempts (
	crawl_id TEXT   NOT NULL PRIMARY KEY,
	attempt  TEXT   NOT NULL,
	begun    BIGINT NOT NULL
)`
	noteAttempt   = `INSERT INTO crawl_attempts (crawl_id, attempt, begun) VALUES ($1, $2, $3) ON CONFLICT (crawl_id) DO NOTHING`
	readAttempt   = `SELECT attempt FROM crawl_attempts WHERE crawl_id = $1`
	readBegun     = `SELECT coalesce(max(begun), 0) FROM crawl_attempts WHERE crawl_id = $1`
	pruneAttempts = `DELETE FROM crawl_attempts WHERE begun < $1`
)

// Attempts is the table of crawls that were begun. The brand's stream counts requests, and this table ensures that each
// is worked on once. It is safe for concurrent use.
type Attempts struct {
	store *sqlstore.Store
	now   func() time.Time

	mu     sync.Mutex
	pruned time.Time
}

// NewAttempts creates the table if it is missing. Errors: sqlstore.ErrUnavailable, sqlstore.ErrClosed, ctx.Err().
func NewAttempts(ctx context.Context, store *sqlstore.Store, now func() time.Time) (*Attempts, error) {
	err := store.Setup(ctx, func(tx *sqlstore.Tx) error {
		_, err := tx.ExecContext(ctx, store.DDL(createAttempts))
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("create table of crawl attempts: %w", err)
	}
	return &Attempts{store: store, now: now}, nil
}

// Begin implements Noted. Errors: sqlstore.ErrUnavailable, sqlstore.ErrClosed, ctx.Err().
func (a *Attempts) Begin(ctx context.Context, crawlID, attempt string) (bool, error) {
	now := a.now()
	prune := a.pruneDue(now)
	var noted string
	err := a.store.WriteDurable(ctx, func(tx *sqlstore.Tx) error {
		if prune {
			if _, err := tx.ExecContext(ctx, pruneAttempts, now.Add(-attemptKept).UnixMicro()); err != nil {
				return err
			}
		}
		if _, err := tx.ExecContext(ctx, noteAttempt, crawlID, attempt, now.UnixMicro()); err != nil {
			return err
		}
		return tx.QueryRowContext(ctx, readAttempt, crawlID).Scan(&noted)
	})
	if err != nil {
		return false, fmt.Errorf("record that crawl %s begins: %w", crawlID, err)
	}
	return noted == attempt, nil
}

// Begun returns when a crawl was begun; zero if it was not, or before attemptKept. Errors: as Begin.
func (a *Attempts) Begun(ctx context.Context, crawlID string) (time.Time, error) {
	var begun int64
	err := a.store.Read().QueryRowContext(ctx, readBegun, crawlID).Scan(&begun)
	if err != nil || begun == 0 {
		return time.Time{}, sqlstore.Classify(err)
	}
	return time.UnixMicro(begun), nil
}

func (a *Attempts) pruneDue(now time.Time) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if now.Sub(a.pruned) < pruneEvery {
		return false
	}
	a.pruned = now
	return true
}
