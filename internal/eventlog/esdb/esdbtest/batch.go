package esdbtest

import (
	"errors"
	"io"
	"strings"
	"sync"

	"github.com/EventStore/EventStore-Client-Go/v4/protos/shared"
	"github.com/EventStore/EventStore-Client-Go/v4/protos/streams"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/protoadapt"
	"google.golang.org/protobuf/types/known/emptypb"
)

// batchCall is a call that carries many appends. Its answers come in any order.
type batchCall struct {
	node *node
	in   streams.Streams_BatchAppendServer

	mu    sync.Mutex
	over  bool       // nothing may be sent any more
	ended chan error // why the server ends the call
}

// BatchAppend serves appends that share a call. It follows BatchAppendWorker of 24.2: an append is answered by a
// message, whether it succeeds or not, except that a follower which rejects one ends the call.
func (n streamsService) BatchAppend(in streams.Streams_BatchAppendServer) error {
	n.server.batches.Add(1)
	c := &batchCall{node: n.node, in: in, ended: make(chan error, 1)}
	go func() {
		for {
			request, err := in.Recv()
			if err != nil {
				if errors.Is(err, io.EOF) {
					err = nil
				}
				c.end(err)
				return
			}
			go c.serve(request)
		}
	}()
	err := <-c.ended
	c.mu.Lock()
	defer c.mu.Unlock()
	c.over = true
	return err
}

// end ends the call. Only the first error counts.
func (c *batchCall) end(err error) {
	select {
	case c.ended <- err:
	default:
	}
}

// serve answers one append. Each must be complete in one message.
func (c *batchCall) serve(request *streams.BatchAppendReq) {
	fault := c.node.server.beginAppend(c.in.Context())
	stream := string(request.GetOptions().GetStreamIdentifier().GetStreamName())
	events, err := batchEvents(request)
	var v verdict
	switch {
	case fault == EndEarly:
		c.end(errEndedEarly)
		return
	case fault == Silence:
		c.mu.Lock()
		defer c.mu.Unlock()
		<-c.in.Context().Done()
		return
	case err == nil:
		v, err = c.node.append(c.in.Context(), c.in, stream, batchExpectation(request.GetOptions()), events, fault)
	}
	answer := &streams.BatchAppendResp{
		CorrelationId: request.GetCorrelationId(), StreamIdentifier: request.GetOptions().GetStreamIdentifier(),
	}
	if err != nil || !v.ok {
		failure := batchFailure(err, request.GetOptions().GetStreamIdentifier())
		if failure == nil {
			c.end(err)
			return
		}
		answer.Result = &streams.BatchAppendResp_Error{Error: failure.Proto()}
	} else {
		answer.Result = &streams.BatchAppendResp_Success_{Success: batchSuccess(v)}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.over {
		_ = c.in.Send(answer) // the call has ended if it fails
	}
}

func batchEvents(request *streams.BatchAppendReq) (events []*proposal, err error) {
	if request.GetOptions() == nil || !request.GetIsFinal() || len(request.GetProposedMessages()) == 0 {
		return nil, status.Error(codes.InvalidArgument,
			"the stand-in does not support appends without events or in parts")
	}
	size := 0
	for _, message := range request.GetProposedMessages() {
		p, err := proposalOf(message)
		if err != nil {
			return nil, err
		}
		if size += p.sizeOnDisk(); size > maxAppend {
			return nil, errTooLarge
		}
		events = append(events, p)
	}
	return events, nil
}

func batchExpectation(options *streams.BatchAppendReq_Options) expectation {
	switch e := options.GetExpectedStreamPosition().(type) {
	case *streams.BatchAppendReq_Options_StreamPosition:
		return expectation{kind: expectRevision, revision: e.StreamPosition}
	case *streams.BatchAppendReq_Options_NoStream:
		return expectation{kind: expectNone}
	case *streams.BatchAppendReq_Options_StreamExists:
		return expectation{kind: expectExists}
	default:
		return expectation{kind: expectAny}
	}
}

func batchSuccess(v verdict) *streams.BatchAppendResp_Success {
	success := &streams.BatchAppendResp_Success{
		CurrentRevisionOption: &streams.BatchAppendResp_Success_CurrentRevision{CurrentRevision: v.last},
		PositionOption: &streams.BatchAppendResp_Success_Position{
			Position: &shared.AllStreamPosition{CommitPosition: v.position, PreparePosition: v.position},
		},
	}
	if v.position == 0 {
		success.PositionOption = &streams.BatchAppendResp_Success_NoPosition{NoPosition: &emptypb.Empty{}}
	}
	return success
}

// batchFailure returns the answer for an append that failed, or nil if the server ends the call. A nil error means the
// wrong revision.
func batchFailure(err error, stream *shared.StreamIdentifier) *status.Status {
	var details proto.Message
	text := status.Convert(err).Message()
	code := status.Code(err)
	switch {
	case err == nil:
		details, code, text = &shared.WrongExpectedVersion{}, codes.AlreadyExists, "WrongExpectedVersion"
	case code == codes.Aborted:
		details, code, text = &shared.Timeout{}, codes.DeadlineExceeded, "Timeout"
	case errors.Is(err, errNotReady):
		details = &emptypb.Empty{} // the server sends no code, which status does not allow
	case code == codes.FailedPrecondition:
		details, code, text = &shared.StreamDeleted{StreamIdentifier: stream}, codes.NotFound, "StreamDeleted"
	case errors.Is(err, errTooLarge):
		details, text = &shared.MaximumAppendSizeExceeded{MaxAppendSize: maxAppend}, "MaximumAppendSizeExceeded"
	case code == codes.InvalidArgument:
		details, text = &shared.BadRequest{Message: text}, "BadRequest"
	case code == codes.Unavailable && strings.HasPrefix(text, "cannot write"):
		details, code, text = &shared.Unknown{}, codes.Unknown, "Unknown"
	default:
		return nil
	}
	failure, err := status.New(code, text).WithDetails(protoadapt.MessageV1Of(details))
	if err != nil {
		return nil
	}
	return failure
}
