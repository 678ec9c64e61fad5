package kafka

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	kafkago "github.com/segmentio/kafka-go"
	"golang.org/x/sync/errgroup"

	"letterhead/internal/broker"
	"letterhead/internal/delay"
)

// ReadOptions are the options of ReadTopic.
type ReadOptions struct {
	// FromBeginning reads all messages in the topic; otherwise only new ones.
	FromBeginning bool
	// Follow continues until ctx ends; otherwise reading stops at the end that the topic had at the start.
	Follow bool
}

// Read is a message of a topic with its position.
type Read struct {
	broker.Message
	Partition int
	Offset    int64
}

const (
	readBytes   = 1 << 20
	readWait    = 500 * time.Millisecond
	readTimeout = askTimeout
	// maxReadFailures limits consecutive attempts without progress. They take about half a minute.
	maxReadFailures = 30
	// readAhead limits the fetched messages that are queued, in addition to one fetch per partition.
	readAhead = 64
)

// ReadTopic reads a topic without a consumer group and passes its messages to do, one at a time. The
// messages of a partition, and therefore of a key, are in order and may repeat. ReadTopic commits no
// offsets. It returns nil at the end of the topic, or when ctx ends while following.
//
// Errors: ErrUnknownTopic, errors of do, ctx.Err(), or errors of the brokers.
func ReadTopic(ctx context.Context, cfg Config, topic string, options ReadOptions, do func(Read) error) error {
	a, err := newAdmin(cfg)
	if err != nil {
		return err
	}
	defer a.close()
	name := cfg.KafkaTopic(topic)
	topics, err := a.partitions(ctx, []string{name})
	if err != nil {
		return fmt.Errorf("read %s: %w", topic, err)
	}
	if topics[name] == 0 {
		return fmt.Errorf("%w: topic %s does not exist", ErrUnknownTopic, name)
	}
	extents, err := a.extents(ctx, topics)
	if err != nil {
		return fmt.Errorf("read %s: %w", topic, err)
	}
	following := ctx
	group, ctx := errgroup.WithContext(ctx)
	messages := make(chan Read, readAhead)
	var readers errgroup.Group
	for _, e := range extents[name] {
		r := &partitionReader{admin: a, topic: name, partition: e.partition, at: e.end, end: e.end,
			follow: options.Follow}
		if options.FromBeginning {
			r.at = e.first
		}
		readers.Go(func() error { return r.run(ctx, messages) })
	}
	group.Go(func() error {
		defer close(messages)
		return readers.Wait()
	})
	group.Go(func() error {
		for m := range messages {
			if err := do(m); err != nil {
				return err
			}
		}
		return nil
	})
	err = group.Wait()
	if options.Follow && following.Err() != nil && errors.Is(err, following.Err()) {
		return nil
	}
	return err
}

type partitionReader struct {
	admin     *admin
	topic     string
	partition int
	at, end   int64
	follow    bool
}

func (r *partitionReader) run(ctx context.Context, to chan<- Read) error {
	for failures := 0; r.follow || r.at < r.end; {
		before := r.at
		err := r.fetch(ctx, to)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err == nil && (r.at > before || r.follow) {
			failures = 0
			continue
		}
		// Empty responses before the end also count, because the last offset may be a transaction
		// marker, which is never delivered.
		if failures++; failures == maxReadFailures {
			return fmt.Errorf("read %s, partition %d from offset %d: %w", r.topic, r.partition, r.at,
				errors.Join(errNoProgress, err))
		}
		_ = delay.For(ctx, min(time.Duration(failures)*reconnectAfter/4, 2*time.Second))
	}
	return nil
}

var errNoProgress = errors.New("nothing could be read")

// fetch reads some messages and advances the offset.
func (r *partitionReader) fetch(ctx context.Context, to chan<- Read) error {
	answer, err := ask(ctx, readTimeout, r.admin.client.Fetch, &kafkago.FetchRequest{
		Topic: r.topic, Partition: r.partition, Offset: r.at, MinBytes: 1, MaxBytes: readBytes, MaxWait: readWait,
	})
	if err == nil && answer.Error != nil {
		err = answer.Error
	}
	if errors.Is(err, kafkago.OffsetOutOfRange) {
		return r.skipDeleted(ctx, err)
	}
	if err != nil {
		return err
	}
	if closer, ok := answer.Records.(io.Closer); ok {
		defer closer.Close()
	}
	for r.follow || r.at < r.end {
		record, err := answer.Records.ReadRecord()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if record.Offset < r.at {
			continue // a fetch returns whole batches
		}
		m, err := readRecord(record)
		if err != nil {
			return err
		}
		if err := delay.Send(ctx, to, Read{Message: m, Partition: r.partition, Offset: record.Offset}); err != nil {
			return err
		}
		r.at = record.Offset + 1
	}
	return nil
}

// skipDeleted advances to the first remaining message if retention has deleted the next message.
func (r *partitionReader) skipDeleted(ctx context.Context, cause error) error {
	extents, err := r.admin.extents(ctx, map[string]int{r.topic: r.partition + 1})
	if err != nil {
		return err
	}
	for _, e := range extents[r.topic] {
		if e.partition == r.partition && e.first > r.at {
			r.at = e.first
			return nil
		}
	}
	return cause
}

func readRecord(record *kafkago.Record) (broker.Message, error) {
	m := broker.Message{Metadata: map[string]string{}}
	for _, h := range record.Headers {
		if h.Key == HeaderID {
			m.ID = string(h.Value)
		} else if len(m.Metadata) < maxHeaders {
			m.Metadata[h.Key] = string(h.Value)
		}
	}
	key, err := kafkago.ReadAll(orNone(record.Key))
	if err != nil {
		return m, err
	}
	m.Key = string(key)
	m.Payload, err = kafkago.ReadAll(orNone(record.Value))
	return m, err
}

func orNone(b kafkago.Bytes) kafkago.Bytes {
	if b == nil {
		return kafkago.NewBytes([]byte{})
	}
	return b
}
