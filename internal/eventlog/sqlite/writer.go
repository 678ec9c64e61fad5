package sqlite

import (
	"bytes"
	"database/sql/driver"
	"errors"
	"fmt"
	"maps"

	moderncsqlite "modernc.org/sqlite"

	"letterhead/internal/eventlog"
)

const (
	// maxGroupBytes bounds the bytes of one commit, so that its flush stays short.
	maxGroupBytes = 4 << 20
	// writerCache is the size of the writer's page cache, in KiB. An import visits all streams in turn, and
	// each has its own page of the index: with SQLite's default of 2 MiB, a thousand streams of 600 events
	// evict each other and twice as much is written (6.7 KB per event instead of 3.1 KB).
	writerCache = 32 << 10
	// maxTypes bounds the event types of a log; all of them are kept in memory.
	maxTypes = 4096
)

// writer is the only component that changes the file. It belongs to one goroutine.
type writer struct {
	conn   *connection
	status moderncsqlite.DBStatus

	begin, end, insertEvent, insertStream, insertType, streamID, last, identities *statement

	heads *recent[string, head]
	types map[string]int64

	// position, stream and typ are the last numbers assigned by committed groups.
	position, stream, typ int64
	group                 group
}

// head is a stream's number in the file and the number of its events.
type head struct {
	id, events int64
}

// group is the state of the commit in progress. It replaces the writer's state after the commit and is
// dropped if the commit fails.
type group struct {
	position, stream, typ int64
	heads                 map[string]head
	types                 map[string]int64
}

func newWriter(path, mode string, headCache int) (*writer, error) {
	// SQLite truncates the WAL to this size when it restarts the file after it had grown.
	conn, err := connect(path, mode, "journal_mode(WAL)", "synchronous(FULL)", "wal_autocheckpoint(0)",
		fmt.Sprintf("cache_size(-%d)", writerCache), fmt.Sprintf("journal_size_limit(%d)", walPages*pageBytes))
	if err != nil {
		return nil, err
	}
	w := &writer{conn: conn, heads: newRecent[string, head](headCache), types: make(map[string]int64)}
	w.group.heads, w.group.types = make(map[string]head), make(map[string]int64)
	if err := w.prepare(); err != nil {
		return nil, errors.Join(err, conn.close())
	}
	if err := w.load(); err != nil {
		return nil, errors.Join(err, conn.close())
	}
	return w, nil
}

func (w *writer) prepare() error {
	var ok bool
	if w.status, ok = w.conn.conn.(moderncsqlite.DBStatus); !ok {
		return errors.New("the SQLite driver lacks DBStatus")
	}
	return w.conn.prepare([]query{
		{&w.begin, `BEGIN IMMEDIATE`},
		{&w.end, `COMMIT`},
		{&w.insertEvent,
			`INSERT INTO events (position, stream, revision, type, envelope, data) VALUES (?, ?, ?, ?, ?, ?)`},
		{&w.insertStream, `INSERT INTO streams (id, name) VALUES (?, ?)`},
		{&w.insertType, `INSERT INTO types (id, name) VALUES (?, ?)`},
		{&w.streamID, `SELECT id FROM streams WHERE name = ?`},
		{&w.last, selectEvents + `WHERE stream = ? ORDER BY revision DESC LIMIT 1`},
		{&w.identities, selectEvents + `WHERE stream = ? AND revision >= ? ORDER BY revision LIMIT ?`},
	})
}

// load reads the last assigned numbers from the file.
func (w *writer) load() error {
	if err := w.conn.queryInts(`SELECT
		coalesce((SELECT max(position) FROM events), 0),
		coalesce((SELECT max(id) FROM streams), 0),
		coalesce((SELECT max(id) FROM types), 0)`, &w.position, &w.stream, &w.typ); err != nil {
		return err
	}
	return w.conn.once(`SELECT id, name FROM types`, 2, func(row []driver.Value) error {
		id, ok := row[0].(int64)
		name, ok2 := row[1].(string)
		if !ok || !ok2 {
			return fmt.Errorf("%w: a type has no name", errDamaged)
		}
		w.types[name] = id
		return nil
	})
}

// commit decides and writes requests as one group. It returns the number of events written, and an error of
// the store, which applies to all requests; the field rejected holds the error of a single request. If whole
// is set, either all requests are accepted, or nothing is written and the first rejection is the error.
func (w *writer) commit(requests []*request, whole bool) (events int, err error) {
	w.group.position, w.group.stream, w.group.typ = w.position, w.stream, w.typ
	clear(w.group.heads)
	clear(w.group.types)
	if err := w.begin.exec(); err != nil {
		return 0, classify("begin", err)
	}
	for _, r := range requests {
		if err := w.decide(r); err != nil {
			return 0, errors.Join(classify("write", err), w.rollback())
		}
		if whole && r.rejected != nil {
			return 0, errors.Join(r.rejected, w.rollback())
		}
	}
	events = int(w.group.position - w.position)
	if events == 0 {
		return 0, w.rollback()
	}
	if err := w.end.exec(); err != nil {
		return 0, errors.Join(classifyCommit("commit", err), w.rollback())
	}
	w.position, w.stream, w.typ = w.group.position, w.group.stream, w.group.typ
	for stream, h := range w.group.heads {
		w.heads.put(stream, h)
	}
	maps.Copy(w.types, w.group.types)
	return events, nil
}

// rollback ends the transaction, unless SQLite has already done so, as it does after some errors.
func (w *writer) rollback() error {
	err := w.conn.exec("ROLLBACK")
	if err != nil && !errors.As(err, new(*moderncsqlite.Error)) {
		return classify("roll back", err)
	}
	return nil
}

// decide appends one request, or sets its rejection or its first result. It returns an error if the store
// failed, and the whole group with it.
func (w *writer) decide(r *request) error {
	h, err := w.headOf(r.stream)
	if err != nil {
		return err
	}
	if next := r.expected.Next(); int64(next) != h.events {
		repeated, err := w.repeated(r, h, next)
		if err == nil && !repeated {
			r.rejected = &eventlog.WrongRevisionError{Stream: r.stream, Expected: r.expected}
		}
		return err
	}
	return w.write(r, h)
}

// repeated reports whether the stream already holds the request's events at the expected revisions, and
// sets the first result. It compares only ids, as EventStoreDB does.
func (w *writer) repeated(r *request, h head, next uint64) (bool, error) {
	n := int64(len(r.events))
	if next > uint64(h.events) || int64(next)+n > h.events {
		return false, nil
	}
	i, same := 0, true
	var position int64
	err := w.identities.each(eventColumns, func(row []driver.Value) error {
		at, envelope, err := verifyRow(row)
		if err != nil {
			return err
		}
		if at.revision != int64(next)+int64(i) || i >= len(r.events) {
			return fmt.Errorf("%w: %s has revision %d twice or not at all", errDamaged, r.stream, at.revision)
		}
		same = same && bytes.Equal(envelope[envelopeID:envelopeTime], r.events[i].envelope[envelopeID:envelopeTime])
		position = at.position
		i++
		return nil
	}, h.id, int64(next), n)
	if err != nil || !same {
		return false, err
	}
	if i != len(r.events) {
		return false, fmt.Errorf("%w: %s has fewer events than its last revision implies", errDamaged, r.stream)
	}
	r.result = eventlog.Appended{
		FirstRevision: next, LastRevision: next + uint64(n) - 1, Position: eventlog.Position(position),
	}
	return true, nil
}

func (w *writer) write(r *request, h head) error {
	for i := range r.events {
		if err := w.checkType(r.events[i].recorded.Type); err != nil {
			r.rejected = err
			return nil
		}
	}
	if h.id == 0 {
		w.group.stream++
		h.id = w.group.stream
		if err := w.insertStream.exec(h.id, r.stream); err != nil {
			return err
		}
	}
	r.result.FirstRevision = uint64(h.events)
	for i := range r.events {
		e := &r.events[i]
		typ, err := w.typeID(e.recorded.Type)
		if err != nil {
			return err
		}
		w.group.position++
		if e.packed {
			typ = -typ
		}
		at := rowKey{position: w.group.position, stream: h.id, revision: h.events, typ: typ}
		seal(e.envelope, e.crc, at)
		if err := w.insertEvent.exec(at.position, at.stream, at.revision, at.typ, e.envelope, e.data); err != nil {
			return err
		}
		e.recorded.Revision, e.recorded.Position = uint64(at.revision), eventlog.Position(at.position)
		h.events++
	}
	r.result.LastRevision = uint64(h.events - 1)
	r.result.Position = eventlog.Position(w.group.position)
	w.group.heads[r.stream] = h
	return nil
}

// headOf returns the head of a stream, which is zero for a stream that does not exist.
func (w *writer) headOf(stream string) (head, error) {
	if h, ok := w.group.heads[stream]; ok {
		return h, nil
	}
	if h, ok := w.heads.get(stream); ok {
		return h, nil
	}
	var h head
	found, err := w.streamID.row(1, func(row []driver.Value) error {
		h.id, _ = row[0].(int64)
		return nil
	}, stream)
	if err != nil || !found {
		return head{}, err
	}
	found, err = w.last.row(eventColumns, func(row []driver.Value) error {
		at, _, err := verifyRow(row)
		h.events = at.revision + 1
		return err
	}, h.id)
	if err == nil && !found {
		err = fmt.Errorf("%w: stream %s has no events", errDamaged, stream)
	}
	if err != nil {
		return head{}, err
	}
	w.heads.put(stream, h)
	return h, nil
}

// checkType rejects a type beyond the limit before anything of its append is written.
func (w *writer) checkType(name string) error {
	if _, ok := w.types[name]; ok {
		return nil
	}
	if _, ok := w.group.types[name]; ok || w.group.typ < maxTypes {
		return nil
	}
	return fmt.Errorf("%w: event type %q would be number %d of at most %d",
		eventlog.ErrInvalid, name, maxTypes+1, maxTypes)
}

func (w *writer) typeID(name string) (int64, error) {
	if id, ok := w.types[name]; ok {
		return id, nil
	}
	if id, ok := w.group.types[name]; ok {
		return id, nil
	}
	w.group.typ++
	w.group.types[name] = w.group.typ
	return w.group.typ, w.insertType.exec(w.group.typ, name)
}

// pagesWritten returns the number of pages written to the WAL since the last call.
func (w *writer) pagesWritten() int {
	pages, _, err := w.status.Status(moderncsqlite.DBStatusCacheWrite, true)
	if err != nil {
		return 0
	}
	return pages
}
