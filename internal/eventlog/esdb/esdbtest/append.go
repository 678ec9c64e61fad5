package esdbtest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"

	"github.com/EventStore/EventStore-Client-Go/v4/protos/shared"
	"github.com/EventStore/EventStore-Client-Go/v4/protos/streams"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"letterhead/internal/delay"
)

const (
	// maxAppend is the server's default MaxAppendSize, in bytes.
	maxAppend = 1 << 20

	keyType        = "type"
	keyContentType = "content-type"
	keyCreated     = "created"
)

// Append serves AppendToStream.
func (n streamsService) Append(in streams.Streams_AppendServer) error {
	fault := n.server.beginAppend(in.Context())
	first, err := in.Recv()
	if err != nil {
		return err
	}
	options := first.GetOptions()
	if options == nil {
		return status.Error(codes.InvalidArgument, "the first message of an append must contain its options")
	}
	if fault == EndEarly {
		return errEndedEarly
	}
	events, err := receiveEvents(in)
	if err != nil {
		return err
	}
	stream := string(options.GetStreamIdentifier().GetStreamName())
	v, err := n.append(in.Context(), in, stream, expectationOf(options), events, fault)
	if err != nil {
		return err
	}
	return in.SendAndClose(response(v, options))
}

var errEndedEarly = status.Error(codes.ResourceExhausted, "the server ends the call early")

// beginAppend counts an append and returns its fault.
func (s *Server) beginAppend(ctx context.Context) Fault {
	s.appends.Add(1)
	fault := s.Faults.nextAppend()
	if fault == None {
		fault = s.chaos.append()
	}
	s.chaos.delay(ctx)
	return fault
}

// append decides about an append and waits until the decision is durable. An error ends the call.
func (n *node) append(ctx context.Context, call grpc.ServerStream, stream string, expected expectation,
	events []*proposal, fault Fault) (verdict, error) {
	s := n.server
	if err := n.reject(ctx, call, stream, fault); err != nil {
		return verdict{}, err
	}
	v, err := s.store.append(ctx, stream, expected, events)
	if err == nil && fault == Duplicate {
		v, err = s.store.append(ctx, stream, expected, events)
	}
	if err == nil && v.ok && s.isNoisy() {
		err = s.store.noise(stream)
	}
	switch {
	case errors.Is(err, errNotIndexed):
		return v, s.drop(ctx)
	case err != nil && ctx.Err() != nil:
		return v, ctx.Err()
	case err != nil:
		return v, status.Errorf(codes.Unavailable, "cannot write to the log: %v", err)
	}
	switch fault {
	case LoseReply:
		s.BreakConnections()
		return v, status.Error(codes.Internal, "lost")
	case CommitAndHang:
		<-ctx.Done()
		return v, ctx.Err()
	case TimeOut:
		return v, errCommitTimeout
	case NoPosition:
		v.position = 0
	}
	return v, nil
}

// The errors with which the server ends an append that its writer has dropped, or that it does not take yet.
var (
	errNotReady       = status.Error(codes.Unavailable, "Server Is Not Ready")
	errPrepareTimeout = status.Error(codes.Aborted, "Operation timed out: Prepare phase timeout.")
	errCommitTimeout  = status.Error(codes.Aborted, "Operation timed out: Commit phase timeout.")
)

// drop ends an append that the writer does not answer, after the server's timeout.
func (s *Server) drop(ctx context.Context) error {
	count := s.drops.Add(1)
	if err := delay.For(ctx, s.cfg.PhaseTimeout); err != nil {
		return err
	}
	if count%2 == 0 {
		return errPrepareTimeout
	}
	return errCommitTimeout
}

// reject returns the error that ends an append before anything is committed, or nil.
func (n *node) reject(ctx context.Context, call grpc.ServerStream, stream string, fault Fault) error {
	leader, leads := n.leads()
	switch {
	case fault == LoseRequest:
		n.server.BreakConnections()
		return status.Error(codes.Internal, "lost")
	case fault == Hang:
		<-ctx.Done()
		return ctx.Err()
	case fault == Drop:
		return n.server.drop(ctx)
	case fault == NotReady:
		return errNotReady
	case fault == Deleted:
		call.SetTrailer(metadata.Pairs("exception", "stream-deleted", "stream-name", stream))
		return status.Errorf(codes.FailedPrecondition, "Event stream '%s' is deleted.", stream)
	case fault == NotLeader, n.server.cfg.FollowersReject && !leads:
		host, port := leader.endpoint()
		call.SetTrailer(metadata.Pairs("exception", "not-leader",
			"leader-endpoint-host", host, "leader-endpoint-port", strconv.Itoa(int(port))))
		return status.Error(codes.NotFound, "Leader info available")
	}
	return nil
}

func (s *Server) isNoisy() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.noisy
}

// receiveEvents receives the proposed events. Like the server, it adds up their sizes and ends the call at the first
// byte above the limit.
func receiveEvents(in streams.Streams_AppendServer) ([]*proposal, error) {
	var events []*proposal
	size := 0
	for {
		request, err := in.Recv()
		if errors.Is(err, io.EOF) {
			if len(events) == 0 {
				return nil, status.Error(codes.Unimplemented, "the stand-in does not support appends without events")
			}
			return events, nil
		}
		if err != nil {
			return nil, err
		}
		message := request.GetProposedMessage()
		if message == nil {
			return nil, status.Error(codes.InvalidArgument, "expected an event")
		}
		p, err := proposalOf(message)
		if err != nil {
			return nil, err
		}
		if size += p.sizeOnDisk(); size > maxAppend {
			in.SetTrailer(metadata.Pairs("exception", "maximum-append-size-exceeded"))
			return nil, errTooLarge
		}
		events = append(events, p)
	}
}

var errTooLarge = status.Error(codes.InvalidArgument, fmt.Sprintf("Maximum Append Size of %d Exceeded.", maxAppend))

// proposed is an event of either kind of append.
type proposed interface {
	GetId() *shared.UUID
	GetMetadata() map[string]string
	GetCustomMetadata() []byte
	GetData() []byte
}

func proposalOf(message proposed) (*proposal, error) {
	for _, key := range []string{keyType, keyContentType} {
		if message.GetMetadata()[key] == "" {
			return nil, status.Errorf(codes.InvalidArgument, "Required Metadata Property '%s' is missing", key)
		}
	}
	id, err := uuidOf(message.GetId())
	if err != nil {
		return nil, err
	}
	return &proposal{
		id: id, typ: message.GetMetadata()[keyType], content: message.GetMetadata()[keyContentType],
		data: message.GetData(), metadata: message.GetCustomMetadata(),
	}, nil
}

func expectationOf(options *streams.AppendReq_Options) expectation {
	switch e := options.GetExpectedStreamRevision().(type) {
	case *streams.AppendReq_Options_Revision:
		return expectation{kind: expectRevision, revision: e.Revision}
	case *streams.AppendReq_Options_NoStream:
		return expectation{kind: expectNone}
	case *streams.AppendReq_Options_StreamExists:
		return expectation{kind: expectExists}
	default:
		return expectation{kind: expectAny}
	}
}

func response(v verdict, options *streams.AppendReq_Options) *streams.AppendResp {
	if !v.ok {
		return &streams.AppendResp{Result: &streams.AppendResp_WrongExpectedVersion_{WrongExpectedVersion: wrongVersion(v, options)}}
	}
	success := &streams.AppendResp_Success{
		CurrentRevisionOption: &streams.AppendResp_Success_CurrentRevision{CurrentRevision: v.last},
		PositionOption: &streams.AppendResp_Success_Position{
			Position: &streams.AppendResp_Position{CommitPosition: v.position, PreparePosition: v.position},
		},
	}
	if v.position == 0 {
		success.PositionOption = &streams.AppendResp_Success_NoPosition{NoPosition: &shared.Empty{}}
	}
	return &streams.AppendResp{Result: &streams.AppendResp_Success_{Success: success}}
}

// wrongVersion sets both the current fields and the fields of 20.6, which other clients read.
func wrongVersion(v verdict, options *streams.AppendReq_Options) *streams.AppendResp_WrongExpectedVersion {
	w := &streams.AppendResp_WrongExpectedVersion{}
	if v.empty {
		w.CurrentRevisionOption = &streams.AppendResp_WrongExpectedVersion_CurrentNoStream{CurrentNoStream: &shared.Empty{}}
		w.CurrentRevisionOption_20_6_0 = &streams.AppendResp_WrongExpectedVersion_NoStream_20_6_0{NoStream_20_6_0: &shared.Empty{}}
	} else {
		w.CurrentRevisionOption = &streams.AppendResp_WrongExpectedVersion_CurrentRevision{CurrentRevision: v.current}
		w.CurrentRevisionOption_20_6_0 = &streams.AppendResp_WrongExpectedVersion_CurrentRevision_20_6_0{CurrentRevision_20_6_0: v.current}
	}
	switch e := options.GetExpectedStreamRevision().(type) {
	case *streams.AppendReq_Options_Revision:
		w.ExpectedRevisionOption = &streams.AppendResp_WrongExpectedVersion_ExpectedRevision{ExpectedRevision: e.Revision}
		w.ExpectedRevisionOption_20_6_0 = &streams.AppendResp_WrongExpectedVersion_ExpectedRevision_20_6_0{ExpectedRevision_20_6_0: e.Revision}
	case *streams.AppendReq_Options_NoStream:
		w.ExpectedRevisionOption = &streams.AppendResp_WrongExpectedVersion_ExpectedNoStream{ExpectedNoStream: &shared.Empty{}}
	case *streams.AppendReq_Options_StreamExists:
		w.ExpectedRevisionOption = &streams.AppendResp_WrongExpectedVersion_ExpectedStreamExists{ExpectedStreamExists: &shared.Empty{}}
		w.ExpectedRevisionOption_20_6_0 = &streams.AppendResp_WrongExpectedVersion_StreamExists_20_6_0{StreamExists_20_6_0: &shared.Empty{}}
	default:
		w.ExpectedRevisionOption = &streams.AppendResp_WrongExpectedVersion_ExpectedAny{ExpectedAny: &shared.Empty{}}
		w.ExpectedRevisionOption_20_6_0 = &streams.AppendResp_WrongExpectedVersion_Any_20_6_0{Any_20_6_0: &shared.Empty{}}
	}
	return w
}
