package esdbtest

import (
	"encoding/binary"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/EventStore/EventStore-Client-Go/v4/protos/shared"
	"github.com/EventStore/EventStore-Client-Go/v4/protos/streams"
	"github.com/google/uuid"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/encoding"
	_ "google.golang.org/grpc/encoding/proto" // registers the codec that codec wraps
	"google.golang.org/grpc/mem"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
)

// proposal is an event of an append.
type proposal struct {
	id       uuid.UUID
	typ      string
	content  string // content type
	data     []byte
	metadata []byte
}

// sizeOnDisk returns the size of an event that counts against maxAppend.
func (p *proposal) sizeOnDisk() int { return len(p.data) + len(p.metadata) + 2*len(p.typ) }

// record is an event in the log. wire is the encoded message that every reader gets; it is encoded once, and the
// journal stores the same bytes.
type record struct {
	id       uuid.UUID
	stream   string
	typ      string
	revision uint64
	position uint64 // commit and prepare position, which are equal
	wire     []byte
}

// encode encodes the message of an event. The client ends the process if one of the three metadata keys is missing.
func (r *record) encode(p *proposal, created time.Time) error {
	var err error
	r.wire, err = proto.Marshal(&streams.ReadResp{Content: &streams.ReadResp_Event{Event: &streams.ReadResp_ReadEvent{
		Event: &streams.ReadResp_ReadEvent_RecordedEvent{
			Id:               uuidMessage(r.id),
			StreamIdentifier: &shared.StreamIdentifier{StreamName: []byte(r.stream)},
			StreamRevision:   r.revision,
			PreparePosition:  r.position,
			CommitPosition:   r.position,
			Metadata: map[string]string{
				keyType: r.typ, keyContentType: p.content,
				keyCreated: strconv.FormatInt(created.UnixNano()/100, 10), // ticks of 100 ns since 1970
			},
			CustomMetadata: p.metadata,
			Data:           p.data,
		},
		Position: &streams.ReadResp_ReadEvent_CommitPosition{CommitPosition: r.position},
	}}})
	return err
}

// decodeRecord decodes an event of the journal and keeps the bytes. next is the position of the next event.
func decodeRecord(wire []byte) (r *record, next uint64, err error) {
	var message streams.ReadResp
	if err := proto.Unmarshal(wire, &message); err != nil {
		return nil, 0, err
	}
	event := message.GetEvent().GetEvent()
	if event == nil {
		return nil, 0, errors.New("the message is not an event")
	}
	id, err := uuidOf(event.GetId())
	if err != nil {
		return nil, 0, err
	}
	r = &record{
		id: id, stream: string(event.GetStreamIdentifier().GetStreamName()), typ: event.GetMetadata()[keyType],
		revision: event.GetStreamRevision(), position: event.GetCommitPosition(), wire: wire,
	}
	p := proposal{typ: r.typ, data: event.GetData(), metadata: event.GetCustomMetadata()}
	return r, r.position + growth(r.stream, &p), nil
}

// recordOverhead is the approximate size of a prepare record without its event.
const recordOverhead = 90

// growth returns the difference between the positions of an event and the next one.
func growth(stream string, p *proposal) uint64 {
	return uint64(recordOverhead + len(stream) + p.sizeOnDisk())
}

func uuidMessage(id uuid.UUID) *shared.UUID {
	return &shared.UUID{Value: &shared.UUID_Structured_{Structured: &shared.UUID_Structured{
		MostSignificantBits:  int64(binary.BigEndian.Uint64(id[:8])),
		LeastSignificantBits: int64(binary.BigEndian.Uint64(id[8:])),
	}}}
}

func uuidOf(in *shared.UUID) (id uuid.UUID, err error) {
	if s := in.GetStructured(); s != nil {
		binary.BigEndian.PutUint64(id[:8], uint64(s.GetMostSignificantBits()))
		binary.BigEndian.PutUint64(id[8:], uint64(s.GetLeastSignificantBits()))
		return id, nil
	}
	if id, err = uuid.Parse(in.GetString_()); err != nil {
		return id, status.Error(codes.InvalidArgument, "the id of an event is not a UUID")
	}
	return id, nil
}

// codec is the codec of gRPC, except that it sends the encoded bytes of records. Encoding every event for each reader
// would take half of the server's CPU time.
type codec struct{ encoding.CodecV2 }

func newCodec() (codec, error) {
	inner := encoding.GetCodecV2("proto")
	if inner == nil {
		return codec{}, errors.New("gRPC has no codec named proto")
	}
	return codec{inner}, nil
}

// Marshal implements encoding.CodecV2.
func (c codec) Marshal(v any) (mem.BufferSlice, error) {
	if r, ok := v.(*record); ok {
		return mem.BufferSlice{mem.SliceBuffer(r.wire)}, nil
	}
	out, err := c.CodecV2.Marshal(v)
	if err != nil {
		return nil, fmt.Errorf("encode %T: %w", v, err)
	}
	return out, nil
}
