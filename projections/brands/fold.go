package brands

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"letterhead/domain/brand"
	"letterhead/internal/sqlstore"
	"letterhead/projections"
)

const (
	into    = `{brands} (domain, id, readable, status, name, claimed, quality, imported, has_logo, revision, position, due, body, state)`
	columns = 14
	upsert  = `ON CONFLICT (domain) DO UPDATE SET
	id = excluded.id, readable = excluded.readable, status = excluded.status, name = excluded.name,
	claimed = excluded.claimed, quality = excluded.quality, imported = excluded.imported, has_logo = excluded.has_logo,
	revision = excluded.revision, position = excluded.position, due = excluded.due, body = excluded.body, state = excluded.state`

	// keptReplaying and keptLive limit the states, of about 6 KiB each, that the fold keeps between batches. A replay,
	// whose batches are large, meets the same brands repeatedly; a live fold has time to read them.
	keptReplaying = 10_000
	keptLive      = 200
	largeBatch    = 500 // events
)

// folded is a row: the brand, and the position of the last event that changed its answer.
type folded struct {
	brand    *brand.Brand
	position int64
}

type fold struct {
	model  *Model
	tables *projections.Tables
	rows   *projections.Rows[string, folded]
}

func (m *Model) newFold(t *projections.Tables, empty bool) projections.Fold {
	load := func(ctx context.Context, q projections.Queryer, keys []string, found func(string, folded)) error {
		return projections.LoadRows(ctx, q, t.SQL(`SELECT domain, position, state FROM {brands} WHERE domain`), 1,
			projections.Texts(keys), func(row projections.Scanner) error {
				var domain string
				var state []byte
				var f folded
				if err := row.Scan(&domain, &f.position, &state); err != nil {
					return err
				}
				f.brand = brand.New(domain)
				if err := json.Unmarshal(state, f.brand); err != nil {
					return fmt.Errorf("state of %s: %w", domain, err)
				}
				found(domain, f)
				return nil
			})
	}
	return &fold{model: m, tables: t, rows: projections.NewRows(keptReplaying, empty, strings.Compare, load)}
}

// Fold implements projections.Fold. However many events of a brand are in the batch, its state and
// body are written once.
func (f *fold) Fold(ctx context.Context, q projections.Queryer,
	events []*projections.Event) (projections.Changes, error) {
	err := f.rows.Want(ctx, q, func(yield func(string) bool) {
		for _, e := range events {
			// The first event of a stream needs no row; an import of a data set consists only of such events.
			if e.Revision > 0 && !yield(e.Subject) {
				return
			}
		}
	})
	if err != nil {
		return projections.Changes{}, err
	}
	for _, e := range events {
		row := f.rows.Change(e.Subject)
		if row.brand == nil {
			row.brand = brand.New(e.Subject)
		}
		row.brand.Apply(e.Body, e.Revision, e.OccurredAt)
		if row.brand.ChangedAt(e.Revision) {
			row.position = int64(e.Position)
		}
	}
	if len(events) < largeBatch {
		f.rows.Keep(keptLive)
	} else {
		f.rows.Keep(keptReplaying)
	}
	return f.changes()
}

func (f *fold) changes() (projections.Changes, error) {
	values := make([]any, 0, f.rows.Changed()*columns)
	domains := make([]string, 0, f.rows.Changed())
	var errs []error
	f.rows.Take(func(domain string, row *folded) {
		var err error
		if values, err = f.appendRow(values, domain, row); err != nil {
			errs = append(errs, err)
		}
		domains = append(domains, domain)
	})
	if err := errors.Join(errs...); err != nil {
		return projections.Changes{}, err
	}
	return projections.Changes{
		Write: func(ctx context.Context, tx *sqlstore.Tx) error {
			return sqlstore.Insert(ctx, tx, f.tables.SQL(into), columns, upsert, values)
		},
		Committed: func(live bool) {
			if !live {
				return
			}
			for _, domain := range domains {
				f.model.cache.invalidate(domain)
			}
		},
	}, nil
}

func (f *fold) appendRow(values []any, domain string, row *folded) ([]any, error) {
	state, err := row.brand.MarshalJSON()
	if err != nil {
		return nil, fmt.Errorf("state of %s: %w", domain, err)
	}
	v := row.brand.View()
	if !row.brand.Known() || row.brand.Withdrawn() {
		return append(values, domain, v.ID, int64(0), v.Status, nil, int64(0), 0.0, int64(0), int64(0),
			int64(v.Revision), row.position, int64(0), []byte{}, state), nil
	}
	var name any
	if v.Record.Name != nil {
		name = *v.Record.Name
	}
	return append(values, domain, v.ID, int64(1), v.Status, name, number(v.Claimed), v.Record.QualityScore,
		number(row.brand.Imported() != nil), number(v.Record.HasLogo()), int64(v.Revision), row.position,
		due(row.brand), Render(v).marked, state), nil
}

// due returns the column of the next scheduled crawl.
func due(b *brand.Brand) int64 {
	if at, ok := b.NextCrawl(); ok {
		return at.Unix()
	}
	return 0
}

func number(b bool) int64 {
	if b {
		return 1
	}
	return 0
}

func (f *fold) Reset() { f.rows.Reset() }
