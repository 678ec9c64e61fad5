// Package backup copies everything that cannot be recomputed: the events of the log, the names that events refer
// to (internal/accountnames) and the images that records refer to (internal/assets). A backup contains no read
// models, snapshots, search index, caches or positions of workers: they are rebuilt from the log.
//
// Everything goes through the ports, so a backup of the embedded shape can be restored into the distributed
// one and vice versa; Migrate does the same copy directly from one log to another.
//
// A backup is a folder, or a prefix of a bucket:
//
//	begun.json                 marks the place as a backup; written first
//	segments/0000000001.lhb    events in the log's order, a few MiB each, compressed; see segment.go
//	assets/ab/cd/<id>.<ext>    images, named after their content
//	names/<sha256>.lhn         names, compressed JSON lines
//	manifest.json              the parts of the backup, with checksums; written last, atomically
//
// Run reads the log's head once, the position P, and copies all events up to it, regardless of later appends:
// the log's order has no gaps, so every stream of the backup is a prefix of the live one. A segment is written
// after the images that it refers to. The names are read after P, so that no event of the backup lacks its
// name, and names erased before that are not in the backup.
//
// Run continues an interrupted backup after its last complete segment, and adds new events to a finished one.
// Until the new manifest is in place, the old one stays valid, with everything that it lists.
//
// Restore requires an empty target, or one that it began to fill: it compares the existing events one by one and
// appends the missing ones, with the same revisions and ids. Positions are new. A log that is an eventlog.Importer
// takes thousands of events per flush, in exactly the same order. Other logs get windows of events, several streams at
// a time: each stream is exact, but events of different streams may be swapped within a window; see window.go.
package backup

import (
	"errors"

	"letterhead/internal/eventlog"
)

// Errors. They are wrapped with the attempted operation and its object.
var (
	// ErrNotBackup: the place is empty or holds something else.
	ErrNotBackup = errors.New("not a letterhead backup")
	// ErrUnfinished: the backup was not finished. Run continues it.
	ErrUnfinished = errors.New("the backup was never finished; run the backup again to finish it")
	// ErrNewer: a newer release wrote the backup, or the log.
	ErrNewer = errors.New("written by a newer release of letterhead; use that release, or a newer one")
	// ErrDamaged: a file of the backup is missing or damaged.
	ErrDamaged = errors.New("the backup is damaged")
	// ErrOtherLog: the place holds a backup of another log.
	ErrOtherLog = errors.New("the backup is of another event log; use another folder")
	// ErrBusy: another process is writing the same backup.
	ErrBusy = errors.New("another process is writing this backup")
	// ErrNotEmpty: the target holds events or names that are not in the source.
	ErrNotEmpty = errors.New("the target is not empty, and its content is not part of the source")
	// ErrForeignWriter: another process appends to the target.
	ErrForeignWriter = errors.New("another process writes to the target; stop every node that uses it")
	// ErrDiffers: the written data reads back differently.
	ErrDiffers = errors.New("the target differs from the source")
)

// Stage is a stage of the work.
type Stage string

// Stages of the work, in this order.
const (
	StageCheck   Stage = "check"   // reading the backup and the target; nothing is written
	StageAssets  Stage = "assets"  // counted in files
	StageEvents  Stage = "events"  // counted in events
	StageCompare Stage = "compare" // counted as StageEvents
	StageChains  Stage = "chains"  // counted in accounts
	StageNames   Stage = "names"   // counted in names
	// StageSnapshots is counted in accounts whose streams are long.
	StageSnapshots Stage = "snapshots"
)

// Unit returns the unit in which a stage counts.
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

// Progress is the progress of a stage.
type Progress struct {
	Stage Stage
	// Done is exact. Total is 0 if it is unknown, as for the events of a log.
	Done, Total uint64
	// Position and Head show the progress of reading a log, whose positions are not counts; 0 otherwise.
	Position, Head eventlog.Position
}

// EventRef identifies an event of the source.
type EventRef struct {
	Stream   string            `json:"stream"`
	Revision uint64            `json:"revision"`
	ID       string            `json:"id"`
	Position eventlog.Position `json:"position"`
}

func refTo(e *eventlog.Recorded) EventRef {
	return EventRef{Stream: e.Stream, Revision: e.Revision, ID: e.ID.String(), Position: e.Position}
}
