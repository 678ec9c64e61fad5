// Package backup copies everything that cannot be computed again: the events of the log, the names beside
// it (internal/accountnames) and the pictures that records refer to (internal/assets). Read models, snapshots,
// search index, caches and the positions of workers are not in a backup: they come back from the log.
//
// Everything goes through the ports, so a backup of the embedded shape can be restored into the distributed
// one and the other way round; Migrate is the same copy from one log straight into another.
//
// A backup lies in a folder, or below the prefix of a bucket:
//
//	begun.json                 says that this is a backup, written first
//	segments/0000000001.lhb    events in the log's order, a few MiB each, compressed; see segment.go
//	assets/ab/cd/<id>.<ext>    pictures, named after their content
//	names/<sha256>.lhn         names, compressed JSON lines
//	manifest.json              what belongs to the backup, with checksums; written last, in one step
//
// Run takes the log's head once, the position P, and copies all events up to it, however much is appended
// meanwhile: the log's order has no gaps, so every stream of the backup is a prefix of the live one. A
// segment is written after the pictures that it refers to; the names are read after P, so that no event of
// the backup lacks its name. Names that were erased before the names are read are not in the backup.
//
// Run again continues: an interrupted backup from its last whole segment, a finished one with what is new.
// Until the new manifest is in place the old one holds, with everything that it lists.
//
// Restore wants an empty target, or one that it filled before: events are compared one by one and whatever
// is missing is appended, with the same revisions and ids. Positions are new. A log that is an eventlog.Importer takes
// thousands of events with one flush, in exactly the same order. Any other one gets windows of events, several streams at
// a time: each stream is exact, and events of different streams may change places within a window; see window.go.
package backup

import (
	"errors"

	"letterhead/internal/eventlog"
)

// Errors. They come wrapped with what was attempted and on what.
var (
	// ErrNotBackup: the place holds other things, or nothing.
	ErrNotBackup = errors.New("not a letterhead backup")
	// ErrUnfinished: the backup was begun and never finished. Run continues it.
	ErrUnfinished = errors.New("the backup was never finished; run the backup again to finish it")
	// ErrNewer: a newer release wrote the backup, or the log.
	ErrNewer = errors.New("written by a newer release of letterhead; use that release, or a newer one")
	// ErrDamaged: a file of the backup is missing or is not what was written.
	ErrDamaged = errors.New("the backup is damaged")
	// ErrOtherLog: the backup is of another log than the one that is to be backed up into it.
	ErrOtherLog = errors.New("the backup is of another event log; use another folder")
	// ErrBusy: another process is writing the same backup.
	ErrBusy = errors.New("another process is writing this backup")
	// ErrNotEmpty: the target holds events or names that are not those of the source.
	ErrNotEmpty = errors.New("the target is not empty, and what it holds is not a part of the source")
	// ErrForeignWriter: somebody else appends to the target.
	ErrForeignWriter = errors.New("somebody else writes to the target; stop every node that uses it")
	// ErrDiffers: what was written reads back differently.
	ErrDiffers = errors.New("the target differs from the source")
)

// Stage says what is being done.
type Stage string

// Stages of the work, in this order.
const (
	StageCheck   Stage = "check"   // reading the backup and the target, nothing is written
	StageAssets  Stage = "assets"  // counted in files
	StageEvents  Stage = "events"  // counted in events
	StageCompare Stage = "compare" // counted as StageEvents
	StageChains  Stage = "chains"  // counted in accounts
	StageNames   Stage = "names"   // counted in names
	// StageSnapshots is counted in accounts whose streams are long.
	StageSnapshots Stage = "snapshots"
)

// Unit names what a stage counts.
func (s Stage) Unit() string {
	switch s {
	case StageAssets:
		return "files"
	case StageChains, StageSnapshots:
		return "accounts"
	case StageNames:
		return "names"
	}
	return "events"
}

// Progress says how far a stage is.
type Progress struct {
	Stage Stage
	// Done is a true count. Total is 0 when it is not known, as that of a log's events is not.
	Done, Total uint64
	// Position and Head say how far the reading of a log is, whose positions are no counts; 0 otherwise.
	Position, Head eventlog.Position
}

// EventRef names one event of the source.
type EventRef struct {
	Stream   string            `json:"stream"`
	Revision uint64            `json:"revision"`
	ID       string            `json:"id"`
	Position eventlog.Position `json:"position"`
}

func refTo(e *eventlog.Recorded) EventRef {
	return EventRef{Stream: e.Stream, Revision: e.Revision, ID: e.ID.String(), Position: e.Position}
}
