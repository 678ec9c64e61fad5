package sqlite

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
)

// The write-ahead log's format, https://www.sqlite.org/fileformat.html#the_write_ahead_log.
const (
	walMagic        = 0x377f0682 // the lowest bit says that checksums read words as big endian
	walHeaderBytes  = 32
	walHeaderPage   = 8
	walHeaderSalts  = 16
	walHeaderSum    = 24
	walFrameBytes   = 24
	walFrameCommit  = 4
	walFrameSalts   = 8
	walFrameSum     = 16
	walLargestPage  = 65536
	walSmallestPage = 512
)

// walScan is what a look through a write-ahead log found, before SQLite sees it. SQLite takes the frames up to
// the first that does not fit and forgets the rest, which is right for a write that was cut off and wrong for
// a frame that was damaged later.
type walScan struct {
	there  bool
	salts  uint64
	frames int // of the intact beginning
	// damage is nil or says why frames behind the intact beginning were acknowledged once.
	damage error
}

// scanWAL looks through the write-ahead log of the log at path.
func scanWAL(path string) (walScan, error) {
	f, err := os.Open(path + "-wal")
	if errors.Is(err, fs.ErrNotExist) {
		return walScan{}, nil
	}
	if err != nil {
		return walScan{}, fmt.Errorf("read the write-ahead log: %w", err)
	}
	s, err := scanFrames(f)
	if err := errors.Join(err, f.Close()); err != nil {
		return walScan{}, fmt.Errorf("read the write-ahead log: %w", err)
	}
	return s, nil
}

// scanFrames tells a torn end from damage. Every group is flushed before the next one begins, so at most the
// last group of frames may be incomplete: when its frames do not fit, and an intact frame of a later group is
// there, what does not fit was acknowledged and damaged afterwards. Whether the last group itself was
// acknowledged only the marker knows.
//
// A frame is intact when its checksum continues the one that is stored in the frame before it. The frames of an
// earlier use of the file are not: the salts in the header change whenever it is begun again.
func scanFrames(from io.Reader) (walScan, error) {
	in := bufio.NewReaderSize(from, 1<<20)
	s := walScan{there: true}
	header := make([]byte, walHeaderBytes)
	switch n, err := io.ReadFull(in, header); {
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		s.there = n > 0
		return s, nil // cut off before the first frame: nothing was written behind it
	case err != nil:
		return s, err
	}
	sum, headerIntact := walHeader(header)
	salts := binary.BigEndian.Uint64(header[walHeaderSalts:])
	page := int(binary.BigEndian.Uint32(header[walHeaderPage:]))
	if !headerIntact {
		page = pageBytes // ours
	} else {
		s.salts = salts
	}
	orders := []binary.ByteOrder{walOrder(header)}
	if !headerIntact { // the bit that names the order may be what is damaged
		orders = []binary.ByteOrder{binary.LittleEndian, binary.BigEndian}
	}

	var (
		frame     = make([]byte, walFrameBytes+page)
		before    = sum // as stored in the frame before
		intact    = headerIntact
		bad       = 0 // the first frame that does not fit
		badCommit bool
		commits   int // intact commit frames behind it
	)
	for number := 1; ; number++ {
		switch _, err := io.ReadFull(in, frame); {
		case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
			return s, nil
		case err != nil:
			return s, err
		}
		mine := binary.BigEndian.Uint64(frame[walFrameSalts:])
		if !headerIntact && number == 1 {
			salts = mine // the header cannot say; an intact frame shows that there was one
		}
		stored := walPair(frame[walFrameSum:])
		fits := mine == salts && binary.BigEndian.Uint32(frame) != 0 && slices.ContainsFunc(orders, func(order binary.ByteOrder) bool {
			return walSum(order, walSum(order, before, frame[:8]), frame[walFrameBytes:]) == stored
		})
		commit := binary.BigEndian.Uint32(frame[walFrameCommit:]) != 0
		before = stored
		switch {
		case intact && fits:
			s.frames = number
		case intact:
			intact, bad, badCommit = false, number, mine == salts && commit
		case fits && !headerIntact:
			s.damage = fmt.Errorf("%w: the write-ahead log's header is not what was written, and frame %d behind it is", errDamaged, number)
			return s, nil
		case fits && (badCommit || commits > 0):
			s.damage = fmt.Errorf("%w: frame %d of the write-ahead log is not what was written, and frame %d, of a later write, is", errDamaged, bad, number)
			return s, nil
		case fits && commit:
			commits++
		}
	}
}

// walHeader returns the header's checksum and reports whether it is right.
func walHeader(h []byte) (sum [2]uint32, intact bool) {
	page := binary.BigEndian.Uint32(h[walHeaderPage:])
	sum = walPair(h[walHeaderSum:])
	return sum, binary.BigEndian.Uint32(h)&^1 == walMagic &&
		page >= walSmallestPage && page <= walLargestPage && page&(page-1) == 0 &&
		walSum(walOrder(h), [2]uint32{}, h[:walHeaderSum]) == sum
}

func walOrder(header []byte) binary.ByteOrder {
	if header[3]&1 == 1 {
		return binary.BigEndian
	}
	return binary.LittleEndian
}

func walPair(b []byte) [2]uint32 {
	return [2]uint32{binary.BigEndian.Uint32(b), binary.BigEndian.Uint32(b[4:])}
}

// walSum continues a checksum over b, whose length is a multiple of 8.
func walSum(order binary.ByteOrder, s [2]uint32, b []byte) [2]uint32 {
	s0, s1 := s[0], s[1]
	if order == binary.LittleEndian { // nearly every machine's, without a call for each word
		for ; len(b) >= 8; b = b[8:] {
			s0 += binary.LittleEndian.Uint32(b) + s1
			s1 += binary.LittleEndian.Uint32(b[4:]) + s0
		}
	} else {
		for ; len(b) >= 8; b = b[8:] {
			s0 += binary.BigEndian.Uint32(b) + s1
			s1 += binary.BigEndian.Uint32(b[4:]) + s0
		}
	}
	return [2]uint32{s0, s1}
}
