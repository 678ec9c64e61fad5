package esdb

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

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

// unopened returns a batcher with a call that has not been started.
func unopened() (*batcher, *batchCall) {
	c := &batchCall{kick: make(chan struct{}, 1), waiting: map[int64]*waitingAppend{}}
	c.ctx, c.cancel = context.WithCancel(context.Background())
	return &batcher{call: c}, c
}

// When a call ends, an append that was not sent is certainly not written, and one that was forgotten is not sent.
func TestBatcher_NotSent_IsCertain(t *testing.T) {
	b, c := unopened()
	var done [3]chan answer[eventlog.Appended]
	var forget [3]func()
	for i := range done {
		done[i] = make(chan answer[eventlog.Appended], 1)
		forget[i] = b.send(&request{}, done[i])
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

// A server that answers nothing on a call does not hold up later appends, and those that still wait lose nothing.
func TestBatcher_SilentCall_IsReplaced(t *testing.T) {
	for name, c := range map[string]struct {
		answer, replaced bool
	}{"silent": {false, true}, "one append hangs": {true, false}} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b, call := unopened()
				defer call.cancel()
				done := make(chan answer[eventlog.Appended], 2)
				forget := b.send(&request{}, done)
				other := b.send(&request{}, done)
				b.next(call)
				b.next(call)
				time.Sleep(stallAfter)
				if c.answer {
					call.heard = time.Now()
				}
				forget()
				if (b.call == nil) != c.replaced || call.ctx.Err() != nil {
					t.Errorf("replaced: %t, ended: %v, want %t and an open call", b.call == nil, call.ctx.Err(), c.replaced)
				}
				other()
				if (call.ctx.Err() != nil) != c.replaced {
					t.Errorf("ended after the last append: %v", call.ctx.Err())
				}
			})
		})
	}
}
