package engine

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"letterhead/internal/sqlstore"
	"letterhead/projections"
)

// errLiveTables: the live tables cannot be read, though the database is available.
var errLiveTables = errors.New("the live tables cannot be read")

// shownDifferences limits the rows of a table that a Comparison shows.
const shownDifferences = 5

// compareTable reads both tables in the order of the primary key and counts the rows that differ, up to most of them if
// that is not 0. Both have the same columns.
func compareTable(ctx context.Context, moment, now projections.Queryer, table projections.Table, p pair,
	most int) (out projections.TableComparison, err error) {
	a := &walk{q: moment, name: p.live.tables.Name(table.Name), key: table.Key, limit: compareRows}
	b := &walk{q: now, name: p.scratch.tables.Name(table.Name), key: table.Key, limit: compareRows}
	defer a.stop()
	defer b.stop()
	out.Table = table.Name
	var live, rebuilt []any
	for order := 0; ; {
		if order <= 0 {
			if live, err = a.next(ctx); err != nil {
				return out, unreadable(ctx, err)
			}
		}
		if order >= 0 {
			if rebuilt, err = b.next(ctx); err != nil {
				return out, err
			}
		}
		if live == nil && rebuilt == nil {
			return out, nil
		}
		var diff *projections.Difference
		switch order = compareKeys(table.Key, a.columns, live, rebuilt); {
		case order < 0:
			out.OnlyLive++
			diff = &projections.Difference{Table: table.Name, Key: showKey(table.Key, a.columns, live), Live: "has it",
				Rebuilt: "lacks it"}
		case order > 0:
			out.OnlyRebuilt++
			diff = &projections.Difference{Table: table.Name, Key: showKey(table.Key, a.columns, rebuilt),
				Live: "lacks it", Rebuilt: "has it"}
		default:
			if diff = compareRow(table, a.columns, live, rebuilt); diff == nil {
				out.Same++
				continue
			}
			out.Changed++
		}
		if len(out.First) < shownDifferences {
			out.First = append(out.First, *diff)
		}
		if len(out.First) == most {
			return out, nil
		}
	}
}

// unreadable marks an error of reading the live tables, unless the database is unavailable or ctx has ended.
func unreadable(ctx context.Context, err error) error {
	if err = sqlstore.Classify(err); ctx.Err() != nil || errors.Is(err, sqlstore.ErrUnavailable) {
		return err
	}
	return fmt.Errorf("%w: %w", errLiveTables, err)
}

// compareKeys compares the keys of two rows as the databases do, which compare text by its bytes; no row comes last.
func compareKeys(key, columns []string, left, right []any) int {
	switch {
	case left == nil:
		return 1
	case right == nil:
		return -1
	}
	for _, k := range key {
		i := slices.Index(columns, k)
		if order := compareValues(left[i], right[i]); order != 0 {
			return order
		}
	}
	return 0
}

// compareValues compares values of a key column: text or integers.
func compareValues(a, b any) int {
	if a, ok := a.(int64); ok {
		if b, ok := b.(int64); ok {
			return cmp.Compare(a, b)
		}
	}
	return strings.Compare(fmt.Sprintf("%s", a), fmt.Sprintf("%s", b))
}
