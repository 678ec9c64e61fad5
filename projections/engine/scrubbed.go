package engine

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"time"

	"letterhead/internal/sqlstore"
)

const (
	// scrubPrefix and the name of a read model are the name of the row of projections_registry about its scrubs. The
	// row's position counts the rows repaired, so that other nodes notice a repair; its failure is a Scrubbed as JSON.
	scrubPrefix = "@scrub "
	stateScrub  = "scrub"
)

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
}

// scrubbedOf returns the result of the scrubs of a read model, or nil if there was none.
func scrubbedOf(records []record, name string) *Scrubbed {
	for i := range records {
		if e := &records[i]; e.state == stateScrub && e.name == scrubPrefix+name {
			s := &Scrubbed{}
			_ = json.Unmarshal([]byte(e.failure), s) // an unreadable text is as good as none
			s.Repaired = int64(e.position)
			return s
		}
	}
	return nil
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
	return fmt.Sprintf("%s, %d rows differed and were repaired, the last at %s", text, rows, repaired.Format(time.RFC3339))
}

// repairs returns the number of rows of a read model ever repaired.
func repairs(records []record, name string) int64 {
	if s := scrubbedOf(records, name); s != nil {
		return s.Repaired
	}
	return 0
}

// note records a repair of rows or, with 0, the end of a pass.
func (s *scrub) note(ctx context.Context, tx *sqlstore.Tx, repaired int64) error {
	records, err := readGenerations(ctx, tx)
	if err != nil {
		return err
	}
	now := s.result
	if before := scrubbedOf(records, s.m.name); before != nil {
		now.Repaired, now.RepairedAt = before.Repaired, before.RepairedAt
		if repaired > 0 { // during a pass
			now.Finished, now.Rows, now.Differences = before.Finished, before.Rows, before.Differences
		}
	} else if repaired > 0 {
		now = Scrubbed{}
	}
	if repaired > 0 {
		now.Repaired, now.RepairedAt = now.Repaired+repaired, s.r.cfg.Now().UTC()
	}
	text, err := json.Marshal(now)
	if err != nil {
		return err
	}
	_, err = tx.ExecContext(ctx, noteMark+`UPDATE SET position = excluded.position, failure = excluded.failure`,
		scrubPrefix+s.m.name, stateScrub, now.Repaired, string(text))
	if err != nil {
		return fmt.Errorf("record a scrub of %s: %w", s.m.name, err)
	}
	return nil
}
