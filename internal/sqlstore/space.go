package sqlstore

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
)

const (
	// reclaimPages is the number of pages (of 4 KiB) that one step of Reclaim frees. It moves at most as many, while
	// the writers of this process wait: 4 MiB, about ten milliseconds.
	reclaimPages = 1024
	// maxReclaimSteps limits one Reclaim to 4 TiB, in case the file grows meanwhile.
	maxReclaimSteps = 1 << 20
)

// Size is the space that tables use in a SQLite file, in bytes.
type Size struct {
	// Folder contains the file; "" for a server, whose space its administrator manages.
	Folder string
	// Tables is the size of the named tables and their indexes.
	Tables int64
	// Unused is the free space in the file; new rows use it first.
	Unused int64
}

// Size measures tables. It reads them once. Errors: ErrUnavailable, ErrCorrupt, ErrClosed, ctx.Err().
func (s *Store) Size(ctx context.Context, tables []string) (Size, error) {
	size, err := s.engine.size(ctx, tables)
	return size, Wrap(s.classify(err), "measure tables")
}

func (s *sqliteFile) size(ctx context.Context, tables []string) (Size, error) {
	size := Size{Folder: filepath.Dir(s.cfg.Path)}
	err := s.read.QueryRowContext(ctx,
		"SELECT freelist_count * page_size FROM pragma_freelist_count, pragma_page_size").Scan(&size.Unused)
	if err != nil {
		return Size{}, err
	}
	for _, table := range tables {
		var bytes int64
		err := s.read.QueryRowContext(ctx, `
SELECT coalesce(sum(d.pgsize), 0) FROM sqlite_schema AS s JOIN dbstat AS d ON d.name = s.name
WHERE s.tbl_name = $1 AND s.type IN ('table', 'index') AND d.aggregate = TRUE`, table).Scan(&bytes)
		if err != nil {
			return Size{}, err
		}
		size.Tables += bytes
	}
	return size, nil
}

func (p *postgres) size(context.Context, []string) (Size, error) { return Size{}, nil }

// Reclaim returns the free space of a SQLite file to the file system, in small steps between which others write, and
// returns its size. The file of an earlier release keeps the space for new rows: SQLite shrinks only files that were
// created for it. On PostgreSQL Reclaim does nothing: the server deletes the files of dropped tables. Errors:
// ErrUnavailable, ErrCorrupt, ErrClosed, ctx.Err().
func (s *Store) Reclaim(ctx context.Context) (bytes int64, err error) {
	bytes, err = s.engine.reclaim(ctx)
	return bytes, Wrap(s.classify(err), "reclaim space of the database")
}

func (s *sqliteFile) reclaim(ctx context.Context) (bytes int64, err error) {
	if s.cfg.ReadOnly {
		return 0, ErrReadOnly
	}
	for range maxReclaimSteps {
		freed, err := s.reclaimStep(ctx)
		if bytes += freed; freed == 0 || err != nil {
			return bytes, err
		}
		if err := ctx.Err(); err != nil {
			return bytes, err
		}
	}
	return bytes, errors.New("too many steps")
}

func (s *sqliteFile) reclaimStep(ctx context.Context) (freed int64, err error) {
	err = s.normal(ctx, func(tx *Tx) error {
		ctx := context.WithoutCancel(ctx) // no step is interrupted
		var before, after, pageBytes int64
		if err := tx.QueryRowContext(ctx, "SELECT page_count, page_size FROM pragma_page_count, pragma_page_size").Scan(
			&before, &pageBytes); err != nil {
			return err
		}
		rows, err := tx.QueryContext(ctx, fmt.Sprintf("PRAGMA incremental_vacuum(%d)", reclaimPages))
		if err != nil {
			return err
		}
		for rows.Next() { // each frees a page
		}
		if err := errors.Join(rows.Err(), rows.Close()); err != nil {
			return err
		}
		if err := tx.QueryRowContext(ctx, "SELECT page_count FROM pragma_page_count").Scan(&after); err != nil {
			return err
		}
		freed = (before - after) * pageBytes
		return nil
	})
	return freed, err
}

func (p *postgres) reclaim(context.Context) (int64, error) { return 0, nil }
