package eventlog

import (
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/google/uuid"
)

// MaxTypeName bounds an event type's name, in bytes. EventStoreDB counts the name twice: with this limit, an append of
// MaxAppendEvents events and MaxAppendBytes stays under its limit of 1 MiB, including the names of the metadata fields.
const MaxTypeName = 48

// CheckAppend checks the limits and the form of an append. Every adapter calls it before it sends or stores
// anything, so that all of them reject the same appends.
//
// Errors: ErrInvalid (all reasons joined), ErrTooLarge.
func CheckAppend(stream string, events []Proposed) error {
	if err := CheckStream(stream); err != nil {
		return err
	}
	if len(events) == 0 {
		return fmt.Errorf("append to %s: %w: no events", stream, ErrInvalid)
	}
	if len(events) > MaxAppendEvents {
		return fmt.Errorf("append to %s: %w: %d events, at most %d", stream, ErrTooLarge, len(events), MaxAppendEvents)
	}
	total := 0
	for i := range events {
		e := &events[i]
		if err := checkEvent(e); err != nil {
			return fmt.Errorf("append to %s, event %d (%.50q): %w", stream, i, e.Type, err)
		}
		total += Size(e)
	}
	if total > MaxAppendBytes {
		return fmt.Errorf("append to %s: %w: %d bytes, at most %d", stream, ErrTooLarge, total, MaxAppendBytes)
	}
	return nil
}

// CheckImport checks the limits and the form of an import. Every Importer calls it first.
//
// Errors: ErrInvalid, ErrTooLarge.
func CheckImport(runs []Run) error {
	if len(runs) == 0 {
		return fmt.Errorf("import: %w: no runs", ErrInvalid)
	}
	events, bytes := 0, 0
	for i := range runs {
		r := &runs[i]
		if err := CheckAppend(r.Stream, r.Events); err != nil {
			return fmt.Errorf("import, run %d: %w", i, err)
		}
		events += len(r.Events)
		for j := range r.Events {
			bytes += Size(&r.Events[j])
		}
		if events > MaxImportEvents || bytes > MaxImportBytes {
			return fmt.Errorf("import of %d runs: %w: at most %d events and %d bytes",
				len(runs), ErrTooLarge, MaxImportEvents, MaxImportBytes)
		}
	}
	return nil
}

// Size returns the bytes of an event that count against MaxEventBytes and MaxAppendBytes: its data and its
// metadata values.
func Size(e *Proposed) int {
	m := &e.Metadata
	return len(e.Data) + len(m.RequestID) + len(m.Actor) + len(m.CorrelationID) + len(m.CausationID) + len(m.Hash)
}

// CheckStream checks a stream name. Names that begin with $ belong to EventStoreDB.
//
// Errors: ErrInvalid, ErrTooLarge.
func CheckStream(stream string) error {
	switch {
	case stream == "":
		return fmt.Errorf("%w: empty stream name", ErrInvalid)
	case len(stream) > MaxStreamName:
		return fmt.Errorf("%w: stream name of %d bytes, at most %d", ErrTooLarge, len(stream), MaxStreamName)
	case strings.HasPrefix(stream, "$"):
		return fmt.Errorf("%w: stream name %q begins with $", ErrInvalid, stream)
	case !isText(stream):
		return fmt.Errorf("%w: stream name %q is not text", ErrInvalid, stream)
	}
	return nil
}

// CheckLimit checks the limit of a read.
//
// Errors: ErrInvalid.
func CheckLimit(limit int) error {
	if limit < 1 || limit > MaxPage {
		return fmt.Errorf("%w: limit %d is not within 1 and %d", ErrInvalid, limit, MaxPage)
	}
	return nil
}

func checkEvent(e *Proposed) error {
	var problems []error
	reject := func(bad bool, why string) {
		if bad {
			problems = append(problems, fmt.Errorf("%w: %s", ErrInvalid, why))
		}
	}
	reject(e.ID == uuid.Nil, "nil event id")
	reject(e.Type == "", "empty event type")
	reject(strings.HasPrefix(e.Type, "$"), "the event type begins with $")
	reject(!isText(e.Type), "the event type is not text")
	reject(e.SchemaVersion < 0, "negative schema version")
	m := &e.Metadata
	for _, value := range []string{m.RequestID, m.Actor, m.CorrelationID, m.CausationID, m.Hash} {
		reject(!utf8.ValidString(value), "metadata is not UTF-8")
	}
	if len(problems) > 0 {
		return errors.Join(problems...)
	}
	if len(e.Type) > MaxTypeName {
		return fmt.Errorf("%w: event type of %d bytes, at most %d", ErrTooLarge, len(e.Type), MaxTypeName)
	}
	if n := Size(e); n > MaxEventBytes {
		return fmt.Errorf("%w: %d bytes, at most %d", ErrTooLarge, n, MaxEventBytes)
	}
	return nil
}

// isText rejects NUL as well, because stores and tools written in C end a name there.
func isText(s string) bool {
	return utf8.ValidString(s) && strings.IndexByte(s, 0) < 0
}
