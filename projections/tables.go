package projections

import (
	"strconv"
	"strings"
	"sync"
)

// PositionWord cannot be the name of a table, because {position} is replaced by a value; see Handle.
const PositionWord = "position"

// ScrubPrefix and the name of a read model are the name of the row of projections_registry about its scrubs. The row's
// fold_version is the generation that no node reads, because rows of it could not be repaired, or 0.
const ScrubPrefix = "@scrub "

// Tables has the physical names of one generation's tables.
type Tables struct {
	Version    int
	Generation int
	Shared     bool // another node may take itself for the leader and write, too

	names    map[string]string
	replacer *strings.Replacer
	hold     bool
	held     int
	texts    sync.Map // SQL with names in place of {name}
}

// NewTables returns the tables of a generation. position is the SQL expression that replaces {position}.
func NewTables(model string, v *Version, generation int, position string) *Tables {
	t := &Tables{Version: v.Number, Generation: generation, names: make(map[string]string, len(v.Tables))}
	pairs := []string{"{" + PositionWord + "}", position}
	for _, table := range v.Tables {
		name := model + "_v" + strconv.Itoa(v.Number) + "_g" + strconv.Itoa(generation) + "_" + table.Name
		t.names[table.Name] = name
		pairs = append(pairs, "{"+table.Name+"}", name)
	}
	t.replacer = strings.NewReplacer(pairs...)
	return t
}

// Hold sets whether the fold of these tables keeps changed rows in memory when a batch ends. A build holds rows so that
// it writes a row once for many batches. The first batch that is folded without holding writes all rows that were kept.
func (t *Tables) Hold(hold bool) { t.hold, t.held = hold, 0 }

// Keep reports whether a number of changed rows stays in memory.
func (t *Tables) Keep(rows int) bool {
	if t.hold {
		t.held += rows
	}
	return t.hold
}

// Held returns the number of rows that the last batch kept.
func (t *Tables) Held() int { return t.held }

// Name returns the physical name of a table.
func (t *Tables) Name(table string) string { return t.names[table] }

// SQL returns the text with physical names in place of {name}. The text must be a constant, because the result for
// each text is cached.
func (t *Tables) SQL(text string) string {
	if sql, ok := t.texts.Load(text); ok {
		return sql.(string)
	}
	sql := t.replacer.Replace(text)
	t.texts.Store(text, sql)
	return sql
}
