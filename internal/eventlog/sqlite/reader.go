package sqlite

import (
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"math"

	"letterhead/internal/eventlog"
)

const (
	// contextRows is the number of rows read between two checks of the context.
	contextRows = 256
	// maxPageBytes ends a page of the global order early, so that large events do not fill the memory.
	maxPageBytes = 16 << 20

	eventColumns = 6
	selectEvents = `SELECT position, stream, revision, type, envelope, data FROM events `
)

// reader is a connection with the prepared statements of all reads. One goroutine uses it at a time.
type reader struct {
	conn  *connection
	names *names
	room  []byte // of decodeRow

	page, forward, backward, streamID, streamName, streamNames, typeName *statement
}

func newReader(path, mode string, names *names) (*reader, error) {
	conn, err := connect(path, mode, "query_only(1)")
	if err != nil {
		return nil, err
	}
	r := &reader{conn: conn, names: names}
	if err := conn.prepare([]query{
		{&r.page, selectEvents + `WHERE position > ? ORDER BY position LIMIT ?`},
		{&r.forward, selectEvents + `WHERE stream = ? AND revision >= ? ORDER BY revision LIMIT ?`},
		{&r.backward, selectEvents + `WHERE stream = ? AND revision <= ? ORDER BY revision DESC LIMIT ?`},
		{&r.streamID, `SELECT id FROM streams WHERE name = ?`},
		{&r.streamNames, `SELECT id, name FROM streams WHERE id BETWEEN ? AND ?`},
		{&r.streamName, `SELECT name FROM streams WHERE id = ?`},
		{&r.typeName, `SELECT name FROM types WHERE id = ?`},
	}); err != nil {
		return nil, errors.Join(err, conn.close())
	}
	return r, nil
}

// decode verifies a row and decodes it into an event. If the filter drops the event, wanted is false and the event has
// no content.
func (r *reader) decode(row []driver.Value, e *eventlog.Recorded, filter eventlog.Filter) (at rowKey, wanted bool,
	err error) {
	if at, err = rowKeyOf(row); err != nil {
		return at, false, err
	}
	var known bool
	if e.Stream, e.Type, known = r.names.known(at.stream, at.typeID()); !known {
		if e.Stream, e.Type, err = r.names.resolve(r, at.stream, at.typeID()); err != nil {
			return at, false, fmt.Errorf("event at position %d: %w", at.position, err)
		}
	}
	envelope, data := contentOf(row)
	if wanted = filter.Match(e.Stream, e.Type); wanted {
		err = decodeRow(e, envelope, data, at, &r.room)
	} else {
		err = verifyEnvelope(envelope, data, at)
	}
	if err != nil {
		return at, wanted, fmt.Errorf("%w: event at position %d (%s, revision %d): %w",
			errDamaged, at.position, e.Stream, at.revision, err)
	}
	e.Revision = uint64(at.revision)
	e.Position = eventlog.Position(at.position)
	return at, wanted, nil
}

func rowKeyOf(row []driver.Value) (at rowKey, err error) {
	var ok [4]bool
	at.position, ok[0] = row[0].(int64)
	at.stream, ok[1] = row[1].(int64)
	at.revision, ok[2] = row[2].(int64)
	at.typ, ok[3] = row[3].(int64)
	if ok != [4]bool{true, true, true, true} {
		return at, fmt.Errorf("%w: an event's position, stream, revision or type is not a number", errDamaged)
	}
	return at, nil
}

func contentOf(row []driver.Value) (envelope, data []byte) {
	envelope, _ = row[4].([]byte)
	data, _ = row[5].([]byte) // nil when empty
	return envelope, data
}

// verifyRow is decode for the writer, which only needs the check.
func verifyRow(row []driver.Value) (at rowKey, envelope []byte, err error) {
	if at, err = rowKeyOf(row); err != nil {
		return at, nil, err
	}
	envelope, data := contentOf(row)
	if err := verifyEnvelope(envelope, data, at); err != nil {
		return at, nil, fmt.Errorf("%w: event at position %d: %w", errDamaged, at.position, err)
	}
	return at, envelope, nil
}

// all reads a page of the global order. head is the last known position; because positions have no gaps, it
// gives the number of events to expect.
func (r *reader) all(ctx context.Context, after eventlog.Position, filter eventlog.Filter, limit int,
	head eventlog.Position) (eventlog.Page, error) {
	page := eventlog.Page{Next: after}
	scan := eventlog.MaxPage
	if filter.All() {
		scan = limit
	}
	rows, bytes, stopped := 0, 0, false
	var e eventlog.Recorded
	err := r.page.each(eventColumns, func(row []driver.Value) error {
		if rows++; rows%contextRows == 0 && ctx.Err() != nil {
			return ctx.Err()
		}
		at, wanted, err := r.decode(row, &e, filter)
		if err != nil {
			return err
		}
		if at.position != int64(page.Next)+1 {
			return fmt.Errorf("%w: position %d comes after position %d", errDamaged, at.position, page.Next)
		}
		page.Next = e.Position
		if wanted {
			if page.Events == nil {
				page.Events = make([]eventlog.Recorded, 0, min(uint64(max(head, after)-after), uint64(limit)))
			}
			page.Events = append(page.Events, e)
			bytes += len(e.Data)
		}
		if len(page.Events) == limit || bytes >= maxPageBytes {
			stopped = true
			return errStop
		}
		return nil
	}, storable(uint64(after)), int64(scan))
	page.End = !stopped && rows < scan
	return page, err
}

// stream reads events of one stream.
func (r *reader) stream(ctx context.Context, name string, from uint64, direction eventlog.Direction,
	limit int) ([]eventlog.Recorded, error) {
	var id int64
	found, err := r.streamID.row(1, func(row []driver.Value) error {
		id, _ = row[0].(int64)
		return nil
	}, name)
	if err != nil || !found {
		return nil, err
	}
	statement, step := r.forward, int64(1)
	if direction == eventlog.Backward {
		statement, step = r.backward, -1
	}
	var events []eventlog.Recorded
	var last int64
	err = statement.each(eventColumns, func(row []driver.Value) error {
		if len(events)%contextRows == contextRows-1 && ctx.Err() != nil {
			return ctx.Err()
		}
		var e eventlog.Recorded
		at, _, err := r.decode(row, &e, eventlog.Filter{})
		if err != nil {
			return err
		}
		if len(events) > 0 && at.revision != last+step {
			return fmt.Errorf("%w: %s: revision %d comes after revision %d", errDamaged, name, at.revision, last)
		}
		last = at.revision
		events = append(events, e)
		return nil
	}, id, storable(from), int64(limit))
	if err != nil {
		return nil, err
	}
	return events, nil
}

// storable limits a number to the range of SQLite's integers, which no position or revision approaches.
func storable(n uint64) int64 {
	return int64(min(n, math.MaxInt64))
}
