package kafka

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/IBM/sarama"
	kafkago "github.com/segmentio/kafka-go"

	"letterhead/internal/broker"
	"letterhead/internal/delay"
)

// HeaderID is the header with the event's id in the topics of record. The other headers are the message's metadata.
const HeaderID = "event_id"

const (
	// maxBatchBytes limits one request to one partition, before compression. It is well below
	// maxMessageBytes, because the broker also counts frames and lengths.
	maxBatchBytes = 768 << 10
	// recordOverhead is an upper bound for the lengths, offsets and times of a record.
	recordOverhead = 64
	// produceAttempts limits how often a batch is sent before Publish gives up.
	produceAttempts     = 4
	produceAfter        = 100 * time.Millisecond
	maxProduceAfter     = time.Second
	produceTimeout      = 10 * time.Second
	maxRecordPartitions = 64 // written concurrently by one Publish
)

// Records publishes to the topics of record, in batches. It implements relay.Publisher.
//
// It sends requests to the leaders of partitions directly. A kafka-go Writer would queue several
// batches for a partition and send the next batch even if the previous one failed, so that a retry
// would put the failed batch behind later events of the same stream. Records sends the next batch of a
// partition only after the previous batch has been acknowledged.
type Records struct{ transport *Transport }

// PublishError means that some messages are not safe. For each key, the safe messages precede the others.
type PublishError struct {
	// Failed contains the ascending indices of the messages that may not have arrived.
	Failed []int
	// Total is the number of messages to publish.
	Total int
	Err   error
}

func (e *PublishError) Error() string {
	return fmt.Sprintf("%d of %d records are not safe: %s", len(e.Failed), e.Total, e.Err)
}

func (e *PublishError) Unwrap() error { return e.Err }

// Publish sends messages to a topic and returns when all in-sync replicas have them. Messages of one
// key keep their order. A failed batch is retried a few times before later batches are sent, so a lost
// acknowledgement causes repeats, never a gap.
//
// Errors: broker.ErrInvalid and ErrUnknownTopic (nothing was sent), broker.ErrClosed, ctx.Err(), or a
// *PublishError.
func (r Records) Publish(ctx context.Context, topic string, messages ...broker.Message) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if !slices.ContainsFunc(r.transport.cfg.Topics, func(t Topic) bool { return t.Name == topic && t.Record }) {
		return fmt.Errorf("%w of record: %.120q", ErrUnknownTopic, topic)
	}
	for _, m := range messages {
		if err := m.Validate(); err != nil {
			return fmt.Errorf("publish to %s: %w", topic, err)
		}
	}
	if err := r.transport.enter(); err != nil {
		return err
	}
	defer r.transport.publishing.Done()
	name := r.transport.cfg.KafkaTopic(topic)
	topics, err := r.transport.admin.partitions(ctx, []string{name})
	if err == nil && topics[name] == 0 {
		err = errors.New("the topic does not exist")
	}
	if err != nil {
		if ctx.Err() == nil {
			r.transport.outage.failed("publish to "+name, err)
		}
		return fmt.Errorf("publish to %s: %w: %w", topic, broker.ErrUnavailable, err)
	}
	return r.publish(ctx, name, topics[name], messages)
}

func (r Records) publish(ctx context.Context, topic string, partitions int, messages []broker.Message) error {
	perPartition := map[int][]int{} // indices of messages
	// kafka-go has the same hash, and Java's default partitioner another one.
	partitioner := sarama.NewHashPartitioner(topic)
	for i, m := range messages {
		p, err := partitioner.Partition(&sarama.ProducerMessage{Key: sarama.StringEncoder(m.Key)}, int32(partitions))
		if err != nil {
			return err
		}
		perPartition[int(p)] = append(perPartition[int(p)], i)
	}
	type result struct {
		failed []int
		err    error
	}
	results := make(chan result, len(perPartition))
	slots := make(chan struct{}, maxRecordPartitions)
	for p, indices := range perPartition {
		go func() {
			slots <- struct{}{} // earlier writes end within their timeouts
			defer func() { <-slots }()
			failed, err := r.toPartition(ctx, topic, p, indices, messages)
			results <- result{failed, err}
		}()
	}
	all := &PublishError{Total: len(messages)}
	for range perPartition {
		got := <-results
		if got.err != nil {
			all.Failed, all.Err = append(all.Failed, got.failed...), errors.Join(all.Err, got.err)
		}
	}
	if all.Err == nil {
		return nil
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	slices.Sort(all.Failed)
	return all
}

// toPartition sends messages in batches, one after the other. failed contains the indices of the
// messages of the first failed batch and all later ones.
func (r Records) toPartition(ctx context.Context, topic string, partition int, indices []int,
	messages []broker.Message) (failed []int, err error) {
	for len(indices) > 0 {
		n, bytes := 0, 0
		for n < len(indices) {
			bytes += sizeOf(messages[indices[n]])
			if n > 0 && bytes > maxBatchBytes {
				break
			}
			n++
		}
		if err := r.produce(ctx, topic, partition, indices[:n], messages); err != nil {
			return indices, fmt.Errorf("%s, partition %d: %w", topic, partition, err)
		}
		indices = indices[n:]
	}
	return nil, nil
}

// produce sends one batch until it is acknowledged, or gives up.
func (r Records) produce(ctx context.Context, topic string, partition int, indices []int,
	messages []broker.Message) error {
	wait := produceAfter
	for attempt := 1; ; attempt++ {
		err := r.once(ctx, topic, partition, indices, messages)
		if err == nil {
			return nil
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if !isRetryable(err) {
			return err
		}
		r.transport.outage.failed(fmt.Sprintf("publish to %s, partition %d", topic, partition), err)
		if attempt == produceAttempts {
			return fmt.Errorf("%w: %w", broker.ErrUnavailable, err)
		}
		if err := delay.For(ctx, delay.Jittered(wait)); err != nil {
			return err
		}
		wait = min(2*wait, maxProduceAfter)
	}
}

// isRetryable reports whether an error may be temporary. Only errors that Kafka declares permanent are not.
func isRetryable(err error) bool {
	var code kafkago.Error
	return !errors.As(err, &code) || code.Temporary() || code == kafkago.NotLeaderForPartition
}

func (r Records) once(ctx context.Context, topic string, partition int, indices []int,
	messages []broker.Message) error {
	records := make([]kafkago.Record, len(indices)) // new for each attempt, because sending consumes them
	for i, index := range indices {
		records[i] = record(messages[index])
	}
	answer, err := ask(ctx, produceTimeout, r.transport.admin.client.Produce, &kafkago.ProduceRequest{
		Topic: topic, Partition: partition, RequiredAcks: kafkago.RequireAll,
		Records: kafkago.NewRecordReader(records...), Compression: compression,
	})
	if err != nil {
		return err
	}
	if answer.Error != nil {
		return answer.Error
	}
	for _, err := range answer.RecordErrors {
		return err // the broker accepts a batch as a whole or not at all
	}
	return nil
}

// compression is a codec that every Kafka client supports.
const compression = kafkago.Snappy

// record converts a message to a Kafka record, with headers sorted by name.
func record(m broker.Message) kafkago.Record {
	headers := make([]kafkago.Header, 0, len(m.Metadata)+1)
	headers = append(headers, kafkago.Header{Key: HeaderID, Value: []byte(m.ID)})
	for _, name := range slices.Sorted(maps.Keys(m.Metadata)) {
		headers = append(headers, kafkago.Header{Key: name, Value: []byte(m.Metadata[name])})
	}
	return kafkago.Record{Key: kafkago.NewBytes([]byte(m.Key)), Value: kafkago.NewBytes(m.Payload), Headers: headers}
}

func sizeOf(m broker.Message) int {
	n := recordOverhead + len(m.Key) + len(m.Payload) + len(HeaderID) + len(m.ID)
	for name, value := range m.Metadata {
		n += len(name) + len(value) + 8
	}
	return n
}
