package sqlite

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/google/uuid"

	"letterhead/internal/eventlog"
)

// Marker is what a log remembers of its head outside its file, in the file MarkerPath. The writer renews it
// after every group is durable and before anybody learns that it is, so a log whose head is before the
// marker's has lost events that were acknowledged.
//
// The marker is in the page cache with every group, which is all that the kill of a process needs, and is
// flushed once a second, because a flush with every group would cost as much as the group. After a loss of
// power it may thus be a second old, never younger than the log: the events it does not know of were flushed
// themselves before they were acknowledged.
type Marker struct {
	// LogID is the id of the log's first event, which tells one log from another; Nil without events.
	LogID uuid.UUID
	// Position is that of the last event, and Count how many events there are up to it.
	Position eventlog.Position
	Count    uint64
	// Digest is a running SHA-256 over all events up to Position.
	Digest    [32]byte
	WrittenAt time.Time
}

// mark is a Marker and what only this package needs of it.
type mark struct {
	Marker
	sequence uint64
	// anchor is an earlier place of the chain, so that a start has to read only the events behind it.
	anchor chain
	// salts identify the write-ahead log that was in use (its header's two salts); 0: none was.
	salts uint64
}

func (m mark) chain() chain { return chain{position: int64(m.Position), digest: m.Digest} }

// The marker file has two slots, written in turn, each within a sector of a page of its own, so that a torn
// write leaves the other. A slot, all numbers big endian:
//
//	8 bytes   "LHhead", 0, format 1
//	8 bytes   sequence
//	16 bytes  log id
//	8 bytes   position
//	8 bytes   count
//	32 bytes  digest
//	8 bytes   position of the anchor
//	32 bytes  digest of the anchor
//	8 bytes   salts of the write-ahead log
//	8 bytes   written at, microseconds since 1970
//	4 bytes   CRC-32C of all before
const (
	markMagic   = "LHhead\x00\x01"
	markSum     = 136
	markBytes   = markSum + 4
	markSpacing = 4096
	markerBytes = 2 * markSpacing
)

// MarkerPath returns where the marker of the log at path is: events.head for events.db.
func MarkerPath(path string) string { return strings.TrimSuffix(path, ".db") + ".head" }

// ReadMarker reads the marker of the log at path, nil when it has none.
//
// Errors: eventlog.ErrCorrupt when the file is not a marker; those of the file system.
func ReadMarker(path string) (*Marker, error) {
	m, _, err := readMark(path)
	if m == nil {
		return nil, err
	}
	return &m.Marker, err
}

// errNoMarker marks a marker file without a marker.
var errNoMarker = errors.New("the head marker cannot be read")

// readMark returns the younger of the two slots, and whether both could be read.
func readMark(path string) (m *mark, both bool, err error) {
	name := MarkerPath(path)
	f, err := os.Open(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, true, nil
	}
	if err != nil {
		return nil, false, fmt.Errorf("read the head marker: %w", err)
	}
	raw := make([]byte, markerBytes)
	n, err := io.ReadFull(f, raw)
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		err = nil
	}
	if err := errors.Join(err, f.Close()); err != nil {
		return nil, false, fmt.Errorf("read the head marker: %w", err)
	}
	m, both = decodeMarker(raw[:n])
	if m == nil {
		return nil, false, fmt.Errorf("%w: %w: neither half of %s is what was written", eventlog.ErrCorrupt, errNoMarker, name)
	}
	return m, both, nil
}

// decodeMarker returns nil when neither slot is whole.
func decodeMarker(raw []byte) (m *mark, both bool) {
	both = true
	for at := 0; at < markerBytes; at += markSpacing {
		var s mark
		if len(raw) < at+markBytes || !s.decode(raw[at:at+markBytes]) {
			both = false
		} else if m == nil || s.sequence > m.sequence {
			m = &s
		}
	}
	return m, both
}

func (m *mark) encode(b []byte) {
	copy(b, markMagic)
	put := func(at int, n uint64) { binary.BigEndian.PutUint64(b[at:], n) }
	put(8, m.sequence)
	copy(b[16:], m.LogID[:])
	put(32, uint64(m.Position))
	put(40, m.Count)
	copy(b[48:], m.Digest[:])
	put(80, uint64(m.anchor.position))
	copy(b[88:], m.anchor.digest[:])
	put(120, m.salts)
	put(128, uint64(m.WrittenAt.UnixMicro()))
	binary.BigEndian.PutUint32(b[markSum:], crc32.Checksum(b[:markSum], castagnoli))
}

// decode reports whether the bytes are a slot that makes sense.
func (m *mark) decode(b []byte) bool {
	if string(b[:len(markMagic)]) != markMagic || binary.BigEndian.Uint32(b[markSum:]) != crc32.Checksum(b[:markSum], castagnoli) {
		return false
	}
	get := func(at int) uint64 { return binary.BigEndian.Uint64(b[at:]) }
	m.sequence = get(8)
	copy(m.LogID[:], b[16:])
	m.Position, m.Count = eventlog.Position(get(32)), get(40)
	copy(m.Digest[:], b[48:])
	m.anchor.position = int64(get(80))
	copy(m.anchor.digest[:], b[88:])
	m.salts = get(120)
	m.WrittenAt = time.UnixMicro(int64(get(128))).UTC()
	// Positions of this adapter have no gaps.
	return m.Count == uint64(m.Position) && int64(m.Position) >= m.anchor.position && m.anchor.position >= 0
}

// anchorEvery is how many events at least are between two anchors. A start reads and compares twice as many
// at most, and a group more.
const anchorEvery = 256

// headFile keeps the marker file of an open log.
type headFile struct {
	path    string
	f       *os.File // nil while the file cannot be made; mu guards the field
	walPath string
	wal     *os.File // opened with the first group
	chainer *chainer // the writer's
	buf     [markBytes]byte

	mu    sync.Mutex
	mark  mark
	next  chain // the next anchor
	dirty bool
}

// openHead writes the marker of a log that is at m, and keeps the file open. A file that is there is written in
// place, which needs no room on a full disk. One that is not is made.
//
// What openHead returns keeps the marker also beside an error: the log goes on, with less to compare it with later, as it
// does when a write fails, and make tries again.
func openHead(path string, m mark) (h *headFile, err error) {
	h = &headFile{path: MarkerPath(path), walPath: path + "-wal", chainer: newChainer(), mark: m, next: m.chain()}
	h.mark.salts = h.salts()
	if h.f, err = os.OpenFile(h.path, os.O_RDWR, 0); err != nil {
		h.f = nil
		if errors.Is(err, fs.ErrNotExist) {
			err = h.make()
		}
		return h, err
	}
	for range 2 { // both slots: one of them may have been torn
		if err == nil {
			err = h.write()
		}
	}
	return h, err
}

// errNoFile is why a marker is not written that has no file yet.
var errNoFile = errors.New("write the head marker: the file could not be made")

// missing reports whether make should be tried.
func (h *headFile) missing() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.f == nil
}

// make makes the file, durable and in one step, because a file without a whole slot counts as damaged. Groups wait for
// it, so that the marker says no more than what is durable.
func (h *headFile) make() (err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	raw := make([]byte, markerBytes)
	for range 2 {
		copy(raw[h.turn(h.buf[:]):], h.buf[:])
	}
	attempt := h.path + ".new"
	if err = writeNew(attempt, raw); err != nil {
		err = errors.Join(err, removeIfThere(attempt)) // it takes room
	} else if err = os.Rename(attempt, h.path); err == nil {
		if err = syncFolder(filepath.Dir(h.path)); err == nil {
			h.f, err = os.OpenFile(h.path, os.O_RDWR, 0)
		}
	}
	if err != nil {
		h.f = nil
		return fmt.Errorf("write the head marker: %w", err)
	}
	return nil
}

// writeNew writes a file and flushes it.
func writeNew(name string, data []byte) error {
	f, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	return errors.Join(err, f.Sync(), f.Close())
}

// advance moves the marker over the events of a group that is durable. The error is what keeps the file from
// being written; the log goes on, with less to compare it with after a crash.
func (h *headFile) advance(requests []*request) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	m := &h.mark
	c := m.chain()
	for _, r := range requests {
		for i := range r.events {
			e := &r.events[i]
			if e.recorded.Position != eventlog.Position(c.position)+1 {
				continue // refused, or a repeat
			}
			if c.position == 0 {
				m.LogID = e.recorded.ID
			}
			h.chainer.add(&c, &e.recorded, e.envelope)
		}
	}
	m.Position, m.Count, m.Digest = eventlog.Position(c.position), uint64(c.position), c.digest
	if c.position-h.next.position >= anchorEvery {
		m.anchor, h.next = h.next, c
	}
	m.salts = h.salts()
	return h.write()
}

// write puts the marker into the slot whose turn it is.
func (h *headFile) write() error {
	if h.f == nil {
		return errNoFile
	}
	at := h.turn(h.buf[:])
	h.dirty = true
	if _, err := h.f.WriteAt(h.buf[:], at); err != nil {
		return fmt.Errorf("write the head marker: %w", err)
	}
	return nil
}

// turn encodes the marker and returns where the slot is whose turn it is.
func (h *headFile) turn(into []byte) (at int64) {
	h.mark.sequence++
	h.mark.WrittenAt = time.Now()
	h.mark.encode(into)
	return int64(h.mark.sequence%2) * markSpacing
}

// salts reads those of the write-ahead log. 0, when it has none or cannot be read, only means that a start
// cannot compare them.
func (h *headFile) salts() uint64 {
	if h.wal == nil {
		var err error
		if h.wal, err = os.Open(h.walPath); err != nil {
			return 0
		}
	}
	var b [8]byte
	if _, err := h.wal.ReadAt(b[:], walHeaderSalts); err != nil {
		return 0
	}
	return binary.BigEndian.Uint64(b[:])
}

// flush makes the marker durable when it changed.
func (h *headFile) flush() error {
	h.mu.Lock()
	dirty := h.dirty && h.f != nil
	h.dirty = false
	h.mu.Unlock()
	if !dirty {
		return nil
	}
	if err := h.f.Sync(); err != nil { // beside the writer, which goes on
		h.mu.Lock()
		h.dirty = true
		h.mu.Unlock()
		return err
	}
	return nil
}

func (h *headFile) current() mark {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.mark
}

// close writes the marker a last time, when the write-ahead log is gone, and makes it durable. One that could not be
// made has been reported, and is made by the next start.
func (h *headFile) close() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.f == nil {
		return h.closeFiles()
	}
	var err error
	if _, statErr := os.Stat(h.walPath); errors.Is(statErr, fs.ErrNotExist) {
		h.mark.salts = 0
		err = h.write()
	}
	if err := errors.Join(err, h.f.Sync(), h.closeFiles()); err != nil {
		return fmt.Errorf("write the head marker: %w", err)
	}
	return nil
}

func (h *headFile) closeFiles() error {
	var errs []error
	for _, f := range []*os.File{h.f, h.wal} {
		if f != nil {
			errs = append(errs, f.Close())
		}
	}
	return errors.Join(errs...)
}
