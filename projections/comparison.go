package projections

import "letterhead/internal/eventlog"

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
