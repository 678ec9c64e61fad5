package projections

import (
	"fmt"

	"letterhead/internal/eventlog"
)

// Verification is the result of a comparison for one read model.
type Verification struct {
	Name    string `json:"name"`
	Version int    `json:"version"`
	// Position is where both sets of tables were compared, Rows the number of rows.
	Position eventlog.Position `json:"position"`
	Rows     int64             `json:"rows"`
	// Difference is the first one found, nil if every column of every row agrees.
	Difference *Difference `json:"difference,omitempty"`
	// Err is the reason why nothing could be compared: the read model is quarantined, or its fold failed in the replay.
	Err error `json:"-"`
}

// OK reports whether the tables were compared and agree.
func (v Verification) OK() bool { return v.Err == nil && v.Difference == nil }

// Difference is a row or column in which the live tables differ from those folded from the log.
type Difference struct {
	Table string `json:"table"`
	// Key is the row's primary key.
	Key string `json:"key"`
	// Column is empty if one side has no such row.
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
