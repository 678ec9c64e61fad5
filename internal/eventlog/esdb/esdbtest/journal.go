package esdbtest

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"os"
	"path/filepath"

	"github.com/gofrs/flock"
)

const (
	journalName = "events.journal"
	lockName    = "events.lock"
	// journalHeader is the beginning of the file; its last byte is the version of the format.
	journalHeader = "LHESDB\x00\x01"
	// frameHead is the size of a frame's header: its length and its checksum, 4 bytes each, big endian.
	frameHead = 8
	// maxFrame is the maximum size of a frame: maxGroupBytes plus the largest append, and overhead.
	maxFrame = maxGroupBytes + 2*maxAppend + 1<<20
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// journal is the log on disk: a sequence of frames, one per flush. A frame is stored completely or not at all, and so
// is each append in it.
type journal struct {
	file *os.File
	lock *flock.Flock
}

// openJournal opens or creates the journal in a folder and calls each for every event.
func openJournal(dir string, each func(wire []byte) error) (*journal, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("create the folder of the log: %w", err)
	}
	j := &journal{lock: flock.New(filepath.Join(dir, lockName), flock.SetPermissions(0o600))}
	locked, err := j.lock.TryLock()
	if err != nil {
		return nil, fmt.Errorf("lock %s: %w", dir, err)
	}
	if !locked {
		return nil, fmt.Errorf("the log in %s is in use by another process", dir)
	}
	if err := j.open(dir, each); err != nil {
		return nil, errors.Join(err, j.close())
	}
	return j, nil
}

func (j *journal) open(dir string, each func([]byte) error) error {
	path := filepath.Join(dir, journalName)
	var err error
	if j.file, err = os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600); err != nil {
		return fmt.Errorf("open the log: %w", err)
	}
	size, err := j.file.Seek(0, io.SeekEnd)
	if err != nil {
		return fmt.Errorf("open %s: %w", path, err)
	}
	if size < int64(len(journalHeader)) { // new, or an earlier process was killed while it created the file
		if err := j.begin(dir); err != nil {
			return fmt.Errorf("create %s: %w", path, err)
		}
		return nil
	}
	good, err := j.replay(size, each)
	if err != nil {
		return fmt.Errorf("read %s: %w", path, err)
	}
	if size-good > maxFrame+frameHead {
		return fmt.Errorf("read %s: damaged at byte %d, with %d bytes after that: more than an unfinished flush can leave",
			path, good, size-good)
	}
	// The rest was never acknowledged.
	if err := j.file.Truncate(good); err != nil {
		return fmt.Errorf("truncate %s: %w", path, err)
	}
	if _, err := j.file.Seek(good, io.SeekStart); err != nil {
		return fmt.Errorf("open %s: %w", path, err)
	}
	return nil
}

// begin creates an empty journal and syncs the file and its folder.
func (j *journal) begin(dir string) error {
	if err := j.file.Truncate(0); err != nil {
		return err
	}
	if _, err := j.file.WriteAt([]byte(journalHeader), 0); err != nil {
		return err
	}
	if _, err := j.file.Seek(0, io.SeekEnd); err != nil {
		return err
	}
	folder, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(j.file.Sync(), folder.Sync(), folder.Close())
}

// replay reads all complete frames and returns the offset of their end.
func (j *journal) replay(size int64, each func([]byte) error) (int64, error) {
	if _, err := j.file.Seek(0, io.SeekStart); err != nil {
		return 0, err
	}
	in := bufio.NewReaderSize(j.file, 1<<20)
	header := make([]byte, len(journalHeader))
	if _, err := io.ReadFull(in, header); err != nil {
		return 0, err
	}
	if string(header) != journalHeader {
		return 0, errors.New("not a log of this version")
	}
	good := int64(len(journalHeader))
	for {
		payload, err := readFrame(in, size-good)
		if err != nil || payload == nil {
			return good, err
		}
		if err := splitFrame(payload, each); err != nil {
			return good, fmt.Errorf("at byte %d: %w", good, err)
		}
		good += frameHead + int64(len(payload))
	}
}

// readFrame returns the payload of the next frame, or nil if there is no complete and undamaged one.
func readFrame(in *bufio.Reader, left int64) ([]byte, error) {
	var head [frameHead]byte
	if left < frameHead {
		return nil, nil
	}
	if _, err := io.ReadFull(in, head[:]); err != nil {
		return nil, err
	}
	length := binary.BigEndian.Uint32(head[:])
	if length == 0 || length > maxFrame || int64(length) > left-frameHead {
		return nil, nil
	}
	payload := make([]byte, length)
	if _, err := io.ReadFull(in, payload); err != nil {
		return nil, err
	}
	if crc32.Checksum(payload, castagnoli) != binary.BigEndian.Uint32(head[4:]) {
		return nil, nil
	}
	return payload, nil
}

// splitFrame calls each for the events of a frame.
func splitFrame(payload []byte, each func([]byte) error) error {
	for len(payload) > 0 {
		length, n := binary.Uvarint(payload)
		if n <= 0 || length > uint64(len(payload)-n) {
			return errors.New("an event is truncated")
		}
		end := n + int(length)
		if err := each(payload[n:end:end]); err != nil {
			return err
		}
		payload = payload[end:]
	}
	return nil
}

// write makes a frame durable. The first frameHead bytes of frame are reserved for its header.
func (j *journal) write(frame []byte) error {
	binary.BigEndian.PutUint32(frame, uint32(len(frame)-frameHead))
	binary.BigEndian.PutUint32(frame[4:], crc32.Checksum(frame[frameHead:], castagnoli))
	if _, err := j.file.Write(frame); err != nil {
		return fmt.Errorf("write to the log: %w", err)
	}
	if err := j.file.Sync(); err != nil {
		return fmt.Errorf("flush the log: %w", err)
	}
	return nil
}

func (j *journal) close() error {
	var err error
	if j.file != nil {
		err = j.file.Close()
	}
	return errors.Join(err, j.lock.Close())
}
