package kafka

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"letterhead/internal/broker"
	"letterhead/internal/delay"
)

const (
	// rebalanceTimeout limits how long running handlers may delay a rebalance. A member whose handler takes
	// longer loses its partitions and rejoins.
	rebalanceTimeout = 15 * time.Second
	// commitEvery is how often acknowledgements are saved.
	commitEvery = time.Second
	// A partition holds at most maxQueued messages and two fetches. maxFetchBytes is above maxMessageBytes: a message
	// too large to fetch would stop its partition.
	maxQueued     = 16
	fetchBytes    = 256 << 10
	maxFetchBytes = 2 << 20
	// fetchWait is how long a broker waits for messages. Partitions that are read again wait as long.
	fetchWait = 500 * time.Millisecond
)

// Subscribe implements broker.Transport. The subscription continues until ctx ends, even while the brokers are
// unreachable. In Kafka the name of the group has the same prefix as topics.
func (t *Transport) Subscribe(ctx context.Context, topic, group string, deliver broker.Handler) error {
	name, err := t.topicName(topic)
	if err != nil {
		return err
	}
	opts, err := t.cfg.options()
	if err != nil {
		return err
	}
	t.mu.Lock()
	closing := t.closing
	if !closing {
		t.subscriptions.Add(1)
	}
	t.mu.Unlock()
	if closing {
		return broker.ErrClosed
	}
	defer t.subscriptions.Done()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(t.ending, cancel)()
	s := &member{Transport: t, topic: name, deliver: deliver, ctx: ctx, assigned: map[int32]*assignment{}}
	s.client, err = kgo.NewClient(append(opts, kgo.WithHooks(t.outage),
		kgo.ConsumerGroup(t.cfg.TopicPrefix+group), kgo.ConsumeTopics(name),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), // a new group starts with the oldest message
		kgo.Balancers(kgo.RangeBalancer()), kgo.SessionTimeout(t.cfg.SessionTimeout),
		kgo.HeartbeatInterval(t.cfg.SessionTimeout/4), kgo.RebalanceTimeout(rebalanceTimeout),
		kgo.FetchMaxPartitionBytes(fetchBytes), kgo.FetchMaxBytes(maxFetchBytes), kgo.FetchMaxWait(fetchWait),
		kgo.BlockRebalanceOnPoll(),
		kgo.AutoCommitMarks(), kgo.AutoCommitInterval(commitEvery),
		kgo.OnPartitionsRevoked(func(_ context.Context, _ *kgo.Client, revoked map[string][]int32) {
			s.revoke(revoked[name])
		}),
		kgo.OnPartitionsLost(func(_ context.Context, _ *kgo.Client, lost map[string][]int32) { s.revoke(lost[name]) }),
	)...)
	if err != nil {
		return fmt.Errorf("subscribe to kafka: %w", err)
	}
	t.lag.follow(topic, group)
	s.run()
	return nil
}

// member is a member of a group.
type member struct {
	*Transport
	client  *kgo.Client
	topic   string
	deliver broker.Handler
	ctx     context.Context // ends with the subscription

	mu       sync.Mutex
	assigned map[int32]*assignment // partitions whose messages are being handled
	running  sync.WaitGroup
}

// assignment are messages of a partition that are being handled.
type assignment struct {
	ctx      context.Context // of handlers
	cancel   context.CancelFunc
	ended    chan struct{} // closed when no handler runs
	stopping atomic.Bool   // no further message is begun

	// Under the lock of the member.
	partition map[string][]int32
	queue     []*kgo.Record
	paused    bool // nothing is fetched

	mu      sync.Mutex
	revoked bool // nothing is acknowledged any more
}

// run handles messages until the subscription ends, and waits for running handlers.
func (s *member) run() {
	for s.ctx.Err() == nil {
		fetches := s.client.PollFetches(s.ctx)
		fetches.EachError(func(_ string, _ int32, err error) {
			if s.ctx.Err() == nil && !errors.Is(err, kgo.ErrClientClosed) {
				s.outage.failed("read "+s.topic, err)
				_ = delay.For(s.ctx, retryAfter) // the client has its own waits, which not all errors have
			}
		})
		fetches.EachPartition(func(p kgo.FetchTopicPartition) {
			if len(p.Records) > 0 {
				s.begin(p.Partition, p.Records)
			}
		})
		s.client.AllowRebalance()
	}
	if !waitFor(s.running.Wait, closeTimeout) {
		s.cfg.Logger.Warn(
			"kafka: a handler is still running after the end of its subscription; its message will be redelivered",
			"topic", s.topic)
	}
	leaving, cancel := context.WithTimeout(context.Background(), closeTimeout) // s.ctx has ended
	defer cancel()
	err := s.client.CommitMarkedOffsets(leaving)
	if err = errors.Join(err, s.client.LeaveGroupContext(leaving)); err != nil {
		s.cfg.Logger.Warn("kafka: closing a subscription failed", "topic", s.topic, "error", err)
	}
	s.client.CloseAllowingRebalance()
	s.running.Wait()
}

// waitFor reports whether a wait has ended within a time.
func waitFor(wait func(), limit time.Duration) bool {
	done := make(chan struct{})
	go func() {
		wait()
		close(done)
	}()
	timer := time.NewTimer(limit)
	defer timer.Stop()
	select {
	case <-done:
		return true
	case <-timer.C:
		return false
	}
}

// begin handles messages of a partition in another goroutine, after those that it handles already.
func (s *member) begin(partition int32, records []*kgo.Record) {
	s.mu.Lock()
	defer s.mu.Unlock()
	a := s.assigned[partition]
	if a == nil {
		a = &assignment{partition: map[string][]int32{s.topic: {partition}}, ended: make(chan struct{})}
		a.ctx, a.cancel = context.WithCancel(s.ctx)
		s.assigned[partition] = a
		s.running.Go(func() {
			defer close(a.ended)
			defer a.cancel()
			for r := s.next(partition, a); r != nil && s.handle(a, r); {
				r = s.next(partition, a)
			}
		})
	}
	if a.queue = append(a.queue, records...); len(a.queue) > maxQueued && !a.paused {
		a.paused = true
		s.client.PauseFetchPartitions(a.partition)
	}
}

// next returns the next message of a partition; nil if there is none, which ends the assignment.
func (s *member) next(partition int32, a *assignment) *kgo.Record {
	s.mu.Lock()
	defer s.mu.Unlock()
	if a.paused && len(a.queue) <= maxQueued/2 {
		a.paused = false
		s.client.ResumeFetchPartitions(a.partition)
	}
	if len(a.queue) == 0 {
		if s.assigned[partition] == a {
			delete(s.assigned, partition)
		}
		return nil
	}
	r := a.queue[0]
	a.queue = a.queue[1:]
	return r
}

// handle delivers a message until it is acknowledged. It returns false if the partition was revoked or the subscription
// has ended before that.
func (s *member) handle(a *assignment, r *kgo.Record) bool {
	for !a.stopping.Load() && s.ctx.Err() == nil {
		if err := s.deliver(a.ctx, received(r)); err == nil {
			a.mu.Lock()
			defer a.mu.Unlock()
			if !a.revoked {
				s.client.MarkCommitRecords(r)
			}
			return true
		}
		_ = delay.For(a.ctx, s.cfg.RedeliverAfter)
	}
	return false
}

// revoke ends the work on partitions, and saves what was acknowledged. Running handlers have a part of the time of the
// rebalance to end.
func (s *member) revoke(partitions []int32) {
	s.mu.Lock()
	var ending []*assignment
	for _, p := range partitions {
		if a := s.assigned[p]; a != nil {
			ending = append(ending, a)
			delete(s.assigned, p)
			a.stopping.Store(true)
		}
	}
	s.mu.Unlock()
	waitFor(func() {
		for _, a := range ending {
			<-a.ended
		}
	}, rebalanceTimeout-answerTimeout)
	for _, a := range ending {
		a.mu.Lock()
		a.revoked = true
		a.mu.Unlock()
		a.cancel()
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(s.ctx), answerTimeout)
	defer cancel()
	if err := s.client.CommitMarkedOffsets(ctx); err != nil {
		s.outage.failed("commit "+s.topic, err)
	}
	s.client.ResumeFetchPartitions(map[string][]int32{s.topic: partitions})
}
