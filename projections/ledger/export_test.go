package ledger

import (
	"context"
	"strings"

	"letterhead/projections"
)

// SetMoved sets how many entries a copy of the log may have between two that were swapped.
func (m *Model) SetMoved(entries int) { m.moved = entries }

// SetScanned sets how many entries Latest looks at.
func (m *Model) SetScanned(entries int64) { m.scanned = entries }

// Explain returns the database's plan for reading a page of entries.
func (m *Model) Explain(ctx context.Context, accountID string, f Filter) string {
	where, args := f.pageConditions(accountID, f.FromRevision, pageRows)
	return m.explain(ctx, where, args...)
}

// ExplainRare returns the database's plan for reading entries of a rare type.
func (m *Model) ExplainRare(ctx context.Context, typ string) string {
	return m.explain(ctx, rareConditions(typ), 1, 7)
}

func (m *Model) explain(ctx context.Context, where string, args ...any) string {
	var plan strings.Builder
	err := m.Handle().Read(func(q projections.Queryer, t *projections.Tables) error {
		args, err := bind(ctx, q, t, args)
		if err != nil {
			return err
		}
		rows, err := q.QueryContext(ctx, "EXPLAIN QUERY PLAN "+sqlFor(t, selectEntries+where), args...)
		if err != nil {
			return err
		}
		defer rows.Close()
		for rows.Next() {
			var id, parent, unused int
			var detail string
			if err := rows.Scan(&id, &parent, &unused, &detail); err != nil {
				return err
			}
			plan.WriteString(detail + "\n")
		}
		return rows.Err()
	})
	if err != nil {
		return err.Error()
	}
	return plan.String()
}

// PageAfter reads a page of entries; change is called after the arguments of the query were bound.
func (m *Model) PageAfter(ctx context.Context, accountID string, f Filter, change func()) (page []Entry, err error) {
	where, args := f.pageConditions(accountID, f.FromRevision, pageRows)
	err = m.Handle().Read(func(q projections.Queryer, t *projections.Tables) error {
		bound, err := bind(ctx, q, t, args)
		if err != nil {
			return err
		}
		change()
		page, err = query(ctx, q, t, where, bound...)
		return err
	})
	return page, err
}

var Pack = pack

// Unpack reads the id that a column has.
func Unpack(stored []byte) (id string, err error) {
	err = column{text: &id}.Scan(stored)
	return id, err
}
