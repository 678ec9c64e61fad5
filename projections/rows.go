package projections

import (
	"context"
	"iter"
	"slices"

	"letterhead/internal/sqlstore"
)

// keysPerQuery limits the keys of one statement that loads rows.
const keysPerQuery = 500

// Loader reads the rows of at most keysPerQuery keys and passes each to found.
type Loader[K comparable, V any] func(ctx context.Context, q Queryer, keys []K, found func(K, V)) error

// Rows caches the rows of one table that a fold uses: read together, changed in memory, written together. It is for
// folds whose events change existing rows.
//
// Rows of the last batch are always kept, because the next batch is folded before they are written.
type Rows[K comparable, V any] struct {
	compare  func(a, b K) int
	load     Loader[K, V]
	limit    int
	batch    int // counts calls of Take
	kept     map[K]*row[V]
	changed  []K
	complete bool // kept has every row of the table
}

type row[V any] struct {
	value   V
	touched int // the last batch that wanted or changed it
	changed bool
}

// NewRows returns a cache that keeps about limit rows between batches. compare orders keys as the table's primary key
// does. If empty, the table has no rows, so nothing is read while all rows fit.
func NewRows[K comparable, V any](limit int, empty bool, compare func(a, b K) int, load Loader[K, V]) *Rows[K, V] {
	return &Rows[K, V]{compare: compare, load: load, limit: limit, complete: empty, kept: make(map[K]*row[V])}
}

// Want reads the rows with these keys that are not cached. Until the next Take, the table has no row for a key that was
// wanted and that Get does not return.
func (r *Rows[K, V]) Want(ctx context.Context, q Queryer, keys iter.Seq[K]) error {
	if r.complete {
		return nil
	}
	seen := make(map[K]struct{})
	var missing []K
	for k := range keys {
		if kept, ok := r.kept[k]; ok {
			kept.touched = r.batch
			continue
		}
		if _, twice := seen[k]; !twice {
			seen[k] = struct{}{}
			missing = append(missing, k)
		}
	}
	for part := range slices.Chunk(missing, keysPerQuery) {
		err := r.load(ctx, q, part, func(k K, v V) { r.kept[k] = &row[V]{value: v, touched: r.batch} })
		if err != nil {
			return err
		}
	}
	return nil
}

// Get returns a row to read, or nil if it does not exist. Use Change to change it.
func (r *Rows[K, V]) Get(k K) *V {
	kept, ok := r.kept[k]
	if !ok {
		return nil
	}
	return &kept.value
}

// Change returns a row to change; if the row does not exist, it creates a zero one.
func (r *Rows[K, V]) Change(k K) *V {
	kept, ok := r.kept[k]
	if !ok {
		kept = &row[V]{}
		r.kept[k] = kept
	}
	if !kept.changed {
		kept.changed = true
		r.changed = append(r.changed, k)
	}
	kept.touched = r.batch
	return &kept.value
}

// Take ends a batch: it passes each changed row to take, in the order of their keys, which is fast for the table's
// tree. take must copy the values that it keeps, because the row may change later.
func (r *Rows[K, V]) Take(take func(K, *V)) {
	slices.SortFunc(r.changed, r.compare)
	for _, k := range r.changed {
		kept := r.kept[k]
		kept.changed, kept.touched = false, r.batch
		take(k, &kept.value)
	}
	r.changed = r.changed[:0]
	r.trim()
	r.batch++
}

// Hold ends a batch, but leaves the changed rows to a later Take.
func (r *Rows[K, V]) Hold() {
	r.trim()
	r.batch++
}

// Changed returns the number of changed rows.
func (r *Rows[K, V]) Changed() int { return len(r.changed) }

// Keep sets the limit of NewRows.
func (r *Rows[K, V]) Keep(limit int) { r.limit = limit }

func (r *Rows[K, V]) trim() {
	if len(r.kept) <= r.limit {
		return
	}
	for k, kept := range r.kept {
		if kept.touched < r.batch && !kept.changed {
			delete(r.kept, k)
			r.complete = false
		}
	}
}

// Reset drops all rows.
func (r *Rows[K, V]) Reset() {
	clear(r.kept)
	r.changed = r.changed[:0]
	r.complete = false
}

// LoadRows runs a query that ends in IN and the keys, after a column or a list of columns in parentheses, and calls
// scan for each row. values has as many values per key as there are columns.
func LoadRows(ctx context.Context, q Queryer, query string, columns int, values []any,
	scan func(row Scanner) error) error {
	err := sqlstore.EachRow(ctx, q, query+" IN "+sqlstore.InValues(columns, values), scan, values...)
	return sqlstore.Wrap(err, "load rows")
}

// Texts returns keys of one text column as values for LoadRows.
func Texts(keys []string) []any {
	values := make([]any, len(keys))
	for i, k := range keys {
		values[i] = k
	}
	return values
}

// Subjects returns the subjects of events, which are the keys of many tables.
func Subjects(events []*Event) iter.Seq[string] {
	return func(yield func(string) bool) {
		for _, e := range events {
			if !yield(e.Subject) {
				return
			}
		}
	}
}
