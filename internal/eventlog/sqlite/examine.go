package sqlite

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"os"

	"github.com/google/uuid"

	"letterhead/internal/eventlog"
)

const witnessMarker = "head marker"

// state is the result of an examination.
type state struct {
	absent       bool  // there is no log, and there never was
	mark         *mark // nil if there is none or it cannot be read
	head, anchor chain // of the readable part
	logID        uuid.UUID
	format       uint32 // in the header of the file
	loss         *eventlog.LossError
	// rewrite is set if the rest of a damaged log must be copied to a new file, alone if more of it can be
	// read without the write-ahead log.
	rewrite, alone bool
}

// Report describes a log that is not open.
type Report struct {
	// Marker is nil if the log has none or it cannot be read.
	Marker *Marker
	// Head is the last position of the intact beginning: everything up to it can be read.
	Head eventlog.Position
	// Loss is nil if the log is intact and not shorter than its marker.
	Loss *eventlog.LossError
}

// Inspect describes the log at path without changing any of its files. Of a large log that looks intact it
// reads only the end.
//
// Errors: ErrInUse, eventlog.ErrUnavailable, the errors of the file system (fs.ErrNotExist if there is no log),
// ctx.Err(), and eventlog.ErrCorrupt for a file that never was a log with a marker. The report contains other damage.
func Inspect(ctx context.Context, path string) (Report, error) {
	lock, err := takeLock(path)
	if err != nil {
		return Report{}, err
	}
	s, err := examine(ctx, path, defaultVerifyBytes)
	if s.absent {
		err = errors.Join(err, fs.ErrNotExist)
	}
	if err := errors.Join(err, lock.Close()); err != nil {
		return Report{}, fmt.Errorf("inspect the event log %s: %w", path, err)
	}
	r := Report{Head: eventlog.Position(s.head.position), Loss: s.loss}
	if s.mark != nil {
		r.Marker = &s.mark.Marker
	}
	return r, nil
}

// examine compares a closed log with its marker and verifies all of it, or its end. It changes nothing, so
// that a failed start can be examined again. No connection may be open.
func examine(ctx context.Context, path string, verifyBytes int) (s state, err error) {
	var both bool
	var problem error
	if s.mark, both, err = readMark(path); err != nil {
		if !errors.Is(err, eventlog.ErrCorrupt) {
			return s, err
		}
		problem = err
	}
	wal, err := scanWAL(path)
	if err != nil {
		return s, err
	}
	if s.format, err = checkHeader(path); errors.Is(err, fs.ErrNotExist) {
		return s, s.missing(path, wal.there, problem)
	} else if err != nil {
		if s.mark == nil || s.mark.Position == 0 || !errors.Is(err, eventlog.ErrCorrupt) {
			return s, err
		}
		s.loss = &eventlog.LossError{Witness: witnessMarker, Remembered: s.mark.Position,
			Detail: err.Error(), Cause: err}
		return s, nil
	}
	whole := s.mark == nil || !both || s.mark.salts != 0 && s.mark.salts != wal.salts
	if !whole {
		size, err := sizeOf(path, path+"-wal")
		if err != nil {
			return s, err
		}
		whole = size <= int64(verifyBytes)
	}
	if wal.damage != nil {
		problem, s.rewrite = wal.damage, true
	} else if damage := s.verify(ctx, path, whole, wal.frames == 0); damage != nil {
		if !errors.Is(classify("", damage), eventlog.ErrCorrupt) {
			return s, damage
		}
		problem = damage
	}
	if problem == nil {
		return s, nil
	}
	return s, s.assess(ctx, path, wal.there, problem)
}

// missing handles a log whose file is missing.
func (s *state) missing(path string, wal bool, unreadable error) error {
	switch {
	case unreadable != nil || s.mark != nil && s.mark.Position > 0:
		s.loss = &eventlog.LossError{Witness: witnessMarker, Detail: "the file " + path + " is missing"}
		if s.mark != nil {
			s.loss.Remembered, s.loss.RememberedFirst = s.mark.Position, s.mark.LogID
		}
	case wal: // SQLite would replay it into a new file
		return corrupt("look for the file",
			fmt.Errorf("%w: the file is missing but its write-ahead log %s-wal exists", errDamaged, path))
	default:
		s.absent = true
	}
	return nil
}

// errShort marks a log that ends before its marker.
var errShort = fmt.Errorf("%w: it is too short", errDamaged)

// verify reads the log from its beginning, or from the marker's anchor, and compares it with the marker.
func (s *state) verify(ctx context.Context, path string, whole, alone bool) (err error) {
	if alone {
		if err := checkFileLength(path); err != nil {
			return err
		}
	}
	a, err := openSoleAudit(path, false)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, a.close()) }()
	last, logID, err := a.begin(s.mark, whole)
	if s.logID = logID; err != nil {
		return err
	}
	if whole {
		err = a.all(ctx, last, nil)
	} else {
		for done := false; !done && err == nil; {
			done, err = a.step(ctx, last)
		}
	}
	s.head, s.anchor = a.chain, a.anchor
	return err
}

// assess determines the readable part of a log that has a problem.
func (s *state) assess(ctx context.Context, path string, wal bool, problem error) error {
	var last int64
	var why error
	s.head = chain{position: -1}
	for _, alone := range []bool{false, true} {
		if alone && !wal {
			continue
		}
		v, err := lookAt(ctx, path, alone)
		if err != nil {
			return err
		}
		if last = max(last, v.last); v.head.position > s.head.position {
			s.head, s.alone, why = v.head, alone, v.why
		}
		if v.why == nil && !s.rewrite {
			break
		}
	}
	// A completely intact log that was not read past a damaged write-ahead log can stay in place.
	s.rewrite = s.rewrite || s.alone || why != nil
	s.loss = &eventlog.LossError{
		Witness: "table of events", Remembered: eventlog.Position(last),
		Head: eventlog.Position(max(s.head.position, 0)), Detail: problem.Error(),
		Cause: fmt.Errorf("%w: %w", eventlog.ErrCorrupt, problem),
	}
	switch {
	case s.mark != nil:
		s.loss.Witness, s.loss.Remembered = witnessMarker, max(s.loss.Remembered, s.mark.Position)
		s.loss.RememberedFirst, s.loss.HeldFirst = s.mark.LogID, s.logID
	case errors.Is(problem, errNoMarker):
		s.loss.Witness, s.loss.Remembered = witnessMarker, 0
	}
	if errors.Is(problem, errShort) {
		s.loss.Detail, s.loss.Cause = fmt.Sprintf("the log was written up to there at %s",
			s.mark.WrittenAt.Format("2006-01-02T15:04:05.000Z")), nil
	}
	return nil
}

// view is the log with or without its write-ahead log.
type view struct {
	head chain
	last int64
	why  error // its problem, nil if there is none
}

func lookAt(ctx context.Context, path string, alone bool) (v view, err error) {
	a, err := openSoleAudit(path, alone)
	if err != nil {
		return view{why: err}, unlessDamage(err)
	}
	defer func() { err = errors.Join(err, a.close()) }()
	if v.last, err = a.r.conn.lastPosition(); err != nil {
		return view{why: err}, unlessDamage(err)
	}
	a.start(chain{}, chain{})
	v.why = a.all(ctx, v.last, nil)
	v.head = a.chain
	if v.why == nil || unlessDamage(v.why) != nil {
		return v, unlessDamage(v.why)
	}
	v.head, _, err = a.intact(ctx, nil)
	return v, err
}

// unlessDamage returns errors that are not about stored data.
func unlessDamage(err error) error {
	if err == nil || errors.Is(classify("", err), eventlog.ErrCorrupt) {
		return nil
	}
	return err
}

func sizeOf(paths ...string) (size int64, err error) {
	for _, p := range paths {
		info, err := os.Stat(p)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return 0, err
		}
		size += info.Size()
	}
	return size, nil
}

// checkFileLength is checkLength for a closed log without a write-ahead log.
func checkFileLength(path string) error {
	header, err := readHeader(path)
	if err != nil {
		return err
	}
	return checkLength(path, int64(binary.BigEndian.Uint32(header[headerPages:])))
}

// checkLength compares the length of the file with the expected length after the write-ahead log was moved
// into it. SQLite itself notices a truncated file only when it reads a missing page.
func checkLength(path string, pages int64) error {
	info, err := os.Stat(path)
	if err != nil {
		return err
	}
	if info.Size() < pages*pageBytes {
		return fmt.Errorf("%w: the file has %d bytes and should have %d: its end is missing",
			errDamaged, info.Size(), pages*pageBytes)
	}
	return nil
}
