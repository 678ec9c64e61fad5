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

// The write-ahead log's format; see https://www.sqlite.org/fileformat.html#the_write_ahead_log.
const (
	walMagic        = 0x377f0682 // the lowest bit means that checksums read words as big endian
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

// walScan is the result of scanning a write-ahead log before SQLite sees it. SQLite uses the frames up to the first
// invalid one and drops the rest, which is right for an interrupted write and wrong for a frame that was damaged later.
type walScan struct {
	there  bool
	salts  uint64
	frames int // of the intact beginning
	// damage explains why frames after the intact beginning were once acknowledged; nil if none were.
	damage error
}

// scanWAL scans the write-ahead log of the log at path.
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

// scanFrames distinguishes a torn end from damage. Every group is flushed before the next one begins, so at
// most the last group of frames may be incomplete: if a frame is invalid and an intact frame of a later
// group follows, the invalid frame was acknowledged and damaged afterwards. Only the marker knows whether
// the last group itself was acknowledged.
//
// A frame is intact if its checksum continues the one stored in the frame before it. Frames of an earlier use
// of the file are not: the salts in the header change whenever the file is restarted.
func scanFrames(from io.Reader) (walScan, error) {
	in := bufio.NewReaderSize(from, 1<<20)
	s := walScan{there: true}
	header := make([]byte, walHeaderBytes)
	switch n, err := io.ReadFull(in, header); {
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		s.there = n > 0
		return s, nil // cut off before the first frame: nothing was written after it
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
	if !headerIntact { // the bit with the byte order may itself be damaged
		orders = []binary.ByteOrder{binary.LittleEndian, binary.BigEndian}
	}

	var (
		frame     = make([]byte, walFrameBytes+page)
		before    = sum // as stored in the frame before
		intact    = headerIntact
		bad       = 0 // the first invalid frame
		badCommit bool
		commits   int // intact commit frames after it
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
			salts = mine // the header is no evidence; an intact frame shows that there was one
		}
		stored := walPair(frame[walFrameSum:])
		fits := mine == salts && binary.BigEndian.Uint32(frame) != 0 &&
			slices.ContainsFunc(orders, func(order binary.ByteOrder) bool {
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
			s.damage = fmt.Errorf("%w: the write-ahead log's header is damaged, but frame %d after it is intact",
				errDamaged, number)
			return s, nil
		case fits && (badCommit || commits > 0):
			s.damage = fmt.Errorf(
				"%w: frame %d of the write-ahead log is damaged, but frame %d, of a later write, is intact",
				errDamaged, bad, number)
			return s, nil
		case fits && commit:
			commits++
		}
	}
}

// walHeader returns the header's checksum and reports whether it is valid.
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
	if order == binary.LittleEndian { // the order of nearly every machine, without a call for each word
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
