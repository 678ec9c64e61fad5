package projections

import (
	"fmt"

	"letterhead/internal/eventlog"
)

// Verification is the outcome of Verify for one read model.
type Verification struct {
	Name    string `json:"name"`
	Version int    `json:"version"`
	// Position is where both sets of tables were compared, Rows how many rows that were.
	Position eventlog.Position `json:"position"`
	Rows     int64             `json:"rows"`
	// Difference is the first one found, nil when every column of every row agrees.
	Difference *Difference `json:"difference,omitempty"`
	// Err is why nothing could be compared: the read model is set aside, or the fold failed on the replay.
	Err error `json:"-"`
}

// OK says whether the tables were compared and agree.
func (v Verification) OK() bool { return v.Err == nil && v.Difference == nil }

// Difference is a place where the live tables are not what the log says.
type Difference struct {
	Table string `json:"table"`
	// Key is the row's primary key.
	Key string `json:"key"`
	// Column is empty when one side has no such row.
	Column  string `json:"column,omitempty"`
	Live    string `json:"live"`
	Rebuilt string `json:"rebuilt"`
}

func (d *Difference) String() string {
	if d.Column == "" {
		return fmt.Sprintf("table %s, row %s: live %s, rebuilt %s", d.Table, d.Key, d.Live, d.Rebuilt)
	}
	return fmt.Sprintf("table %s, row %s, column %s: live %s, rebuilt %s", d.Table, d.Key, d.Column, d.Live, d.Rebuilt)
}
