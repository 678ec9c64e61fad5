package sqlite

import (
	"bytes"
	"cmp"
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"hash/maphash"

	"github.com/google/uuid"

	"letterhead/internal/eventlog"
)

// auditPage bounds the events or index entries of one step of an audit.
const auditPage = 1024

// audit verifies a log event by event: first the rows by position, with checksums, gaps, digest and index
// entry of each; then the index in its own order, with revision gaps and stream names. It has its own
// read-only connection, which changes nothing when it closes, not even the write-ahead log.
type audit struct {
	r             *reader
	rows, entries *statement
	bare          *statement // rows without the index entries
	streams       *statement
	chainer       *chainer

	// chain is at the last verified event, anchor between anchorEvery and twice as many events before it.
	chain, anchor, next chain
	// want is the chain at a later position with a known digest; the zero chain if there is none.
	want chain
	// tolerate handles a damaged event: if it returns nil, the audit continues without the digest. If
	// tolerate is nil, the audit stops.
	tolerate func(at int64, err error) error
	broken   bool // the digest can no longer be compared
	read     int  // bytes of events so far

	stream, revision, indexed int64 // position of the walk in the index, and entries up to it

	// summing compares the index as a whole: the sums of the hashes of its entries and of those that the rows need.
	summing        bool
	seed           maphash.Seed
	needed, listed uint64
}

// entry is an entry of the index.
type entry struct{ stream, revision, position int64 }

// openSoleAudit opens a log that no connection has open, even on a full disk. alone ignores the write-ahead log,
// whatever it contains.
func openSoleAudit(path string, alone bool) (*audit, error) {
	if alone {
		return openAudit(path, modeAlone)
	}
	a, err := openAudit(path, "ro")
	if errors.Is(classify("", err), eventlog.ErrFull) && soleModes {
		return openAudit(path, modeSole)
	}
	return a, err
}

// openAudit opens the log at path in a mode of connect.
func openAudit(path, mode string) (*audit, error) {
	r, err := newReader(path, mode, newNames()) // cached names could hide damage
	if err != nil {
		return nil, err
	}
	a := &audit{r: r, chainer: newChainer(), stream: -1, seed: maphash.MakeSeed()}
	if err := r.conn.prepare([]query{
		{&a.rows, `SELECT position, stream, revision, type, envelope, data,
			(SELECT i.position FROM events i INDEXED BY events_by_stream WHERE i.stream = e.stream AND i.revision = e.revision)
			FROM events e WHERE position > ? AND position <= ? ORDER BY position LIMIT ?`},
		{&a.bare, `SELECT position, stream, revision, type, envelope, data, NULL
			FROM events WHERE position > ? AND position <= ? ORDER BY position LIMIT ?`},
		{&a.entries, `SELECT stream, revision, position FROM events INDEXED BY events_by_stream
			WHERE (stream, revision) > (?, ?) ORDER BY stream, revision LIMIT ?`},
		{&a.streams,
			`SELECT s.name, (SELECT i.id FROM streams i INDEXED BY sqlite_autoindex_streams_1 WHERE i.name = s.name)
			FROM streams s WHERE s.id = ?`},
	}); err != nil {
		return nil, errors.Join(err, r.conn.close())
	}
	return a, nil
}

func (a *audit) close() error { return a.r.conn.close() }

// start begins at a known state of the chain and expects a later one.
func (a *audit) start(from, want chain) {
	a.chain, a.anchor, a.next, a.want = from, from, from, want
}

// begin begins at the beginning of the log, or, unless whole is set, at the marker's anchor, and compares the ends of the
// log with its marker, if there is one. It returns the position of the last event and the id of the first.
func (a *audit) begin(m *mark, whole bool) (last int64, logID uuid.UUID, err error) {
	if last, err = a.r.conn.lastPosition(); err != nil {
		return last, logID, err
	}
	if logID, err = a.first(); err != nil || m == nil {
		return last, logID, err
	}
	from, want := m.anchor, m.chain()
	if whole {
		from = chain{}
	}
	a.start(from, want)
	switch {
	case want.position > 0 && last > 0 && logID != m.LogID:
		err = fmt.Errorf("%w: this is another log, whose first event is %s instead of %s", errDamaged, logID, m.LogID)
	case last < want.position:
		err = fmt.Errorf("%w: it ends at position %d, but its marker is at position %d", errShort, last, want.position)
	}
	return last, logID, err
}

// first returns the id of the first event, or Nil if there is none.
func (a *audit) first() (id uuid.UUID, err error) {
	return id, a.r.conn.once("SELECT envelope FROM events WHERE position = 1", 1, func(row []driver.Value) error {
		if envelope, _ := row[0].([]byte); len(envelope) >= envelopeTime {
			copy(id[:], envelope[envelopeID:])
		}
		return nil
	})
}

// step verifies the next events up to a position; done reports that there are no more.
func (a *audit) step(ctx context.Context, until int64) (done bool, err error) {
	if err := ctx.Err(); err != nil {
		return false, err
	}
	begun := a.chain.position
	if begun >= until {
		return true, nil
	}
	rows := a.rows
	if a.summing {
		rows = a.bare
	}
	if err := rows.each(eventColumns+1, a.row, begun, until, int64(auditPage)); err != nil {
		return false, err
	}
	if a.chain.position == begun {
		err := fmt.Errorf("%w: events %d to %d are missing", errDamaged, begun+1, until)
		if a.tolerate == nil {
			return false, err
		}
		for at := begun + 1; at <= until; at++ { // a nominal size, the same for each
			if err := a.tolerate(at, err); err != nil {
				return false, err
			}
		}
		a.chain.position, a.broken = until, true
	}
	return a.chain.position >= until, nil
}

// intact reads the longest intact beginning of the log without using the index, and passes its events to
// take. why is the reason for the end, nil at the end of the table.
func (a *audit) intact(ctx context.Context, take func(*eventlog.Recorded) error) (head chain, why, err error) {
	a.start(chain{}, chain{})
	revisions := make(map[int64]int64)
	var taking error
	for {
		before := a.chain
		err := a.r.page.each(eventColumns, func(row []driver.Value) error {
			var e eventlog.Recorded
			at, _, err := a.r.decode(row, &e, eventlog.Filter{})
			switch {
			case err != nil:
				return err
			case at.position != a.chain.position+1:
				return fmt.Errorf("%w: position %d comes after position %d", errDamaged, at.position, a.chain.position)
			case at.revision != revisions[at.stream]:
				return fmt.Errorf("%w: event at position %d is revision %d of %s instead of revision %d",
					errDamaged, at.position, at.revision, e.Stream, revisions[at.stream])
			}
			if take != nil {
				if taking = take(&e); taking != nil {
					return taking
				}
			}
			revisions[at.stream]++
			envelope, data := contentOf(row)
			a.chainer.add(&a.chain, &e, envelope, data)
			return nil
		}, a.chain.position, int64(auditPage))
		switch {
		case taking != nil:
			return a.chain, nil, taking
		case err != nil && !errors.Is(classify("", err), eventlog.ErrCorrupt):
			return a.chain, nil, err
		case err != nil || a.chain == before:
			return a.chain, err, ctx.Err()
		case ctx.Err() != nil:
			return a.chain, nil, ctx.Err()
		}
	}
}

func (a *audit) row(row []driver.Value) error {
	var e eventlog.Recorded
	at, _, err := a.r.decode(row, &e, eventlog.Filter{})
	switch {
	case err != nil:
	case a.summing:
		a.needed += maphash.Comparable(a.seed, entry{at.stream, at.revision, at.position})
	default:
		if index, found := row[eventColumns].(int64); !found || index != at.position {
			err = fmt.Errorf("%w: event at position %d is not found as revision %d of %s",
				errDamaged, at.position, at.revision, e.Stream)
		}
	}
	for missing := a.chain.position + 1; missing < at.position; missing++ {
		gap := fmt.Errorf("%w: position %d comes after position %d", errDamaged, at.position, a.chain.position)
		if a.tolerate == nil {
			return gap
		}
		if err := a.tolerate(missing, gap); err != nil {
			return err
		}
		a.broken = true
	}
	if err != nil {
		if !errors.Is(classify("", err), eventlog.ErrCorrupt) || a.tolerate == nil {
			return err
		}
		a.chain.position, a.broken = at.position, true
		return a.tolerate(at.position, err)
	}
	envelope, data := contentOf(row)
	a.chainer.add(&a.chain, &e, envelope, data)
	a.read += len(envelope) + len(data)
	if a.chain.position-a.next.position >= anchorEvery {
		a.anchor, a.next = a.next, a.chain
	}
	if a.want.position == a.chain.position && !a.broken && !bytes.Equal(a.want.digest[:], a.chain.digest[:]) {
		return fmt.Errorf("%w: the digest of the events up to position %d differs from that of the written events",
			errDamaged, at.position)
	}
	return nil
}

// stepIndex verifies the next index entries by stream, skipping entries of events after until. After the last
// entry it compares their number.
func (a *audit) stepIndex(ctx context.Context, until int64) (done bool, err error) {
	if err := ctx.Err(); err != nil {
		return false, err
	}
	n := 0
	if err := a.entries.each(3, func(row []driver.Value) error {
		n++
		stream, _ := row[0].(int64)
		revision, _ := row[1].(int64)
		position, _ := row[2].(int64)
		expected := a.revision + 1
		if stream != a.stream {
			if err := a.name(stream); err != nil {
				return err
			}
			expected = 0
		}
		if revision != expected {
			return fmt.Errorf("%w: stream %d has revision %d instead of revision %d",
				errDamaged, stream, revision, expected)
		}
		a.stream, a.revision = stream, revision
		if position <= until {
			a.indexed++
			a.listed += maphash.Comparable(a.seed, entry{stream, revision, position})
		}
		return nil
	}, a.stream, a.revision, int64(auditPage)); err != nil {
		return false, err
	}
	if n == auditPage {
		return false, nil
	}
	if a.indexed != until {
		return false, fmt.Errorf("%w: the index by stream has %d of %d events", errDamaged, a.indexed, until)
	}
	return true, nil
}

// name compares a stream's name with the index of names.
func (a *audit) name(stream int64) error {
	found, err := a.streams.row(2, func(row []driver.Value) error {
		if id, _ := row[1].(int64); id != stream {
			return fmt.Errorf("%w: stream %v is not found by its name", errDamaged, row[0])
		}
		return nil
	}, stream)
	if err == nil && !found {
		err = fmt.Errorf("%w: a stream has no name", errDamaged)
	}
	return err
}

// all verifies everything up to a position and the structure of the file. progress may be nil. It looks each index
// entry up only if the index as a whole is wrong, to find the event whose entry it is.
func (a *audit) all(ctx context.Context, until int64, progress func(done int64)) error {
	from, want := a.chain, a.want
	repeat := func(step func(context.Context, int64) (bool, error)) error {
		for {
			done, err := step(ctx, until)
			if err != nil {
				return err
			}
			if progress != nil {
				progress(a.chain.position)
			}
			if done {
				return nil
			}
		}
	}
	a.summing = true
	if err := repeat(a.step); err != nil {
		return err
	}
	err := repeat(a.stepIndex)
	a.summing = false
	switch {
	case err == nil && a.needed == a.listed:
		return a.structure()
	case err == nil:
		err = fmt.Errorf("%w: the index by stream differs from the events", errDamaged)
	case !errors.Is(classify("", err), eventlog.ErrCorrupt):
		return err
	}
	a.start(from, want)
	return cmp.Or(repeat(a.step), err)
}

// structure runs SQLite's check of its pages. It takes about a second per gigabyte and cannot be interrupted.
func (a *audit) structure() error {
	var verdict string
	if err := a.r.conn.once("PRAGMA quick_check(1)", 1, func(row []driver.Value) error {
		verdict, _ = row[0].(string)
		return nil
	}); err != nil {
		return err
	}
	if verdict != "ok" {
		return fmt.Errorf("%w: %s", errDamaged, verdict)
	}
	return nil
}
