package kafka

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"slices"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"golang.org/x/sync/semaphore"

	"letterhead/internal/broker"
)

const (
	// maxBatchBytes limits the messages that are sent to a partition together, before compression. It is well below
	// maxMessageBytes, because the broker also counts frames and lengths.
	maxBatchBytes = 768 << 10
	// recordOverhead is an upper bound for the lengths, offsets and times of a record.
	recordOverhead = 64
	// sendFor is how long messages are sent before Publish gives up. They may still arrive.
	sendFor = 20 * time.Second
	// maxBuffered limits the messages of a producer, including those whose Publish has given up.
	maxBuffered = 100_000
)

// producer publishes to one topic, in rounds. A round fits into one batch for each partition, and the next one begins
// after it: a client that sends several batches of a partition at a time sends the later ones even if one is refused,
// so that a retry would put it behind later messages of the same key.
type producer struct {
	client     *kgo.Client
	turn       *semaphore.Weighted // 1
	partitions atomic.Int64        // of the topic; 0 before the first message
}

// producerOf returns the producer of a topic, whose messages are counted as being published until the caller calls done.
func (t *Transport) producerOf(topic string) (p *producer, done func(), err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.closed {
		return nil, nil, broker.ErrClosed
	}
	if p = t.producers[topic]; p == nil {
		opts, err := t.cfg.options()
		if err != nil {
			return nil, nil, err
		}
		p = &producer{turn: semaphore.NewWeighted(1)}
		p.client, err = kgo.NewClient(append(opts, kgo.WithHooks(t.outage), kgo.DefaultProduceTopic(topic),
			kgo.ManualFlushing(), kgo.MaxBufferedRecords(maxBuffered), kgo.ProducerBatchMaxBytes(maxMessageBytes-1<<10),
			kgo.ProduceRequestTimeout(ackTimeout), kgo.ProducerBatchCompression(kgo.SnappyCompression()),
			kgo.RecordPartitioner(kgo.BasicConsistentPartitioner(func(string) func(*kgo.Record, int) int {
				return func(r *kgo.Record, partitions int) int {
					p.partitions.Store(int64(partitions))
					return partitionOf(r.Key, partitions)
				}
			})))...)
		if err != nil {
			return nil, nil, err
		}
		t.producers[topic] = p
	}
	t.publishing.Add(1)
	return p, t.publishing.Done, nil
}

// partitionOf returns the partition of a key. The FNV-1a hash is interpreted as a signed number, and its remainder is
// made positive. Hash partitioners of other clients in Go do the same; Java's default partitioner does not.
func partitionOf(key []byte, partitions int) int {
	h := fnv.New32a()
	h.Write(key)
	p := int32(h.Sum32()) % int32(partitions)
	if p < 0 {
		p = -p
	}
	return int(p)
}

// publish publishes messages in the form that record gives them. If it fails, failed has the indices of those that may
// not have arrived; for each key, the others precede them.
func (t *Transport) publish(ctx context.Context, topic string, messages []broker.Message,
	record func(broker.Message) *kgo.Record) (failed []int, err error) {
	name, err := t.topicName(topic)
	if err != nil {
		return nil, err
	}
	p, done, err := t.producerOf(name)
	if err != nil {
		return nil, err
	}
	defer done()
	records := make([]*kgo.Record, len(messages))
	for i, m := range messages {
		records[i] = record(m)
	}
	sending, cancel := context.WithTimeoutCause(ctx, sendFor, errLate)
	defer cancel()
	if err := p.turn.Acquire(sending, 1); err != nil {
		return numbers(0, len(records)), t.explainPublish(ctx, name, errLate)
	}
	defer p.turn.Release(1)
	for begin := 0; begin < len(records); {
		end := p.endOfRound(records, begin)
		if failed, err = p.round(sending, records, begin, end); err != nil {
			return append(failed, numbers(end, len(records))...), t.explainPublish(ctx, name, err)
		}
		begin = end
	}
	return nil, nil
}

// errLate is the error of messages that were not acknowledged within sendFor.
var errLate = fmt.Errorf("the brokers did not acknowledge within %s", sendFor)

// numbers returns the numbers from begin to end, without end.
func numbers(begin, end int) (all []int) {
	for i := begin; i < end; i++ {
		all = append(all, i)
	}
	return all
}

// endOfRound returns the end of the round that begins with a record.
func (p *producer) endOfRound(records []*kgo.Record, begin int) int {
	partitions, bytes := max(int(p.partitions.Load()), 1), map[int]int{}
	for end := begin; end < len(records); end++ {
		to := partitionOf(records[end].Key, partitions)
		if bytes[to] += sizeOf(records[end]); end > begin && bytes[to] > maxBatchBytes {
			return end
		}
	}
	return len(records)
}

// round sends some of the records, and returns the indices of those that may not have arrived, in ascending order.
func (p *producer) round(ctx context.Context, records []*kgo.Record, begin, end int) (failed []int, err error) {
	type outcome struct {
		index int
		err   error
	}
	outcomes, safe := make(chan outcome, end-begin), map[int]bool{}
	for i := begin; i < end; i++ {
		p.client.Produce(ctx, records[i], func(_ *kgo.Record, err error) { outcomes <- outcome{i, err} })
	}
	flushing, stop := context.WithCancel(ctx)
	defer stop()
	go func() { _ = p.client.Flush(flushing) }() // the outcomes have its errors
	for n := begin; n < end && ctx.Err() == nil; n++ {
		select {
		case o := <-outcomes:
			if safe[o.index] = o.err == nil; err == nil {
				err = o.err
			}
		case <-ctx.Done():
			err = cmp.Or(err, context.Cause(ctx))
		}
	}
	return slices.DeleteFunc(numbers(begin, end), func(i int) bool { return safe[i] }), err
}

// explainPublish returns the error of a publication, which is that of its context if that has ended.
func (t *Transport) explainPublish(ctx context.Context, topic string, err error) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	var refused *kerr.Error
	if errors.As(err, &refused) && !refused.Retriable {
		return err
	}
	t.outage.failed("publish to "+topic, err)
	return fmt.Errorf("%w: %w", broker.ErrUnavailable, err)
}

func sizeOf(r *kgo.Record) int {
	n := recordOverhead + len(r.Key) + len(r.Value)
	for _, h := range r.Headers {
		n += len(h.Key) + len(h.Value) + 8
	}
	return n
}
