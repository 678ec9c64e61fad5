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

	"letterhead/internal/disk"
	"letterhead/internal/eventlog"
)

// Marker records the head of a log outside the log, in the file MarkerPath. The writer updates it after
// each group is durable and before any append is acknowledged, so a log whose head is before the marker's
// has lost acknowledged events.
//
// The marker is written to the page cache with every group, which survives the death of the process, and flushed once a
// second, because a flush per group would cost as much as the group. After a power failure it may therefore be a second
// old, but never newer than the log, because events are flushed before they are acknowledged.
type Marker struct {
	// LogID is the id of the log's first event, which identifies the log; Nil without events.
	LogID uuid.UUID
	// Position is the position of the last event, and Count the number of events up to it.
	Position eventlog.Position
	Count    uint64
	// Digest is a running SHA-256 over all events up to Position.
	Digest    [32]byte
	WrittenAt time.Time
}

// mark is a Marker with the fields that only this package needs.
type mark struct {
	Marker
	sequence uint64
	// anchor is an earlier state of the chain, so that a start only has to read the events after it.
	anchor chain
	// salts identify the current write-ahead log (the two salts of its header); 0 if there was none.
	salts uint64
}

func (m mark) chain() chain { return chain{position: int64(m.Position), digest: m.Digest} }

// The marker file has two slots, written in turn, each within a sector of a separate page, so that a torn
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

// errNoMarker marks a marker file without a marker.
var errNoMarker = errors.New("the head marker cannot be read")

// readMark returns the younger slot, and whether both slots were readable.
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
		return nil, false, fmt.Errorf("%w: %w: neither half of %s is valid", eventlog.ErrCorrupt, errNoMarker, name)
	}
	return m, both, nil
}

// decodeMarker returns nil if neither slot is valid.
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

// decode reports whether the bytes are a valid slot.
func (m *mark) decode(b []byte) bool {
	if string(b[:len(markMagic)]) != markMagic ||
		binary.BigEndian.Uint32(b[markSum:]) != crc32.Checksum(b[:markSum], castagnoli) {
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

// anchorEvery is the minimum number of events between two anchors. A start reads and compares at most twice
// as many, plus one group.
const anchorEvery = 256

// headFile keeps the marker file of an open log.
type headFile struct {
	path    string
	f       *os.File // nil until the file could be made; mu guards the field
	walPath string
	wal     *os.File // opened with the first group
	chainer *chainer // the writer's
	buf     [markBytes]byte

	mu    sync.Mutex
	mark  mark
	next  chain // the next anchor
	dirty bool
}

// openHead writes the marker of a log that is at m and keeps the file open. It writes an existing file in
// place, which needs no space on a full disk, and creates a missing one.
//
// The headFile is valid even if there is an error: the log continues without a current marker, as after any
// failed write, and make retries.
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
	for range 2 { // write both slots: one of them may be torn
		if err == nil {
			err = h.write()
		}
	}
	return h, err
}

// errNoFile is returned while there is no marker file to write to.
var errNoFile = errors.New("write the head marker: the file could not be made")

// missing reports whether make should be called.
func (h *headFile) missing() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.f == nil
}

// make creates the file durably and in one step, because a file without a valid slot counts as damaged.
// Groups wait for it, so that the marker never covers events that are not durable.
func (h *headFile) make() (err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	raw := make([]byte, markerBytes)
	for range 2 {
		copy(raw[h.turn(h.buf[:]):], h.buf[:])
	}
	attempt := h.path + ".new"
	if err = writeNew(attempt, raw); err != nil {
		err = errors.Join(err, removeIfThere(attempt)) // it needs space
	} else if err = os.Rename(attempt, h.path); err == nil {
		if err = disk.SyncFolder(filepath.Dir(h.path)); err == nil {
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

// advance moves the marker past the events of a durable group. It returns an error if the file cannot be
// written; the log continues, but detects less after a crash.
func (h *headFile) advance(requests []*request) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	m := &h.mark
	c := m.chain()
	for _, r := range requests {
		for i := range r.events {
			e := &r.events[i]
			if e.recorded.Position != eventlog.Position(c.position)+1 {
				continue // rejected, or a repeat
			}
			if c.position == 0 {
				m.LogID = e.recorded.ID
			}
			h.chainer.add(&c, &e.recorded, e.envelope, e.data)
		}
	}
	m.Position, m.Count, m.Digest = eventlog.Position(c.position), uint64(c.position), c.digest
	if c.position-h.next.position >= anchorEvery {
		m.anchor, h.next = h.next, c
	}
	m.salts = h.salts()
	return h.write()
}

// write writes the marker to the next slot.
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

// turn encodes the marker and returns the offset of the next slot.
func (h *headFile) turn(into []byte) (at int64) {
	h.mark.sequence++
	h.mark.WrittenAt = time.Now()
	h.mark.encode(into)
	return int64(h.mark.sequence%2) * markSpacing
}

// salts reads the salts of the write-ahead log. 0, if there is none or it cannot be read, only means that a
// start cannot compare them.
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

// flush makes a changed marker durable.
func (h *headFile) flush() error {
	h.mu.Lock()
	dirty := h.dirty && h.f != nil
	h.dirty = false
	h.mu.Unlock()
	if !dirty {
		return nil
	}
	if err := h.f.Sync(); err != nil { // while the writer continues
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

// close writes the marker a last time, after the write-ahead log was removed, and makes it durable. If the
// file could not be created, that has been reported, and the next start creates it.
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
