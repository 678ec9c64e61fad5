package sqlite

import (
	"bytes"
	"encoding/binary"
	"testing"

	"pgregory.net/rapid"

	"letterhead/internal/testmust"
)

// walWriter writes write-ahead logs as SQLite does.
type walWriter struct {
	bytes []byte
	sum   [2]uint32
}

const testPage = pageBytes

func newWAL(salts uint64) *walWriter {
	w := &walWriter{bytes: make([]byte, walHeaderBytes)}
	binary.BigEndian.PutUint32(w.bytes, walMagic)
	binary.BigEndian.PutUint32(w.bytes[4:], 3007000)
	binary.BigEndian.PutUint32(w.bytes[walHeaderPage:], testPage)
	binary.BigEndian.PutUint64(w.bytes[walHeaderSalts:], salts)
	w.sum = walSum(binary.LittleEndian, [2]uint32{}, w.bytes[:walHeaderSum])
	putPair(w.bytes[walHeaderSum:], w.sum)
	return w
}

func putPair(b []byte, sum [2]uint32) {
	binary.BigEndian.PutUint32(b, sum[0])
	binary.BigEndian.PutUint32(b[4:], sum[1])
}

// write appends a transaction, one frame per page, the last of which commits.
func (w *walWriter) write(pages ...byte) {
	for i, content := range pages {
		frame := make([]byte, walFrameBytes+testPage)
		binary.BigEndian.PutUint32(frame, uint32(i)+1)
		if i == len(pages)-1 {
			binary.BigEndian.PutUint32(frame[walFrameCommit:], 9)
		}
		copy(frame[walFrameSalts:], w.bytes[walHeaderSalts:walHeaderSum])
		for j := walFrameBytes; j < len(frame); j++ {
			frame[j] = content ^ byte(j)
		}
		w.sum = walSum(binary.LittleEndian, walSum(binary.LittleEndian, w.sum, frame[:8]), frame[walFrameBytes:])
		putPair(frame[walFrameSum:], w.sum)
		w.bytes = append(w.bytes, frame...)
	}
}

func frameAt(n int) int { return walHeaderBytes + n*(walFrameBytes+testPage) }

func scanBytes(t testmust.T, raw []byte) walScan {
	s := testmust.Get(scanFrames(bytes.NewReader(raw)))(t)
	return s
}

// A power failure may leave any part of the last write; a change in an earlier one is always damage.
// Rule 2.
func TestScanWAL_TornLastWrite_IsNotDamage(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := newWAL(rapid.Uint64().Draw(t, "salts"))
		var ends []int // frames after each transaction
		for _, pages := range rapid.SliceOfN(rapid.SliceOfN(rapid.Byte(), 1, 5), 3, 8).Draw(t, "transactions") {
			w.write(pages...)
			ends = append(ends, (len(w.bytes)-walHeaderBytes)/(walFrameBytes+testPage))
		}
		last := ends[len(ends)-1]
		if s := scanBytes(t, w.bytes); s.damage != nil || s.frames != last {
			t.Fatalf("as written: %+v, want %d frames", s, last)
		}

		torn := bytes.Clone(w.bytes)
		for f := ends[len(ends)-2]; f < last; f++ {
			if rapid.Bool().Draw(t, "lost") {
				clear(torn[frameAt(f):frameAt(f+1)])
			}
		}
		torn = torn[:rapid.IntRange(frameAt(ends[len(ends)-2]), len(torn)).Draw(t, "length")]
		if s := scanBytes(t, torn); s.damage != nil || s.frames < ends[len(ends)-2] {
			t.Fatalf("with a torn end: %+v", s)
		}

		// Damage followed by two whole writes, so that it is detected even if a commit frame has lost its commit field.
		damaged := bytes.Clone(w.bytes)
		at := rapid.IntRange(0, frameAt(ends[len(ends)-3])-1).Draw(t, "at")
		damaged[at] ^= 1 << rapid.IntRange(0, 7).Draw(t, "bit")
		if s := scanBytes(t, damaged); s.damage == nil {
			t.Fatalf("with byte %d changed: %+v", at, s)
		}
	})
}

// The rest of an earlier, longer, interrupted write after a shorter one was never acknowledged.
func TestScan_RestOfAWriteThatWasOverwritten_IsNoDamage(t *testing.T) {
	cutOff := newWAL(7)
	cutOff.write(1, 2)
	then := *cutOff
	then.bytes = bytes.Clone(cutOff.bytes)
	cutOff.write(3, 4, 5, 6, 7)
	then.write(8, 9)
	raw := append(bytes.Clone(then.bytes), cutOff.bytes[len(then.bytes):]...)
	if s := scanBytes(t, raw); s.damage != nil || s.frames != 4 {
		t.Errorf("scan = %+v, want 4 frames without damage", s)
	}
	// Frames of an earlier use of the file, with other salts.
	old := newWAL(6)
	old.write(1, 2, 3, 4, 5, 6, 7, 8, 9, 10)
	raw = append(bytes.Clone(then.bytes), old.bytes[len(then.bytes):]...)
	if s := scanBytes(t, raw); s.damage != nil || s.frames != 4 {
		t.Errorf("scan = %+v, want 4 frames without damage", s)
	}
}

func FuzzScanFrames(f *testing.F) {
	w := newWAL(1)
	f.Add(bytes.Clone(w.bytes))
	w.write(1, 2, 3)
	w.write(4)
	f.Add(bytes.Clone(w.bytes))
	w.bytes[frameAt(1)+100] ^= 1
	f.Add(w.bytes)
	f.Add([]byte("short"))
	f.Fuzz(func(t *testing.T, raw []byte) {
		s := scanBytes(t, raw)
		if s.frames*(walFrameBytes+walSmallestPage) > len(raw) {
			t.Errorf("%d frames in %d bytes", s.frames, len(raw))
		}
		if s.there != (len(raw) > 0) {
			t.Errorf("there: %v with %d bytes", s.there, len(raw))
		}
	})
}
