package backup

import (
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/klauspost/compress/zstd"

	"letterhead/internal/assets"
	"letterhead/internal/eventlog"
)

// A segment, format 1, is one zstd frame with a checksum, of:
//
//	8 bytes  "LHBACKUP", 1 byte format
//	uvarint  number of the segment, from 1
//	uvarint  position after which it begins
//	events   each 'e', stream, revision, position (less the position of the event before), 16 bytes id, type, schema
//	         version, occurred at (varint, microseconds since 1970), request id, actor, correlation id,
//	         causation id, hash, data
//	assets   each 'a', 32 bytes id, extension, 1 byte: 1 when the asset is in the backup
//	end      'z', number of events, position of the last one
//
// where a text is a uvarint length and its bytes, and a number a uvarint.
const (
	segmentMagic  = "LHBACKUP"
	segmentFormat = 1

	tagEvent, tagAsset, tagEnd = 'e', 'a', 'z'
)

const (
	// defaultSegmentBytes is the size at which a segment is finished, before compression.
	defaultSegmentBytes = 8 << 20
	// maxSegmentBytes bounds a segment, before and after compression, and so the memory of its reader.
	maxSegmentBytes = 64 << 20
	// maxExtension bounds an asset's extension, in bytes.
	maxExtension = 16
)

// assetRef is an asset that a segment's events refer to.
type assetRef struct {
	id      [32]byte
	ext     string
	present bool // in the backup
}

func (a assetRef) hex() string { return hex.EncodeToString(a.id[:]) }

// name returns the asset's name in a backup.
func (a assetRef) name() string {
	id := a.hex()
	return "assets/" + id[:2] + "/" + id[2:4] + "/" + id + "." + a.ext
}

type segment struct {
	number  uint64
	after   eventlog.Position
	through eventlog.Position
	events  []eventlog.Recorded
	assets  []assetRef
}

type builder struct {
	number  uint64
	after   eventlog.Position
	through eventlog.Position
	events  int
	last    EventRef
	raw     []byte
	refs    []assetRef
	seen    map[assetKey]struct{}
}

type assetKey struct {
	id  [32]byte
	ext string
}

func newBuilder(number uint64, after eventlog.Position, size int) *builder {
	b := &builder{number: number, after: after, through: after, seen: map[assetKey]struct{}{}}
	b.raw = make([]byte, 0, size+eventlog.MaxEventBytes)
	b.raw = append(append(b.raw, segmentMagic...), segmentFormat)
	b.raw = binary.AppendUvarint(b.raw, number)
	b.raw = binary.AppendUvarint(b.raw, uint64(after))
	return b
}

func (b *builder) add(e *eventlog.Recorded) {
	m := &e.Metadata
	raw := append(b.raw, tagEvent)
	raw = appendText(raw, e.Stream)
	raw = binary.AppendUvarint(raw, e.Revision)
	raw = binary.AppendUvarint(raw, uint64(e.Position-b.through))
	raw = append(raw, e.ID[:]...)
	raw = appendText(raw, e.Type)
	raw = binary.AppendUvarint(raw, uint64(e.SchemaVersion))
	raw = binary.AppendVarint(raw, e.OccurredAt.UnixMicro())
	for _, s := range [...]string{m.RequestID, m.Actor, m.CorrelationID, m.CausationID, m.Hash} {
		raw = appendText(raw, s)
	}
	raw = binary.AppendUvarint(raw, uint64(len(e.Data)))
	b.raw = append(raw, e.Data...)
	b.through = e.Position
	b.last = refTo(e)
	b.events++
}

func (b *builder) refer(a assetKey) {
	if _, known := b.seen[a]; !known {
		b.seen[a] = struct{}{}
		b.refs = append(b.refs, assetRef{id: a.id, ext: a.ext})
	}
}

// end finishes the segment and returns its bytes before compression.
func (b *builder) end() []byte {
	for _, a := range b.refs {
		b.raw = append(b.raw, tagAsset)
		b.raw = append(b.raw, a.id[:]...)
		b.raw = appendText(b.raw, a.ext)
		present := byte(0)
		if a.present {
			present = 1
		}
		b.raw = append(b.raw, present)
	}
	b.raw = append(b.raw, tagEnd)
	b.raw = binary.AppendUvarint(b.raw, uint64(b.events))
	return binary.AppendUvarint(b.raw, uint64(b.through))
}

func appendText(b []byte, s string) []byte {
	return append(binary.AppendUvarint(b, uint64(len(s))), s...)
}

func segmentName(number uint64) string { return fmt.Sprintf("segments/%010d.lhb", number) }

// decodeSegment decodes the bytes returned by end. Errors: ErrDamaged, ErrNewer.
func decodeSegment(raw []byte) (segment, error) {
	var s segment
	if len(raw) < len(segmentMagic)+1 || string(raw[:len(segmentMagic)]) != segmentMagic {
		return s, fmt.Errorf("%w: it is not a segment", ErrDamaged)
	}
	if format := raw[len(segmentMagic)]; format > segmentFormat {
		return s, fmt.Errorf("segment of format %d: %w", format, ErrNewer)
	}
	in := &cursor{rest: raw[len(segmentMagic)+1:]}
	s.number = in.uvarint()
	s.after = eventlog.Position(in.uvarint())
	s.through = s.after
	for in.err == nil {
		switch tag := in.byte(); {
		case in.err != nil:
		case tag == tagEvent:
			in.event(&s)
		case tag == tagAsset:
			in.asset(&s)
		case tag == tagEnd:
			events, through := in.uvarint(), in.uvarint()
			if in.err == nil && (events != uint64(len(s.events)) || through != uint64(s.through) || len(in.rest) > 0) {
				in.fail("its end does not match its events")
			}
			return s, in.err
		default:
			in.fail("it contains an unknown entry")
		}
	}
	return s, in.err
}

// cursor reads a segment. After the first error it returns only zero values.
type cursor struct {
	rest []byte
	err  error
}

func (c *cursor) fail(why string) {
	if c.err == nil {
		c.err = fmt.Errorf("%w: segment: %s", ErrDamaged, why)
		c.rest = nil
	}
}

func (c *cursor) take(n uint64) []byte {
	if n > uint64(len(c.rest)) {
		c.fail("it is truncated")
		return nil
	}
	b := c.rest[:n:n]
	c.rest = c.rest[n:]
	return b
}

func (c *cursor) byte() byte {
	if b := c.take(1); b != nil {
		return b[0]
	}
	return 0
}

func (c *cursor) uvarint() uint64 { return number(c, binary.Uvarint) }

func (c *cursor) varint() int64 { return number(c, binary.Varint) }

func number[N uint64 | int64](c *cursor, read func([]byte) (N, int)) N {
	v, n := read(c.rest)
	if n <= 0 {
		c.fail("a number is malformed")
		return 0
	}
	c.rest = c.rest[n:]
	return v
}

// bytes reads at most limit bytes, prefixed with their length.
func (c *cursor) bytes(limit uint64) []byte {
	n := c.uvarint()
	if n > limit {
		c.fail("a length exceeds its limit")
		return nil
	}
	return c.take(n)
}

func (c *cursor) text(limit uint64) string { return string(c.bytes(limit)) }

func (c *cursor) event(s *segment) {
	var e eventlog.Recorded
	e.Stream = c.text(eventlog.MaxStreamName)
	e.Revision = c.uvarint()
	step := c.uvarint()
	e.Position = s.through + eventlog.Position(step)
	if e.Position <= s.through {
		c.fail("positions do not increase")
	}
	copy(e.ID[:], c.take(uint64(len(e.ID))))
	e.Type = c.text(eventlog.MaxTypeName)
	version := c.uvarint()
	e.SchemaVersion = int(version)
	e.OccurredAt = time.UnixMicro(c.varint()).UTC()
	for _, field := range [...]*string{&e.Metadata.RequestID, &e.Metadata.Actor, &e.Metadata.CorrelationID,
		&e.Metadata.CausationID, &e.Metadata.Hash} {
		*field = c.text(eventlog.MaxEventBytes)
	}
	e.Data = c.bytes(eventlog.MaxEventBytes)
	if c.err == nil && (e.ID == uuid.Nil || version > maxSchemaVersion) {
		c.fail("an event is invalid")
	}
	if c.err == nil {
		s.events = append(s.events, e)
		s.through = e.Position
	}
}

// maxSchemaVersion is far above any version of an event's schema.
const maxSchemaVersion = 1 << 20

func (c *cursor) asset(s *segment) {
	var a assetRef
	copy(a.id[:], c.take(uint64(len(a.id))))
	a.ext = c.text(maxExtension)
	switch c.byte() {
	case 0:
	case 1:
		a.present = true
	default:
		c.fail("an asset is neither present nor missing")
	}
	if _, known := assets.ContentType(a.ext); !known {
		c.fail("an asset has an unknown format")
	}
	if c.err == nil {
		s.assets = append(s.assets, a)
	}
}

// codec compresses and decompresses. It is safe for concurrent use.
type codec struct {
	enc *zstd.Encoder
	dec *zstd.Decoder
}

func newCodec() (*codec, error) {
	enc, err := zstd.NewWriter(nil, zstd.WithEncoderCRC(true), zstd.WithEncoderConcurrency(1))
	if err != nil {
		return nil, err
	}
	dec, err := zstd.NewReader(nil, zstd.WithDecoderMaxMemory(maxSegmentBytes), zstd.WithDecoderConcurrency(0))
	if err != nil {
		return nil, errors.Join(err, enc.Close())
	}
	return &codec{enc: enc, dec: dec}, nil
}

func (c *codec) compress(raw []byte) []byte { return c.enc.EncodeAll(raw, make([]byte, 0, len(raw)/4)) }

// expand decompresses; it fails if the result would exceed maxSegmentBytes. Errors: ErrDamaged.
func (c *codec) expand(data []byte) ([]byte, error) {
	raw, err := c.dec.DecodeAll(data, nil)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrDamaged, err)
	}
	return raw, nil
}

func (c *codec) close() error {
	c.dec.Close()
	return c.enc.Close()
}
