package accountnames

import (
	"context"
	"encoding/binary"
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

// Checksums of a row that checksum does not compute.
const (
	uncounted = 0  // of an entry to be written: it is computed
	missing   = -1 // of a row that lacks one
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

// seal computes the checksums of a table of an earlier release, once: a row that lacks one later is damaged.
func seal(ctx context.Context, tx *sqlstore.Tx) error {
	var marks int64
	if err := tx.QueryRowContext(ctx, countSealed).Scan(&marks); err != nil || marks > 0 {
		return err
	}
	all, err := scan(tx.QueryContext(ctx, "SELECT id, name, 0 FROM holders"))
	if err != nil {
		return err
	}
	for _, e := range all {
		if _, err := tx.ExecContext(ctx, sealRow, e.ID, e.Name, checksum(e.ID, e.Name)); err != nil {
			return err
		}
	}
	_, err = tx.ExecContext(ctx, markSealed)
	return err
}

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

// Watch checks all rows every ten minutes until ctx ends. It then returns nil.
func (t *Table) Watch(ctx context.Context) error {
	for {
		if _, _, err := t.Check(ctx); err != nil && ctx.Err() == nil {
			t.logger.Warn("checking the table of holders failed; will retry", "error", err, "pause", checkEvery)
		}
		if delay.For(ctx, checkEvery) != nil {
			return nil
		}
	}
}
