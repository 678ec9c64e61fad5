package engine_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"sync"

	"letterhead/domain/account"
	"letterhead/eventschemas"
	"letterhead/internal/sqlstore"
	"letterhead/projections"
)

// toy counts the charges of accounts. Version 2 counts them double, in another column of another table. Tests can
// make it fail.
type toy struct {
	handle   *projections.Handle
	name     string
	versions []int
	raised   bool // each version starts with the data format of the same number
	strict   bool

	mu        sync.Mutex
	broken    func(e *projections.Event) error // nil if nothing fails
	folds     int                              // batches folded
	gates     map[int]chan struct{}            // a version with a gate folds when it is closed
	brokenNew error                            // the error of folding version 2
	// write, if not nil, is called before a batch is written that ends with an event of this revision.
	write func(last uint64) error
	// swap, if not nil, is called before rows are repaired, in the same transaction.
	swap func() error
}

func newToy(name string, store *sqlstore.Store, versions ...int) *toy {
	return &toy{name: name, handle: projections.NewHandle(name, store), versions: versions}
}

func (p *toy) Name() string                { return p.name }
func (p *toy) Handle() *projections.Handle { return p.handle }

func (p *toy) Versions() []projections.Version {
	var all []projections.Version
	for _, n := range p.versions {
		format := 0
		if p.raised {
			format = n
		}
		all = append(all, projections.Version{
			Number: n, Format: format, Streams: []string{account.StreamPrefix}, Strict: p.strict,
			Tables: []projections.Table{{
				Name:    p.table(n),
				Create:  fmt.Sprintf(`CREATE TABLE {%s} (account TEXT NOT NULL PRIMARY KEY, v%d BIGINT NOT NULL)`, p.table(n), n),
				Indexes: []string{fmt.Sprintf(`CREATE INDEX IF NOT EXISTS {%s}_by_count ON {%[1]s} (v%d)`, p.table(n), n)},
				Key:     []string{"account"},
			}},
			NewFold: func(t *projections.Tables, empty bool) projections.Fold { return p.newFold(t, n, empty) },
		})
	}
	return all
}

func (p *toy) table(version int) string { return fmt.Sprintf("counts%d", version) }

func (p *toy) breakAt(broken func(e *projections.Event) error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.broken = broken
}

func (p *toy) breakNew(err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.brokenNew = err
}

func (p *toy) breakWrite(write func(last uint64) error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.write = write
}

func (p *toy) breakSwap(swap func() error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.swap = swap
}

// Swap implements projections.Swapper.
func (p *toy) Swap(context.Context, *sqlstore.Tx, *projections.Tables) error {
	p.mu.Lock()
	swap := p.swap
	p.mu.Unlock()
	if swap == nil {
		return nil
	}
	return swap()
}

// count returns the number of an account's charges in the live tables, and the tables' version.
func (p *toy) count(account string) (n int64, version int, err error) {
	err = p.handle.Read(func(q projections.Queryer, t *projections.Tables) error {
		version = t.Version
		err := q.QueryRowContext(context.Background(),
			t.SQL(fmt.Sprintf(`SELECT v%d FROM {%s} WHERE account = $1`, version, p.table(version))), account).Scan(&n)
		if errors.Is(err, sql.ErrNoRows) {
			return nil
		}
		return err
	})
	return n / int64(max(version, 1)), version, err
}

type toyFold struct {
	p       *toy
	tables  *projections.Tables
	version int
	rows    *projections.Rows[string, int64]
}

func (p *toy) newFold(t *projections.Tables, version int, empty bool) projections.Fold {
	load := func(ctx context.Context, q projections.Queryer, keys []string, found func(string, int64)) error {
		return projections.LoadRows(ctx, q, t.SQL(fmt.Sprintf(`SELECT account, v%d FROM {%s} WHERE account`, version, p.table(version))), 1,
			projections.Texts(keys), func(row projections.Scanner) error {
				var account string
				var n int64
				if err := row.Scan(&account, &n); err != nil {
					return err
				}
				found(account, n)
				return nil
			})
	}
	return &toyFold{p: p, tables: t, version: version, rows: projections.NewRows(3, empty, strings.Compare, load)}
}

func (f *toyFold) Fold(ctx context.Context, q projections.Queryer, events []*projections.Event) (projections.Changes, error) {
	f.p.mu.Lock()
	f.p.folds++
	broken, gate, write, brokenNew := f.p.broken, f.p.gates[f.version], f.p.write, f.p.brokenNew
	f.p.mu.Unlock()
	if gate != nil {
		<-gate
	}
	if f.version == 2 && brokenNew != nil {
		return projections.Changes{}, brokenNew
	}
	if err := f.rows.Want(ctx, q, func(yield func(string) bool) {
		for _, e := range events {
			if !yield(e.Subject) {
				return
			}
		}
	}); err != nil {
		return projections.Changes{}, err
	}
	for _, e := range events {
		if broken != nil {
			if err := broken(e); err != nil {
				return projections.Changes{}, e.Errorf("%w", err)
			}
		}
		if _, ok := e.Body.(eventschemas.CreditsCharged); ok {
			*f.rows.Change(e.Subject) += int64(f.version)
		}
	}
	before := func() error {
		if write == nil || len(events) == 0 {
			return nil
		}
		return write(events[len(events)-1].Revision)
	}
	if f.tables.Keep(f.rows.Changed()) {
		f.rows.Hold()
		return projections.Changes{Write: func(context.Context, *sqlstore.Tx) error { return before() }}, nil
	}
	var values []any
	f.rows.Take(func(account string, n *int64) { values = append(values, account, *n) })
	return projections.Changes{Unchanged: len(values) == 0, Write: func(ctx context.Context, tx *sqlstore.Tx) error {
		if err := before(); err != nil {
			return err
		}
		return sqlstore.Insert(ctx, tx, f.tables.SQL(fmt.Sprintf(`{%s} (account, v%d)`, f.p.table(f.version), f.version)), 2,
			fmt.Sprintf(`ON CONFLICT (account) DO UPDATE SET v%d = excluded.v%[1]d`, f.version), values)
	}}, nil
}

func (f *toyFold) Reset() { f.rows.Reset() }
