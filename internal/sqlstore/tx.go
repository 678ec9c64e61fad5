package sqlstore

import (
	"context"
	"database/sql"
	"strings"
	"unicode/utf8"
)

// Tx is a transaction of Write or WriteDurable. It must not be used after the function that got it has returned.
type Tx struct {
	tx    *sql.Tx
	store *Store
	// On PostgreSQL: the caller's context, the limit of the transaction, and its connection.
	parent, bound context.Context
	conn          *sql.Conn
	copies        int // temporary tables made so far
}

// bind returns a context that ends no later than the transaction.
func (tx *Tx) bind(ctx context.Context) context.Context {
	if tx.bound == nil {
		return ctx
	}
	if ctx.Done() == nil || ctx == tx.parent || ctx == tx.bound {
		return tx.bound
	}
	both, cancel := context.WithCancelCause(ctx)
	// Not stopped: bound ends with the transaction, until which rows may be read.
	context.AfterFunc(tx.bound, func() { cancel(tx.bound.Err()) })
	return both
}

// ExecContext is sql.Tx's. Texts are stored as Insert stores them.
func (tx *Tx) ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error) {
	return tx.tx.ExecContext(tx.bind(ctx), query, storableAll(args)...)
}

// QueryContext is sql.Tx's.
func (tx *Tx) QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error) {
	return tx.tx.QueryContext(tx.bind(ctx), query, storableAll(args)...)
}

// QueryRowContext is sql.Tx's.
func (tx *Tx) QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row {
	return tx.tx.QueryRowContext(tx.bind(ctx), query, storableAll(args)...)
}

// Create runs statements that create tables or indexes; see Store.DDL. The transaction must be one of Setup.
func (tx *Tx) Create(ctx context.Context, statements ...string) error {
	for _, statement := range statements {
		if _, err := tx.ExecContext(ctx, tx.store.DDL(statement)); err != nil {
			return err
		}
	}
	return nil
}

// AddColumn adds a column to the table of an earlier release, unless the table has it. The transaction must be one of
// Setup.
func (tx *Tx) AddColumn(ctx context.Context, table, column, kind string) error {
	has := `SELECT count(*) FROM pragma_table_info($1) WHERE name = $2`
	if tx.store.Shared() {
		has = `SELECT count(*) FROM information_schema.columns
WHERE table_schema = current_schema() AND table_name = $1 AND column_name = $2`
	}
	var columns int
	if err := tx.QueryRowContext(ctx, has, table, column).Scan(&columns); err != nil || columns > 0 {
		return err
	}
	_, err := tx.ExecContext(ctx, "ALTER TABLE "+table+" ADD COLUMN "+column+" "+kind)
	return err
}

// Storable returns a text that both engines can store: PostgreSQL accepts no NUL and only UTF-8, so each NUL and each
// run of other bytes becomes U+FFFD, on SQLite too, so that rows are the same on both.
func Storable(text string) string {
	if strings.IndexByte(text, 0) >= 0 {
		text = strings.ReplaceAll(text, "\x00", "\uFFFD")
	}
	if !utf8.ValidString(text) {
		text = strings.ToValidUTF8(text, "\uFFFD")
	}
	return text
}

// storableAll returns values with storable texts, or values itself if all are.
func storableAll(values []any) []any {
	copied := false
	for i, v := range values {
		text, ok := v.(string)
		if !ok {
			continue
		}
		if s := Storable(text); s != text {
			if !copied {
				values, copied = append([]any(nil), values...), true
			}
			values[i] = s
		}
	}
	return values
}
