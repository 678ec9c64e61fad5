package esdb

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/EventStore/EventStore-Client-Go/v4/esdb"
	"github.com/EventStore/EventStore-Client-Go/v4/protos/shared"
	"github.com/EventStore/EventStore-Client-Go/v4/protos/streams"
	"github.com/google/uuid"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/types/known/emptypb"

	"letterhead/internal/delay"
	"letterhead/internal/eventlog"
)

// batcher sends the appends of a member over one call (BatchAppend) on its compared connection, which the client does
// not offer: with a call for each, gRPC takes more CPU time than the append, in both processes.
type batcher struct {
	conn   *singleConn
	ctx    context.Context // ends when no append waits for an answer any more
	close  context.CancelFunc
	header metadata.MD // credentials

	mu   sync.Mutex
	call *batchCall // nil before the first append, and after a call has ended
}

// batchCall is a call for many appends. The mutex of its batcher guards it.
type batchCall struct {
	ctx     context.Context
	cancel  context.CancelFunc
	kick    chan struct{} // there is something to send
	queue   []int64       // those that wait and those that were forgotten
	high    int64         // the first half of all correlation ids; the second half is a number
	last    int64
	waiting map[int64]*waitingAppend // at most Config.Calls
	open    int                      // appends that the server may have received and has not answered
	heard   time.Time                // of the last answer
}

// waitingAppend is an append whose caller waits for the answer.
type waitingAppend struct {
	request *streams.BatchAppendReq
	sent    time.Time // possibly; zero before
	done    chan<- answer[eventlog.Appended]
}

func newBatcher(conf *esdb.Configuration, conn *singleConn) *batcher {
	b := &batcher{conn: conn}
	b.ctx, b.close = context.WithCancel(context.Background())
	if conf.Username != "" && conf.Password != "" && !conf.DisableTLS { // when the client sends them, too
		b.header = metadata.Pairs("authorization",
			"Basic "+base64.StdEncoding.EncodeToString([]byte(conf.Username+":"+conf.Password)))
	}
	return b
}

// send sends a request. done gets its result, unless forget is called first, and must have room for it. A request that
// is forgotten before it was sent is never sent. One that is forgotten long after that, while the call had no answer at
// all, makes later ones use another call: the server handles those of a call in turn until they are in its queue.
func (b *batcher) send(r *request, done chan<- answer[eventlog.Appended]) (forget func()) {
	b.mu.Lock()
	defer b.mu.Unlock()
	c := b.call
	if c == nil {
		most, _ := esdb.UUIDAsInt64(uuid.New())
		c = &batchCall{kick: make(chan struct{}, 1), waiting: map[int64]*waitingAppend{}, high: most}
		c.ctx, c.cancel = context.WithCancel(metadata.NewOutgoingContext(b.ctx, b.header))
		b.call = c
		go b.run(c)
	}
	id := c.last + 1
	c.last, c.queue = id, append(c.queue, id)
	c.waiting[id] = &waitingAppend{done: done, request: &streams.BatchAppendReq{
		CorrelationId: structured(c.high, id), Options: r.options(), ProposedMessages: r.events, IsFinal: true}}
	delay.Signal(c.kick)
	return func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		w := c.waiting[id]
		delete(c.waiting, id)
		if w != nil && !w.sent.IsZero() && c.heard.Before(w.sent) && time.Since(w.sent) >= stallAfter && b.call == c {
			b.call = nil
		}
		b.endUnused(c)
	}
}

// endUnused ends a call that has been replaced once no append waits for its answers.
func (b *batcher) endUnused(c *batchCall) {
	if b.call != c && len(c.waiting) == 0 {
		c.cancel()
	}
}

// run begins the call and sends until it has ended.
func (b *batcher) run(c *batchCall) {
	conn, err := grpc.NewClient(b.conn.address()+sharing, grpc.WithIdleTimeout(0),
		grpc.WithTransportCredentials(insecure.NewCredentials())) // which are not used, because it makes no connection
	if err != nil {
		b.end(c, err)
		return
	}
	defer conn.Close()
	defer c.cancel()
	opened := make(chan struct{})
	go func() {
		select {
		case <-b.conn.ended: // gRPC would wait for another connection
			c.cancel()
		case <-opened:
		}
	}()
	call, err := streams.NewStreamsClient(conn).BatchAppend(c.ctx)
	close(opened)
	if err != nil {
		if c.ctx.Err() != nil {
			err = errEnded
		}
		b.end(c, err)
		return
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		b.receive(c, call)
	}()
	for {
		select {
		case <-c.kick:
		case <-ended:
			return
		}
		for request := b.next(c); request != nil; request = b.next(c) {
			if call.Send(request) != nil { // receive returns the reason
				<-ended
				return
			}
		}
	}
}

// next returns the next request to send, or nil.
func (b *batcher) next(c *batchCall) *streams.BatchAppendReq {
	b.mu.Lock()
	defer b.mu.Unlock()
	for len(c.queue) > 0 {
		w := c.waiting[c.queue[0]]
		c.queue = c.queue[1:]
		if w != nil {
			w.sent = time.Now()
			c.open++
			return w.request
		}
	}
	return nil
}

// receive passes on answers until the call ends.
func (b *batcher) receive(c *batchCall, call streams.Streams_BatchAppendClient) {
	for answered := false; ; answered = true {
		resp, err := call.Recv()
		if err != nil {
			switch {
			case slices.Contains(call.Trailer().Get("exception"), "not-leader"):
				err = errNotLeader
			case answered && !isLost(err):
				err = errors.New(err.Error()) // such as a denial, which then is not the answer to every append
			}
			b.end(c, err)
			return
		}
		b.mu.Lock()
		c.open, c.heard = c.open-1, time.Now()
		id := resp.GetCorrelationId().GetStructured().GetLeastSignificantBits()
		w := c.waiting[id]
		delete(c.waiting, id)
		b.endUnused(c)
		b.mu.Unlock()
		if w != nil {
			w.done <- resultOf(resp)
		}
	}
}

// end answers all appends of a call that has ended. A server that is not the leader ends the call when it rejects an
// append: which one it was is certain only if there was no other.
func (b *batcher) end(c *batchCall, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.call == c {
		b.call = nil
	}
	if c.open > 1 && errors.Is(err, errNotLeader) {
		err = errMaybeNotLeader
	}
	for _, w := range c.waiting {
		a := answer[eventlog.Appended]{err: fmt.Errorf("the call for appends ended: %w", err)}
		if w.sent.IsZero() {
			a.err = fmt.Errorf("%w: %w", errUnsent, a.err)
		}
		w.done <- a
	}
	c.waiting, c.queue = nil, nil
}

// refusals are the answers to appends that failed, by the type of their details. BadRequest is not among them: it means
// any exception of the server, such as one while it checked a permission.
var refusals = map[string]error{
	"WrongExpectedVersion": errWrongRevision, "Timeout": errTimedOut, "AccessDenied": errDenied, "Empty": errNotTaken,
	"StreamDeleted": errRejected, "MaximumAppendSizeExceeded": errAboveLimit,
}

// resultOf interprets an answer. A repeat may have no position.
func resultOf(resp *streams.BatchAppendResp) (a answer[eventlog.Appended]) {
	if success := resp.GetSuccess(); success != nil {
		a.value.LastRevision = success.GetCurrentRevision()
		a.value.Position = eventlog.Position(success.GetPosition().GetCommitPosition())
		return a
	}
	a.err = fmt.Errorf("the store answers %q", resp.GetError().GetMessage())
	internal := resp.GetError().GetCode() == int32(codes.Internal) // of unknown outcome, although its details are Empty
	if details := resp.GetError().GetDetails(); len(details) > 0 && !internal {
		if known := refusals[string(details[0].MessageName().Name())]; known != nil {
			a.err = fmt.Errorf("%w: %w", known, a.err)
		}
	}
	return a
}

// options returns the header of a request.
func (r *request) options() *streams.BatchAppendReq_Options {
	o := &streams.BatchAppendReq_Options{StreamIdentifier: &shared.StreamIdentifier{StreamName: []byte(r.stream)}}
	if next := r.expected.Next(); next > 0 {
		o.ExpectedStreamPosition = &streams.BatchAppendReq_Options_StreamPosition{StreamPosition: next - 1}
	} else {
		o.ExpectedStreamPosition = &streams.BatchAppendReq_Options_NoStream{NoStream: &emptypb.Empty{}}
	}
	return o
}

func structured(high, low int64) *shared.UUID {
	return &shared.UUID{Value: &shared.UUID_Structured_{
		Structured: &shared.UUID_Structured{MostSignificantBits: high, LeastSignificantBits: low}}}
}
