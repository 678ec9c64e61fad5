package sqlite

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"time"

	"letterhead/internal/eventlog"
)

// The envelope column, format 1:
//
//	4 bytes   CRC-32C, big endian, of: what follows here, the data column, and position, stream id,
//	          revision and type id as 8 bytes big endian each
//	16 bytes  event id
//	8 bytes   occurred at, microseconds since 1970, big endian
//	uvarint   schema version
//	5 times   uvarint length and bytes: request id, actor, correlation id, causation id, hash
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

func (k rowKey) checksum(crc uint32) uint32 {
	var b [32]byte
	binary.BigEndian.PutUint64(b[0:], uint64(k.position))
	binary.BigEndian.PutUint64(b[8:], uint64(k.stream))
	binary.BigEndian.PutUint64(b[16:], uint64(k.revision))
	binary.BigEndian.PutUint64(b[24:], uint64(k.typ))
	return crc32.Update(crc, castagnoli, b[:])
}

// encodeEnvelope returns the envelope without its checksum, a copy of the data, and the checksum so far,
// which seal completes once the row key is known.
func encodeEnvelope(e *eventlog.Proposed) (envelope, data []byte, crc uint32) {
	m := &e.Metadata
	b := make([]byte, envelopeVersion, envelopeOverhead+eventlog.Size(e)) // room for both
	copy(b[envelopeID:], e.ID[:])
	binary.BigEndian.PutUint64(b[envelopeTime:], uint64(e.OccurredAt.UnixMicro()))
	b = binary.AppendUvarint(b, uint64(e.SchemaVersion))
	for _, s := range [...]string{m.RequestID, m.Actor, m.CorrelationID, m.CausationID, m.Hash} {
		b = binary.AppendUvarint(b, uint64(len(s)))
		b = append(b, s...)
	}
	end := len(b)
	b = append(b, e.Data...)
	return b[:end:end], b[end:], checksum(b[:end], b[end:])
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

// decodeEnvelope decodes an event from its columns. It keeps data but not envelope. It returns an error,
// without more context, if the columns are invalid.
func decodeEnvelope(e *eventlog.Recorded, envelope, data []byte, at rowKey) error {
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
	e.Data = data
	if data == nil { // the driver returns nil for an empty blob
		e.Data = []byte{}
	}
	return decodeMetadata(&e.Metadata, envelope[envelopeVersion+n:])
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
