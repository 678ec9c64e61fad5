package accountnames

import (
	"context"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"log/slog"
	"slices"
	"time"
	"unicode/utf8"

	"github.com/prometheus/client_golang/prometheus"

	"letterhead/internal/delay"
	"letterhead/internal/sqlstore"
	"letterhead/internal/telemetry"
)

const (
	// checkEvery is the pause between two checks of all rows.
	checkEvery = 10 * time.Minute
	// maxDamaged limits the ids of damaged rows that are remembered.
	maxDamaged = MaxPage
)

// Checksums of a row, besides those of checksum.
const (
	uncounted = 0  // of a row of a table that is not sealed, or of an entry to be written: it is computed
	missing   = -1 // of a row that lacks one in a sealed table
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// checksum returns the checksum of a row: the CRC-32C of the table's name, the id and the name, each with its length,
// plus one. It detects a changed id or name, also if the checksums of two rows were exchanged, but no forgery.
func checksum(id, name string) int64 {
	var text []byte
	for _, part := range []string{"holders", id, name} {
		text = append(binary.AppendUvarint(text, uint64(len(part))), part...)
	}
	return 1 + int64(crc32.Checksum(text, castagnoli))
}

// raw returns the argument of CAST($1 AS TEXT) for an id that was read. Only SQLite returns a damaged one that is not
// UTF-8, and it would replace the bytes of a text that is not.
func raw(id string) any {
	if utf8.ValidString(id) {
		return id
	}
	return []byte(id)
}

// Damaged reports whether an entry that was read fails its checksum.
func (e Entry) Damaged() bool { return e.Checksum != uncounted && e.Checksum != checksum(e.ID, e.Name) }

// learn finds out whether the table is sealed.
func (t *Table) learn(ctx context.Context) error {
	var rows int64
	err := t.store.Read().QueryRowContext(ctx, countSealed).Scan(&rows)
	t.sealed.Store(rows > 0)
	return err
}

// Seal makes every row need its checksum from now on. It must be called only when no node of a release that writes rows
// without checksums runs. First it corrects the checksums that such nodes left out or did not change. Repeats change
// nothing. Errors: sqlstore.ErrUnavailable, sqlstore.ErrClosed, ctx.Err().
func (t *Table) Seal(ctx context.Context) error {
	if t.sealed.Load() {
		return nil
	}
	if err := t.learn(ctx); err != nil || t.sealed.Load() { // another node may have sealed it
		return sqlstore.Classify(err)
	}
	for after := ""; ; {
		rows, err := t.entries(ctx, page, raw(after), MaxPage) // their checksums are not read yet
		if err != nil {
			return fmt.Errorf("seal the table of holders: %w", sqlstore.Classify(err))
		}
		if len(rows) == 0 {
			break
		}
		after = rows[len(rows)-1].ID
		err = t.store.WriteDurable(ctx, func(tx *sqlstore.Tx) error {
			for _, e := range rows {
				if _, err := tx.ExecContext(ctx, sealRow, e.ID, e.Name, checksum(e.ID, e.Name)); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			return fmt.Errorf("seal the table of holders: %w", err)
		}
	}
	err := t.store.WriteDurable(ctx, func(tx *sqlstore.Tx) error {
		_, err := tx.ExecContext(ctx, seal)
		return err
	})
	if err != nil {
		return fmt.Errorf("seal the table of holders: %w", err)
	}
	t.sealed.Store(true)
	return nil
}

// Sealed reports whether rows are checked.
func (t *Table) Sealed() bool { return t.sealed.Load() }

// used removes the damaged entries, and reports them.
func (t *Table) used(all []Entry) []Entry {
	return slices.DeleteFunc(all, func(e Entry) bool {
		if e.Damaged() {
			t.report(e.ID)
		}
		return e.Damaged()
	})
}

// report remembers a damaged row, and logs it unless it was reported since it was last written.
func (t *Table) report(id string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if _, known := t.damaged[id]; known || len(t.damaged) >= maxDamaged {
		return
	}
	t.damaged[id] = struct{}{}
	t.logger.Error("a row of the table of holders fails its checksum and is not used; "+
		"\"letterhead names\" lists such rows and what to do", "id", id)
}

func (t *Table) repaired(id string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.damaged, id)
}

// Observe reports damaged rows in a log and in a metric, both of which may be nil. It must be called before the first
// row is read.
func (t *Table) Observe(logger *slog.Logger, metrics prometheus.Registerer) error {
	if logger != nil {
		t.logger = logger
	}
	return telemetry.Register(metrics, prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "letterhead_holders_damaged",
		Help: "Rows of the table of holders that fail their checksum and are not used, by the reads and the last " +
			"check of this process.",
	}, func() float64 {
		t.mu.Lock()
		defer t.mu.Unlock()
		return float64(len(t.damaged))
	}))
}

// Check reads all rows, and returns how many there are and the ids of the damaged ones, at most MaxPage. Errors: as
// Names.
func (t *Table) Check(ctx context.Context) (rows int, damaged []string, err error) {
	found := map[string]struct{}{}
	for after := ""; ; {
		all, err := t.Page(ctx, after, MaxPage)
		if err != nil {
			return rows, damaged, err
		}
		if len(all) == 0 {
			break
		}
		after = all[len(all)-1].ID
		rows += len(all)
		for _, e := range all {
			if e.Damaged() && len(damaged) < maxDamaged {
				t.report(e.ID)
				found[e.ID] = struct{}{}
				damaged = append(damaged, e.ID)
			}
		}
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.damaged = found // without those that another process has repaired
	return rows, damaged, nil
}

// Watch checks all rows every ten minutes until ctx ends, and seals the table as soon as mayBeSealed. It then returns
// nil.
func (t *Table) Watch(ctx context.Context, mayBeSealed func() bool) error {
	for {
		var err error
		if mayBeSealed() {
			err = t.Seal(ctx)
		}
		if err == nil {
			_, _, err = t.Check(ctx)
		}
		if err != nil && ctx.Err() == nil {
			t.logger.Warn("checking the table of holders failed; will retry", "error", err, "pause", checkEvery)
		}
		if delay.For(ctx, checkEvery) != nil {
			return nil
		}
	}
}
