package sqlite

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"strings"
	"time"

	"letterhead/internal/eventlog"
)

// The envelope column. A file of format 2 may have rows of two forms, because the rows of format 1 stay as they are.
//
//	4 bytes   CRC-32C, big endian, of: what follows here, the data column, and the columns position, stream,
//	          revision and type as 8 bytes big endian each
//	16 bytes  event id
//	8 bytes   occurred at, microseconds since 1970, big endian
//	uvarint   schema version
//	5 times   uvarint length and bytes: request id, actor, correlation id, causation id, hash
//
// A packed row has the negative type id and no data of its own; instead of the last line, its envelope has the packed
// text (pack.go) of the five values, in quotes, and the data. An event with a control byte, or with a quote in its
// metadata, is not packed.
const (
	envelopeID      = 4
	envelopeTime    = envelopeID + 16
	envelopeVersion = envelopeTime + 8
	// Lengths of metadata values are at most MaxEventBytes and so take at most 3 bytes.
	envelopeOverhead = envelopeVersion + binary.MaxVarintLen64 + 5*3
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// rowKey identifies an event's row; the checksum covers it so that a row cannot pass for another.
type rowKey struct {
	position, stream, revision, typ int64
}

// packed reports whether the row has the packed form.
func (k rowKey) packed() bool { return k.typ < 0 }

// typeID returns the number of the type.
func (k rowKey) typeID() int64 { return max(k.typ, -k.typ) }

func (k rowKey) checksum(crc uint32) uint32 {
	var b [32]byte
	binary.BigEndian.PutUint64(b[0:], uint64(k.position))
	binary.BigEndian.PutUint64(b[8:], uint64(k.stream))
	binary.BigEndian.PutUint64(b[16:], uint64(k.revision))
	binary.BigEndian.PutUint64(b[24:], uint64(k.typ))
	crc = ^crc
	for _, v := range b { // crc32.Update would move b to the heap
		crc = castagnoli[byte(crc)^v] ^ crc>>8
	}
	return ^crc
}

// encodePlain returns the columns of an event in the plain form, and its checksum so far, which seal completes once the
// row key is known. data is a copy of the event's.
func encodePlain(e *eventlog.Proposed) (envelope, data []byte, crc uint32) {
	m := &e.Metadata
	b := appendBegin(make([]byte, 0, envelopeOverhead+eventlog.Size(e)), e) // room for both
	for _, s := range [...]string{m.RequestID, m.Actor, m.CorrelationID, m.CausationID, m.Hash} {
		b = binary.AppendUvarint(b, uint64(len(s)))
		b = append(b, s...)
	}
	end := len(b)
	b = append(b, e.Data...)
	return b[:end:end], b[end:], checksum(b[:end], b[end:])
}

// encodePacked returns the envelope of an event's packed row, its checksum so far, and a copy of the event's data. It
// reports whether the event can be packed.
func encodePacked(e *eventlog.Proposed, stream string) (envelope, data []byte, crc uint32, ok bool) {
	var textRoom, room [1 << 10]byte
	var actorRoom [64]byte
	text, m := textRoom[:0], &e.Metadata
	for _, s := range [...]string{m.RequestID, m.Actor, m.CorrelationID, m.CausationID, m.Hash} {
		if strings.IndexByte(s, '"') >= 0 {
			return nil, nil, 0, false
		}
		text = append(append(append(text, '"'), s...), '"')
	}
	text = append(text, e.Data...)
	b, ok := pack(appendBegin(room[:0], e), text, text[:len(m.RequestID)+2], appendActor(actorRoom[:0], stream))
	if !ok {
		return nil, nil, 0, false
	}
	both := append(append(make([]byte, 0, len(b)+len(e.Data)), b...), e.Data...)
	envelope, data = both[:len(b):len(b)], both[len(b):]
	return envelope, data, checksum(envelope, nil), true
}

// appendBegin appends the part of the envelope that both forms have.
func appendBegin(b []byte, e *eventlog.Proposed) []byte {
	b = append(append(b, 0, 0, 0, 0), e.ID[:]...) // the checksum follows
	b = binary.BigEndian.AppendUint64(b, uint64(e.OccurredAt.UnixMicro()))
	return binary.AppendUvarint(b, uint64(e.SchemaVersion))
}

// checksum returns the part of an event's checksum that does not depend on its row key.
func checksum(envelope, data []byte) uint32 {
	return crc32.Update(crc32.Update(0, castagnoli, envelope[envelopeID:]), castagnoli, data)
}

// microseconds truncates a time to the stored precision.
func microseconds(t time.Time) time.Time { return time.UnixMicro(t.UnixMicro()).UTC() }

// seal completes the checksum.
func seal(envelope []byte, crc uint32, at rowKey) {
	binary.BigEndian.PutUint32(envelope, at.checksum(crc))
}

// verifyEnvelope compares an event with its checksum.
func verifyEnvelope(envelope, data []byte, at rowKey) error {
	if len(envelope) < envelopeVersion+1 {
		return fmt.Errorf("its envelope has only %d bytes", len(envelope))
	}
	if at.checksum(checksum(envelope, data)) != binary.BigEndian.Uint32(envelope) {
		return fmt.Errorf("its checksum does not match")
	}
	return nil
}

// decodeRow decodes an event, whose stream is set, from its columns. It keeps data but not envelope. It returns an
// error, without more context, if the columns are invalid. room is memory for packed content, and is reused.
func decodeRow(e *eventlog.Recorded, envelope, data []byte, at rowKey, room *[]byte) error {
	if err := verifyEnvelope(envelope, data, at); err != nil {
		return err
	}
	copy(e.ID[:], envelope[envelopeID:])
	e.OccurredAt = time.UnixMicro(int64(binary.BigEndian.Uint64(envelope[envelopeTime:]))).UTC()
	version, n := binary.Uvarint(envelope[envelopeVersion:])
	if n <= 0 {
		return fmt.Errorf("its schema version is malformed")
	}
	e.SchemaVersion = int(version)
	rest := envelope[envelopeVersion+n:]
	if at.packed() {
		if len(data) > 0 {
			return errPacked
		}
		return decodePacked(e, rest, room)
	}
	e.Data = data
	if data == nil { // the driver returns nil for an empty blob
		e.Data = []byte{}
	}
	return decodeMetadata(&e.Metadata, rest)
}

// decodePacked decodes the part of the envelope that only packed rows have.
func decodePacked(e *eventlog.Recorded, packed []byte, room *[]byte) (err error) {
	if *room, err = unpack(*room, packed, e.Stream); err != nil {
		return err
	}
	m := &e.Metadata
	fields := [...]*string{&m.RequestID, &m.Actor, &m.CorrelationID, &m.CausationID, &m.Hash}
	data := *room
	for range fields {
		length := bytes.IndexByte(data[min(1, len(data)):], '"')
		if length < 0 || data[0] != '"' {
			return errPacked
		}
		data = data[length+2:]
	}
	metadata := string((*room)[:len(*room)-len(data)])
	for _, field := range fields {
		*field, metadata, _ = strings.Cut(metadata[1:], `"`)
	}
	e.Data = append([]byte{}, data...)
	return nil
}

// decodeMetadata converts all values to one string and slices it, because five small allocations per event
// would take a third of the time of a replay.
func decodeMetadata(m *eventlog.Metadata, b []byte) error {
	all := string(b)
	at := 0
	for _, field := range [...]*string{&m.RequestID, &m.Actor, &m.CorrelationID, &m.CausationID, &m.Hash} {
		length, n := binary.Uvarint(b[at:])
		if n <= 0 || length > uint64(len(b)-at-n) {
			return fmt.Errorf("its metadata is cut off")
		}
		at += n
		*field = all[at : at+int(length)]
		at += int(length)
	}
	if at != len(b) {
		return fmt.Errorf("its metadata has %d extra bytes", len(b)-at)
	}
	return nil
}
