package engine

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"time"

	"letterhead/internal/sqlstore"
	"letterhead/projections"
)

// stateScrub is the state of the rows of projections.ScrubPrefix. Their position counts the rows repaired, so that
// other nodes notice a repair. Their failure is a Scrubbed as JSON.
const stateScrub = "scrub"

// Scrubbed is the result of the scrubs of a read model.
type Scrubbed struct {
	// Finished is the end of the last complete pass, zero before the first.
	Finished time.Time `json:"finished_at,omitzero"`
	// Rows is the number of rows compared in that pass, and Differences how many of them differed from the log.
	Rows        int64 `json:"rows"`
	Differences int64 `json:"differences"`
	// Repaired is the number of rows ever repaired, and RepairedAt the time of the last repair.
	Repaired   int64     `json:"repaired"`
	RepairedAt time.Time `json:"repaired_at,omitzero"`

	withheld int // the generation that no node reads, or 0
}

// scrubbedOf returns the result of the scrubs of a read model, empty if there was none.
func scrubbedOf(records []record, name string) (s Scrubbed) {
	for _, e := range records {
		if e.state == stateScrub && e.name == projections.ScrubPrefix+name {
			_ = json.Unmarshal([]byte(e.failure), &s) // an unreadable text is as good as none
			s.Repaired, s.withheld = int64(e.position), e.version
		}
	}
	return s
}

// Scrubs returns a clause for operators about the scrubs of all read models.
func Scrubs(models []Status) string {
	var oldest, repaired time.Time
	var rows int64
	for i, m := range models {
		s := cmp.Or(m.Scrub, &Scrubbed{})
		if i == 0 || s.Finished.Before(oldest) {
			oldest = s.Finished
		}
		if rows += s.Repaired; s.RepairedAt.After(repaired) {
			repaired = s.RepairedAt
		}
	}
	text := "not all compared with the event log yet"
	if !oldest.IsZero() {
		text = "each compared with the event log since " + oldest.Format(time.RFC3339)
	}
	if rows == 0 {
		return text + ", no row ever differed"
	}
	return fmt.Sprintf("%s, %d rows differed and were repaired, the last at %s",
		text, rows, repaired.Format(time.RFC3339))
}

// record changes the result, in a transaction that fails with errDeposed if another node has moved the live tables.
func (s *scrub) record(ctx context.Context, change func(*Scrubbed)) error {
	return s.r.store.Write(ctx, func(tx *sqlstore.Tx) error {
		if err := setFailure(ctx, tx, s.live, ""); err != nil { // which it is
			return err
		}
		return s.note(ctx, tx, change)
	})
}

// note is record as part of a transaction.
func (s *scrub) note(ctx context.Context, tx *sqlstore.Tx, change func(*Scrubbed)) error {
	records, err := readGenerations(ctx, tx)
	if err != nil {
		return err
	}
	now := scrubbedOf(records, s.m.name)
	change(&now)
	text, err := json.Marshal(now)
	if err != nil {
		return err
	}
	_, err = tx.ExecContext(ctx, `
INSERT INTO projections_registry (name, fold_version, generation, state, position, failure)
VALUES ($1, $2, 0, $3, $4, $5) ON CONFLICT (name, generation) DO
UPDATE SET fold_version = excluded.fold_version, position = excluded.position, failure = excluded.failure`,
		projections.ScrubPrefix+s.m.name, now.withheld, stateScrub, now.Repaired, string(text))
	if err != nil {
		return fmt.Errorf("record a scrub of %s: %w", s.m.name, err)
	}
	return nil
}
