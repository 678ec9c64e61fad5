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
	// journalHeader begins the file; its last byte is the format's version.
	journalHeader = "LHESDB\x00\x01"
	// frameHead is a frame's length and its checksum, 4 bytes each, big endian.
	frameHead = 8
	// maxFrame bounds a frame, in bytes: maxGroupBytes and the largest append behind it, with room for
	// framing.
	maxFrame = maxGroupBytes + 2*maxAppend + 1<<20
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// journal is the log on disk: frames, of which each is what one flush wrote. A frame is there as a whole
// or not at all, and so is each append in it.
type journal struct {
	file *os.File
	lock *flock.Flock
}

// openJournal opens or makes the journal in a folder and hands every event in it to each.
func openJournal(dir string, each func(wire []byte) error) (*journal, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("make the folder of the log: %w", err)
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
	if size < int64(len(journalHeader)) { // new, or killed while it was made
		if err := j.begin(dir); err != nil {
			return fmt.Errorf("begin %s: %w", path, err)
		}
		return nil
	}
	good, err := j.replay(size, each)
	if err != nil {
		return fmt.Errorf("read %s: %w", path, err)
	}
	if size-good > maxFrame+frameHead {
		return fmt.Errorf("read %s: it is damaged at byte %d, with %d bytes behind: more than one flush can have left unfinished",
			path, good, size-good)
	}
	// What is left was never acknowledged.
	if err := j.file.Truncate(good); err != nil {
		return fmt.Errorf("cut %s: %w", path, err)
	}
	if _, err := j.file.Seek(good, io.SeekStart); err != nil {
		return fmt.Errorf("open %s: %w", path, err)
	}
	return nil
}

// begin makes an empty journal that survives a power cut: the file and its name in the folder.
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

// replay reads frames up to the first that is not whole and returns where it begins.
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
		return 0, errors.New("it is not a log of this program's version")
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

// readFrame returns nil when what follows is no whole frame.
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

// splitFrame hands on the events of a frame.
func splitFrame(payload []byte, each func([]byte) error) error {
	for len(payload) > 0 {
		length, n := binary.Uvarint(payload)
		if n <= 0 || length > uint64(len(payload)-n) {
			return errors.New("an event does not end")
		}
		end := n + int(length)
		if err := each(payload[n:end:end]); err != nil {
			return err
		}
		payload = payload[end:]
	}
	return nil
}

// write makes a frame durable. frame begins with frameHead bytes of room.
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
