package engine

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"regexp"
	"time"

	"letterhead/internal/sqlstore"
	"letterhead/projections"
)

const createFormat = `
CREATE TABLE IF NOT EXISTS projections_format (
	id              INTEGER PRIMARY KEY CHECK (id = 1),
	in_force        BIGINT  NOT NULL,
	requested       BIGINT  NOT NULL, -- by an operator who finishes an upgrade; 0 for none
	requested_until BIGINT  NOT NULL  -- in microseconds since 1970
)`

// format is the row of projections_format, which a shared database has.
type format struct {
	inForce, requested int
	until              time.Time
}

// requestedAt returns the data format that an operator requests at a time, or 0.
func (f format) requestedAt(now time.Time) int {
	if now.After(f.until) {
		return 0
	}
	return f.requested
}

// readFormat returns the zero format if none is recorded.
func readFormat(ctx context.Context, q projections.Queryer) (format, error) {
	var f format
	var until int64
	err := q.QueryRowContext(ctx,
		"SELECT in_force, requested, requested_until FROM projections_format").Scan(&f.inForce, &f.requested, &until)
	if err != nil && !errors.Is(err, sql.ErrNoRows) {
		return format{}, fmt.Errorf("read projections_format: %w", err)
	}
	f.until = time.UnixMicro(until)
	return f, nil
}

// readState reads the format before the generations: the tables of a new format may be seen before it, but not after.
func (r *Runner) readState(ctx context.Context) (format, []record, error) {
	f, err := readFormat(ctx, r.store.Read())
	if err != nil {
		return f, nil, sqlstore.Classify(err)
	}
	records, err := readGenerations(ctx, r.store.Read())
	return f, records, sqlstore.Classify(err)
}

// putInForce records the data format in force, and withdraws requests.
func putInForce(ctx context.Context, tx *sqlstore.Tx, inForce int) error {
	_, err := tx.ExecContext(ctx, `
INSERT INTO projections_format (id, in_force, requested, requested_until) VALUES (1, $1, 0, 0)
ON CONFLICT (id) DO UPDATE SET in_force = excluded.in_force, requested = 0, requested_until = 0`, inForce)
	return sqlstore.Wrap(err, "record the data format")
}

// maxVersions limits the versions in one release: the current one and the previous one.
const maxVersions = 2

var word = regexp.MustCompile(`^[a-z][a-z0-9_]{0,30}$`)

func validate(p projections.Projection, format int) error {
	var errs []error
	if !word.MatchString(p.Name()) {
		errs = append(errs, fmt.Errorf("name %q is not a short lower-case word", p.Name()))
	}
	if p.Handle() == nil {
		errs = append(errs, errors.New("no handle"))
	}
	versions := p.Versions()
	if len(versions) == 0 || len(versions) > maxVersions {
		errs = append(errs, fmt.Errorf("%d versions; a release carries 1 to %d", len(versions), maxVersions))
	}
	for i, v := range versions {
		if v.Number < 1 || i > 0 && (v.Number >= versions[i-1].Number || v.Format > versions[i-1].Format) {
			errs = append(errs, fmt.Errorf("version %d is out of order", v.Number))
		}
		if v.Format > format {
			errs = append(errs, fmt.Errorf("version %d begins with data format %d, this release has format %d",
				v.Number, v.Format, format))
		}
		if len(v.Streams) == 0 || v.NewFold == nil || len(v.Tables) == 0 {
			errs = append(errs, fmt.Errorf("version %d has no streams, no fold or no tables", v.Number))
		}
		for _, t := range v.Tables {
			if !word.MatchString(t.Name) || t.Name == projections.PositionWord || t.Create == "" || len(t.Key) == 0 {
				errs = append(errs,
					fmt.Errorf("version %d: table %q has a bad name, no CREATE or no key", v.Number, t.Name))
			}
		}
	}
	return sqlstore.Wrap(errors.Join(errs...), "projection %q", p.Name())
}
