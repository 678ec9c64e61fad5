package esdbtest

import (
	"context"
	"slices"
	"sort"

	"github.com/EventStore/EventStore-Client-Go/v4/protos/gossip"
	"github.com/EventStore/EventStore-Client-Go/v4/protos/shared"
	"github.com/EventStore/EventStore-Client-Go/v4/protos/streams"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// streamsService serves appends, reads and subscriptions. It is separate from node because gossip has a Read method
// too.
type streamsService struct {
	streams.UnimplementedStreamsServer
	*node
}

// Read serves reads and subscriptions, which are the same call in the protocol.
func (n streamsService) Read(request *streams.ReadReq, out streams.Streams_ReadServer) error {
	s := n.server
	options := request.GetOptions()
	if options.GetResolveLinks() {
		return status.Error(codes.Unimplemented, "the stand-in does not resolve links")
	}
	if options.GetSubscription() != nil {
		s.subscriptions.Add(1)
		s.chaos.delay(out.Context())
		if options.GetAll() != nil {
			return s.subscribeAll(options, out)
		}
		return s.subscribeStream(options.GetStream(), out)
	}
	if options.GetFilter() != nil {
		return status.Error(codes.Unimplemented, "the stand-in does not filter reads, which the client does not support either")
	}
	s.reads.Add(1)
	fault := None
	if options.GetCount() != 1 {
		fault = s.Faults.nextRead()
	}
	s.chaos.delay(out.Context())
	switch fault {
	case HangRead:
		<-out.Context().Done()
		return out.Context().Err()
	case Surprise:
		return out.Send(&streams.ReadResp{Content: &streams.ReadResp_FirstStreamPosition{FirstStreamPosition: 0}})
	}
	events, found, err := s.events(options)
	if err != nil {
		return err
	}
	if !found {
		return out.Send(&streams.ReadResp{Content: &streams.ReadResp_StreamNotFound_{
			StreamNotFound: &streams.ReadResp_StreamNotFound{StreamIdentifier: options.GetStream().GetStreamIdentifier()},
		}})
	}
	for i, e := range events {
		if fault == BreakRead && i == 1 {
			s.BreakConnections()
			return status.Error(codes.Internal, "lost")
		}
		if err := out.SendMsg(e); err != nil {
			return err
		}
		s.sent.Add(1)
	}
	return nil
}

// events returns the requested events. It returns false if the stream does not exist.
func (s *Server) events(options *streams.ReadReq_Options) ([]*record, bool, error) {
	backwards := options.GetReadDirection() == streams.ReadReq_Options_Backwards
	count := options.GetCount()
	if stream := options.GetStream(); stream != nil {
		held := s.store.stream(string(stream.GetStreamIdentifier().GetStreamName()))
		if len(held) == 0 {
			return nil, false, nil
		}
		return cutStream(held, stream, backwards, count), true, nil
	}
	all, _ := s.store.everything()
	events, err := s.cutAll(all, options.GetAll(), backwards, count)
	return events, true, err
}

// cutStream returns count events of a stream, beginning at a revision, in a direction.
func cutStream(held []*record, options *streams.ReadReq_Options_StreamOptions, backwards bool, count uint64) []*record {
	last := uint64(len(held) - 1)
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
		return lastFirst(held[:min(from, last)+1], count)
	}
	return firstOf(held[min(from, last+1):], count)
}

// cutAll returns count events of the log, beginning at a position, in a direction. Forwards it includes the event at
// the position, because the server compares with >=. Backwards it does not, because there a position is after its
// event.
func (s *Server) cutAll(all []*record, options *streams.ReadReq_Options_AllOptions, backwards bool, count uint64) ([]*record, error) {
	at := 0
	switch p := options.GetAllOption().(type) {
	case *streams.ReadReq_Options_AllOptions_Position:
		var err error
		if at, err = s.find(all, p.Position); err != nil {
			return nil, err
		}
	case *streams.ReadReq_Options_AllOptions_End:
		at = len(all)
	}
	if backwards {
		return lastFirst(all[:at], count), nil
	}
	return firstOf(all[at:], count), nil
}

// find returns the index of the first event at or after a position. It fails if the position is neither that of an
// event nor the end: it would be in the middle of a record, where the server reads garbage. The prepare position equals
// the commit position, or is 0 in positions before an event.
func (s *Server) find(all []*record, p *streams.ReadReq_Options_Position) (int, error) {
	commit, prepare := p.GetCommitPosition(), p.GetPreparePosition()
	i := sort.Search(len(all), func(i int) bool { return all[i].position >= commit })
	known := i < len(all) && all[i].position == commit || i == len(all) && commit == s.store.end(all)
	if !known || prepare != commit && prepare != 0 {
		return 0, status.Errorf(codes.Unknown, "Unexpected ReadAllResult: Error: there is no record at %d/%d", commit, prepare)
	}
	return i, nil
}

func firstOf(events []*record, count uint64) []*record {
	return events[:min(uint64(len(events)), count)]
}

// lastFirst returns the last count events in reverse order.
func lastFirst(events []*record, count uint64) []*record {
	out := slices.Clone(events[uint64(len(events))-min(uint64(len(events)), count):])
	slices.Reverse(out)
	return out
}

// Read serves gossip.
func (n *node) Read(context.Context, *shared.Empty) (*gossip.ClusterInfo, error) {
	return &gossip.ClusterInfo{Members: n.members()}, nil
}
