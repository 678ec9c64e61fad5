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

// Comparison is the result of comparing the live tables of a read model with rebuilt ones.
type Comparison struct {
	Name    string `json:"name"`
	Version int    `json:"version"`
	// Position is where both sets of tables were compared.
	Position eventlog.Position `json:"position"`
	Tables   []TableComparison `json:"tables"`
	// Err is the reason why nothing could be compared.
	Err error `json:"-"`
}

// Same reports whether the tables were compared and agree.
func (c *Comparison) Same() bool {
	for i := range c.Tables {
		if t := &c.Tables[i]; t.OnlyLive+t.OnlyRebuilt+t.Changed > 0 {
			return false
		}
	}
	return c.Err == nil
}

// TableComparison counts the rows of a table by what became of them.
type TableComparison struct {
	Table       string `json:"table"`
	Same        int64  `json:"same"`
	OnlyLive    int64  `json:"only_live"`
	OnlyRebuilt int64  `json:"only_rebuilt"`
	Changed     int64  `json:"changed"`
	// First are the first rows that differ, in the order of the key; of a changed row, the first column that differs.
	First []Difference `json:"first,omitempty"`
}
