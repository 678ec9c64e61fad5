package kafka

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

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

// readWithin limits the time to read something before the end of a topic.
const readWithin = 30 * time.Second

var errNoProgress = fmt.Errorf("nothing could be read for %s", readWithin)

// ReadTopic reads a topic without a consumer group and passes its messages to do, one at a time. The
// messages of a partition, and therefore of a key, are in order and may repeat. ReadTopic commits no
// offsets. It returns nil at the end of the topic, or when ctx ends while following.
//
// Errors: ErrUnknownTopic, errors of do, ctx.Err(), or errors of the brokers.
func ReadTopic(ctx context.Context, cfg Config, topic string, options ReadOptions, do func(Read) error) error {
	cfg.setDefaults()
	if err := cfg.Validate(); err != nil {
		return fmt.Errorf("broker configuration: %w", err)
	}
	a, err := newAdmin(cfg)
	if err != nil {
		return err
	}
	defer a.close()
	name := cfg.KafkaTopic(topic)
	existing, err := a.existing(ctx, []string{name})
	if err != nil {
		return fmt.Errorf("read %s: %w", topic, err)
	}
	if len(existing) == 0 {
		return fmt.Errorf("%w: topic %s does not exist", ErrUnknownTopic, name)
	}
	extents, err := a.extents(ctx, existing)
	if err != nil {
		return fmt.Errorf("read %s: %w", topic, err)
	}
	r := &reader{cfg: cfg, topic: name, follow: options.Follow, do: do, ends: map[int32]int64{}}
	from := map[int32]kgo.Offset{}
	for _, e := range extents[name] {
		at := e.end
		if options.FromBeginning {
			at = e.first
		}
		if from[e.partition] = kgo.NewOffset().At(at); at < e.end {
			r.ends[e.partition] = e.end
		}
	}
	err = r.read(ctx, from)
	if options.Follow && ctx.Err() != nil && errors.Is(err, ctx.Err()) {
		return nil
	}
	return err
}

// reader reads a topic.
type reader struct {
	cfg    Config
	topic  string
	follow bool
	do     func(Read) error
	ends   map[int32]int64 // of the partitions whose end was not reached
}

func (r *reader) read(ctx context.Context, from map[int32]kgo.Offset) error {
	opts, err := r.cfg.options()
	if err != nil {
		return err
	}
	// The last offset may be that of a control record, which is read like the others.
	client, err := kgo.NewClient(append(opts, kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{r.topic: from}),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.KeepControlRecords())...)
	if err != nil {
		return err
	}
	defer client.Close()
	for progress := time.Now(); r.follow || len(r.ends) > 0; {
		polling, cancel := context.WithTimeout(ctx, readWithin)
		fetches := client.PollFetches(polling)
		cancel()
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case !fetches.Empty():
			progress = time.Now()
		case !r.follow && time.Since(progress) >= readWithin:
			return fmt.Errorf("read %s: %w", r.topic, errors.Join(errNoProgress, fetches.Err()))
		default:
			_ = delay.For(ctx, retryAfter) // the client has its own waits, which not all errors have
		}
		for records := fetches.RecordIter(); !records.Done(); {
			if err := r.handle(records.Next()); err != nil {
				return err
			}
		}
	}
	return nil
}

// handle passes a record on, unless it is behind the end of the topic.
func (r *reader) handle(record *kgo.Record) error {
	end, before := r.ends[record.Partition]
	if record.Offset+1 >= end {
		delete(r.ends, record.Partition)
	}
	if record.Attrs.IsControl() || !r.follow && (!before || record.Offset >= end) {
		return nil
	}
	return r.do(Read{Message: messageOf(record, HeaderID), Partition: int(record.Partition), Offset: record.Offset})
}
