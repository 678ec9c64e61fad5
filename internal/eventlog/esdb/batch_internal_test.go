package esdb

import (
	"errors"
	"testing"

	"github.com/EventStore/EventStore-Client-Go/v4/protos/shared"
	"github.com/EventStore/EventStore-Client-Go/v4/protos/streams"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/protoadapt"
	"google.golang.org/protobuf/types/known/emptypb"

	"letterhead/internal/eventlog"
	"letterhead/internal/testmust"
)

// The server's failures, as Status.cs of 22.10 to 24.10 makes them. Rejections have no code.
func TestResultOf_FailuresOfTheServer(t *testing.T) {
	for name, c := range map[string]struct {
		code    codes.Code
		details protoadapt.MessageV1
		want    outcome
	}{
		"WrongExpectedVersion":      {codes.AlreadyExists, &shared.WrongExpectedVersion{}, wrongRevision},
		"StreamDeleted":             {codes.NotFound, &shared.StreamDeleted{}, rejected},
		"AccessDenied":              {codes.PermissionDenied, &shared.AccessDenied{}, notWritten},
		"Timeout":                   {codes.DeadlineExceeded, &shared.Timeout{}, unknownOutcome},
		"Unknown":                   {codes.Unknown, &shared.Unknown{}, unknownOutcome},
		"MaximumAppendSizeExceeded": {codes.InvalidArgument, &shared.MaximumAppendSizeExceeded{}, tooLarge},
		"BadRequest":                {codes.InvalidArgument, &shared.BadRequest{}, unknownOutcome},
		"not handled":               {codes.OK, &emptypb.Empty{}, notWritten},
		"internal":                  {codes.Internal, &emptypb.Empty{}, unknownOutcome},
	} {
		failure := testmust.Get(status.New(codes.Unknown, name).WithDetails(c.details))(t).Proto()
		failure.Code = int32(c.code)
		a := resultOf(&streams.BatchAppendResp{Result: &streams.BatchAppendResp_Error{Error: failure}})
		if got := outcomeOf(a.err); got != c.want {
			t.Errorf("%s: outcome %d of %v, want %d", name, got, a.err, c.want)
		}
	}
}

// When a call ends, an append that was not sent is certainly not written, and one that was forgotten is not sent.
func TestBatcher_NotSent_IsCertain(t *testing.T) {
	b := &batcher{}
	c := &batchCall{kick: make(chan struct{}, 1), waiting: map[int64]*waitingAppend{}}
	b.call = c
	var done [3]chan answer[eventlog.Appended]
	var forget [3]func()
	for i := range done {
		done[i] = make(chan answer[eventlog.Appended], 1)
		forget[i] = b.send(&request{expected: eventlog.Any()}, done[i])
	}
	forget[0]()
	if r := b.next(c); r.GetCorrelationId().GetStructured().GetLeastSignificantBits() != 2 {
		t.Errorf("the first request sent is %v, want the second", r)
	}
	b.end(c, status.Error(codes.Unavailable, "reset"))
	if len(done[0]) != 0 {
		t.Error("the forgotten append got an answer")
	}
	if sent := <-done[1]; outcomeOf(sent.err) != unknownOutcome || !isLost(sent.err) {
		t.Errorf("the append that was sent: %v, want an unknown outcome", sent.err)
	}
	if unsent := <-done[2]; outcomeOf(unsent.err) != notWritten || !errors.Is(unsent.err, errUnsent) {
		t.Errorf("the append that was not sent: %v, want not written", unsent.err)
	}
}

// A server without BatchAppend answers so when the call begins.
func TestOutcomeOf_Unimplemented_IsNotWritten(t *testing.T) {
	if got := outcomeOf(status.Error(codes.Unimplemented, "unknown method BatchAppend")); got != notWritten {
		t.Errorf("outcome = %d, want %d", got, notWritten)
	}
}
