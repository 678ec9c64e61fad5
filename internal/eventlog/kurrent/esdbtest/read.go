package esdbtest

import (
	"encoding/binary"
	"slices"
	"sort"
	"strconv"

	"github.com/EventStore/EventStore-Client-Go/v4/protos/shared"
	"github.com/EventStore/EventStore-Client-Go/v4/protos/streams"
	"github.com/google/uuid"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// Read serves reads and subscriptions; in the protocol they are one call.
func (s *Server) Read(request *streams.ReadReq, out streams.Streams_ReadServer) error {
	options := request.GetOptions()
	switch {
	case options.GetFilter() != nil || options.GetResolveLinks():
		return status.Error(codes.Unimplemented, "the stand-in has neither filters nor resolved links")
	case options.GetAll() != nil && options.GetSubscription() != nil:
		return s.subscribeAll(options.GetAll(), out)
	case options.GetSubscription() != nil:
		return status.Error(codes.Unimplemented, "the stand-in has no subscriptions to single streams")
	}
	fault := s.Faults.nextRead()
	switch fault {
	case HangRead:
		<-out.Context().Done()
		return out.Context().Err()
	case Surprise:
		return out.Send(&streams.ReadResp{Content: &streams.ReadResp_FirstStreamPosition{FirstStreamPosition: 0}})
	}
	var events []*record
	var err error
	if stream := options.GetStream(); stream != nil {
		name := string(stream.GetStreamIdentifier().GetStreamName())
		held := s.store.stream(name)
		if len(held) == 0 {
			return out.Send(&streams.ReadResp{Content: &streams.ReadResp_StreamNotFound_{
				StreamNotFound: &streams.ReadResp_StreamNotFound{StreamIdentifier: stream.GetStreamIdentifier()},
			}})
		}
		events = cutStream(held, stream, options.GetReadDirection())
	} else {
		all, _ := s.store.everything()
		if events, err = cutAll(all, options.GetAll(), options.GetReadDirection()); err != nil {
			return err
		}
	}
	events = events[:min(uint64(len(events)), options.GetCount())]
	for i, e := range events {
		if fault == BreakRead && i == 1 {
			s.BreakConnections()
			return status.Error(codes.Internal, "lost")
		}
		if err := out.Send(eventMessage(e)); err != nil {
			return err
		}
	}
	return nil
}

// cutStream gives the events of a stream from a revision on, in the direction.
func cutStream(held []*record, options *streams.ReadReq_Options_StreamOptions, direction streams.ReadReq_Options_ReadDirection) []*record {
	last := uint64(len(held) - 1)
	backwards := direction == streams.ReadReq_Options_Backwards
	from := uint64(0)
	switch r := options.GetRevisionOption().(type) {
	case *streams.ReadReq_Options_StreamOptions_Revision:
		from = r.Revision
	case *streams.ReadReq_Options_StreamOptions_End:
		from = last
		if !backwards {
			from = last + 1
		}
	}
	if backwards {
		return reversed(held[:min(from, last)+1])
	}
	return held[min(from, last+1):]
}

// cutAll gives the order of all from a position on. Forwards the event at the position is the first one
// (the server compares with >=); backwards it is not there, because there positions stand behind an event.
func cutAll(all []*record, options *streams.ReadReq_Options_AllOptions, direction streams.ReadReq_Options_ReadDirection) ([]*record, error) {
	backwards := direction == streams.ReadReq_Options_Backwards
	at := 0
	switch p := options.GetAllOption().(type) {
	case *streams.ReadReq_Options_AllOptions_Position:
		var err error
		if at, err = find(all, p.Position); err != nil {
			return nil, err
		}
	case *streams.ReadReq_Options_AllOptions_End:
		at = len(all)
	}
	if backwards {
		return reversed(all[:at]), nil
	}
	return all[at:], nil
}

// find looks a position up. One that is not an event's stands in the middle of a record, where the server
// reads nonsense.
func find(all []*record, p *streams.ReadReq_Options_Position) (int, error) {
	i := sort.Search(len(all), func(i int) bool { return all[i].position >= p.GetCommitPosition() })
	if i < len(all) && all[i].position != p.GetCommitPosition() || p.GetCommitPosition() != p.GetPreparePosition() {
		return 0, status.Errorf(codes.Unknown, "Unexpected ReadAllResult: Error: there is no record at %d/%d",
			p.GetCommitPosition(), p.GetPreparePosition())
	}
	return i, nil
}

func reversed(events []*record) []*record {
	out := slices.Clone(events)
	slices.Reverse(out)
	return out
}

// subscribeAll sends what is there behind a position, says that it is through, and sends what comes.
func (s *Server) subscribeAll(options *streams.ReadReq_Options_AllOptions, out streams.Streams_ReadServer) error {
	s.mu.Lock()
	dropped := s.dropped
	s.mu.Unlock()
	all, news := s.store.everything()
	next := 0
	switch p := options.GetAllOption().(type) {
	case *streams.ReadReq_Options_AllOptions_Position:
		i, err := find(all, p.Position)
		if err != nil {
			return err
		}
		next = min(i+1, len(all)) // here, unlike in a read, the event at the position is left out
	case *streams.ReadReq_Options_AllOptions_End:
		next = len(all)
	}
	err := out.Send(&streams.ReadResp{Content: &streams.ReadResp_Confirmation{
		Confirmation: &streams.ReadResp_SubscriptionConfirmation{SubscriptionId: uuid.NewString()},
	}})
	for caughtUp := false; err == nil; {
		for ; next < len(all) && err == nil; next++ {
			err = out.Send(eventMessage(all[next]))
		}
		if !caughtUp && err == nil {
			caughtUp = true
			err = out.Send(&streams.ReadResp{Content: &streams.ReadResp_CaughtUp_{CaughtUp: &streams.ReadResp_CaughtUp{}}})
		}
		if err != nil {
			break
		}
		select {
		case <-news:
			all, news = s.store.everything()
		case <-dropped:
			return status.Error(codes.Aborted, "Operation timed out: Consumer too slow to handle event while live. Client resubscription required.")
		case <-out.Context().Done():
			return out.Context().Err()
		}
	}
	return err
}

// eventMessage is an event on the wire. Without the three metadata keys the client ends the process.
func eventMessage(r *record) *streams.ReadResp {
	return &streams.ReadResp{Content: &streams.ReadResp_Event{Event: &streams.ReadResp_ReadEvent{
		Event: &streams.ReadResp_ReadEvent_RecordedEvent{
			Id:               uuidMessage(r.id),
			StreamIdentifier: &shared.StreamIdentifier{StreamName: []byte(r.stream)},
			StreamRevision:   r.revision,
			PreparePosition:  r.position,
			CommitPosition:   r.position,
			Metadata: map[string]string{
				keyType: r.typ, keyContentType: r.content,
				keyCreated: strconv.FormatInt(r.created.UnixNano()/100, 10), // ticks of 100 ns since 1970
			},
			CustomMetadata: r.metadata,
			Data:           r.data,
		},
		Position: &streams.ReadResp_ReadEvent_CommitPosition{CommitPosition: r.position},
	}}}
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
		return id, status.Error(codes.InvalidArgument, "an event without a proper id")
	}
	return id, nil
}
