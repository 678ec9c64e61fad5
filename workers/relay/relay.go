// Package relay copies work from the event log to the broker.
//
// The log is the outbox: appending a crawl request also publishes it, in one step that cannot fail halfway. A relay
// reads the log once per topic, publishes the topic's messages in the log's order, and remembers its position. An
// unavailable broker or log delays a topic until it is back; a full topic does not delay the others. After a restart a
// relay begins after the last position it saved, so some messages are published twice; consumers detect them.
//
// Only a damaged event, which no consumer could process, is skipped: it is logged and counted. An
// event of a newer release ends Run, because skipping it would lose its work forever.
package relay

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/errgroup"

	"letterhead/domain/account"
	"letterhead/domain/brand"
	"letterhead/domain/usage"
	"letterhead/eventschemas"
	"letterhead/internal/broker"
	"letterhead/internal/checkpoint"
	"letterhead/internal/delay"
	"letterhead/internal/eventlog"
	"letterhead/internal/telemetry"
)

// Limits and defaults.
const (
	// maxBatch limits the messages of one Publish, and DefaultRecordBatch those to the record topics,
	// where a batch costs about as much as a message: large enough to fill a request to each
	// partition, and limited in memory by maxBytes, because brand records may have 64 KiB.
	maxBatch           = 256
	DefaultRecordBatch = 4096
	// recordGather is the pause of a record topic after a publish that has reached the end of the log. Several times a
	// second is soon enough for consumers, and a request to each partition costs all brokers about as much with one
	// record as with a hundred.
	recordGather = 100 * time.Millisecond
	// maxBytes limits the payloads of one Publish.
	maxBytes = 8 << 20
	// DefaultSaveEvery is the minimum interval between saves of a position while events flow.
	DefaultSaveEvery = time.Second
	// DefaultRetryAfter is the wait after a failure; it doubles up to maxRetryAfter.
	DefaultRetryAfter = 100 * time.Millisecond
	maxRetryAfter     = 30 * time.Second
	// maxLiveRetryAfter is the longest wait of live work, for which a client waits some seconds at most.
	maxLiveRetryAfter = time.Second
)

// Publisher is the part of the broker that a relay uses.
type Publisher interface {
	Publish(ctx context.Context, topic string, messages ...broker.Message) error
}

// Topic is one topic of the broker and the part of the log that belongs to it.
type Topic struct {
	Name string
	// Filter selects the events that Message gets.
	Filter eventlog.Filter
	// Message converts an event to a message; ok is false if it belongs to another topic. After
	// eventschemas.ErrDamaged the event is skipped, after ErrUnknownType and ErrUnknownVersion the
	// relay ends; after any other error the event is retried.
	Message func(r eventlog.Recorded) (m broker.Message, ok bool, err error)
	// MaxRetryAfter is the longest wait after a failure; 30 s when 0.
	MaxRetryAfter time.Duration
	// To is the publisher of the topic's messages; nil is the Relay's broker.
	To Publisher
	// Batch is the maximum number of messages per publish; 256 when 0.
	Batch int
	// Gather is the pause after a publish at the end of the log, in which the messages of the next one gather.
	Gather time.Duration
}

// Checkpoint is the name under which a topic's position is saved.
func (t Topic) Checkpoint() string { return "relay " + t.Name }

// CrawlTopics returns the two topics of crawl work: by the priority of the request, keyed by the brand's stream.
func CrawlTopics() []Topic {
	of := func(topic, priority string, maxRetryAfter time.Duration) Topic {
		return Topic{
			Name:          topic,
			MaxRetryAfter: maxRetryAfter,
			Filter:        eventlog.Filter{EventTypes: []string{eventschemas.CrawlRequested{}.EventType()}},
			Message: func(r eventlog.Recorded) (broker.Message, bool, error) {
				ev, err := eventlog.Decode(&r, eventschemas.Decode)
				if err != nil {
					return broker.Message{}, false, err
				}
				request, ok := ev.(eventschemas.CrawlRequested)
				if !ok || request.Priority != priority {
					return broker.Message{}, false, nil
				}
				// The stream's name is never empty, whatever the event's body contains; without a key
				// the broker would reject the message forever.
				return broker.Event(r, r.Stream), true, nil
			},
		}
	}
	return []Topic{of(broker.CrawlLive, brand.PriorityLive, maxLiveRetryAfter),
		of(broker.CrawlRefresh, brand.PriorityBulk, maxRetryAfter)}
}

// RecordTopics returns the two record topics: all events of account and usage streams (ledger), and all events of brand
// streams (brands), keyed by their streams. They have their own publisher. Events are copied unchanged, including those
// unknown to this release. No personal data is copied, because events contain none.
func RecordTopics(to Publisher) []Topic {
	of := func(topic string, prefixes ...string) Topic {
		return Topic{
			Name: topic, To: to, Batch: DefaultRecordBatch, Gather: recordGather,
			Filter:  eventlog.Filter{StreamPrefixes: prefixes},
			Message: func(r eventlog.Recorded) (broker.Message, bool, error) { return broker.Record(r), true, nil },
		}
	}
	return []Topic{of(broker.Ledger, LedgerStreams()...), of(broker.Brands, BrandStreams()...)}
}

// LedgerStreams returns the prefixes of the streams whose events are in the ledger topic.
func LedgerStreams() []string { return []string{account.StreamPrefix, usage.StreamPrefix} }

// BrandStreams returns the prefixes of the streams whose events are in the brands topic.
func BrandStreams() []string { return []string{brand.StreamPrefix} }

// Lead runs do while this process is the leader for the name, and again whenever it becomes the leader again, until ctx
// ends (returning nil) or do returns before its context ended (returning its error). See sqlstore.Store.Lead.
type Lead func(ctx context.Context, name string, do func(ctx context.Context) error) error

// Config configures a Relay.
type Config struct {
	Topics []Topic // CrawlTopics when nil
	// Lead ensures that one node copies a topic at a time, by the name of its checkpoint; nil: this one always does. It
	// only avoids repeats: two nodes that copy the same topic for a while publish some messages twice.
	Lead       Lead
	SaveEvery  time.Duration // DefaultSaveEvery
	RetryAfter time.Duration // DefaultRetryAfter

	Logger     *slog.Logger          // nil: none
	Registerer prometheus.Registerer // nil: none
}

func (c *Config) setDefaults() {
	if c.Topics == nil {
		c.Topics = CrawlTopics()
	}
	c.SaveEvery = cmp.Or(c.SaveEvery, DefaultSaveEvery)
	c.RetryAfter = cmp.Or(c.RetryAfter, DefaultRetryAfter)
	if c.Lead == nil {
		c.Lead = func(ctx context.Context, _ string, do func(context.Context) error) error { return do(ctx) }
	}
	c.Logger = cmp.Or(c.Logger, slog.New(slog.DiscardHandler))
}

// Relay copies the topics of its configuration.
type Relay struct {
	cfg         Config
	log         checkpoint.Log
	to          Publisher
	checkpoints checkpoint.Store
	published   *prometheus.CounterVec
	position    *prometheus.GaugeVec
	failures    *prometheus.CounterVec
	skipped     *prometheus.CounterVec
}

// New returns a Relay.
func New(cfg Config, log checkpoint.Log, to Publisher, checkpoints checkpoint.Store) (*Relay, error) {
	cfg.setDefaults()
	r := &Relay{
		cfg: cfg, log: log, to: to, checkpoints: checkpoints,
		published: telemetry.Counters("letterhead_relay_messages_total",
			"Messages published, by topic (label lane).", "lane"),
		position: telemetry.Gauges("letterhead_relay_position",
			"Position of the log up to which a topic was published.", "lane"),
		failures: telemetry.Counters("letterhead_relay_failures_total",
			"Restarts of a topic's relay after a failure.", "lane"),
		skipped: telemetry.Counters("letterhead_relay_skipped_total",
			"Damaged events that were skipped, by topic (label lane).", "lane"),
	}
	if err := telemetry.Register(cfg.Registerer, r.published, r.position, r.failures, r.skipped); err != nil {
		return nil, fmt.Errorf("register relay metrics: %w", err)
	}
	return r, nil
}

// Run copies all topics until ctx ends, then returns nil. A topic that fails continues where it was,
// after a growing wait. An error that waiting cannot cure ends all topics.
//
// Errors: eventlog.ErrClosed, broker.ErrClosed; eventschemas.ErrUnknownType and ErrUnknownVersion if
// the log was written by a newer release.
func (r *Relay) Run(ctx context.Context) error {
	// Half a relay would look healthy, so the first topic that ends stops the others.
	group, ctx := errgroup.WithContext(ctx)
	for _, topic := range r.cfg.Topics {
		group.Go(func() error {
			// A new reader each time: another leader may have moved the checkpoint.
			return r.cfg.Lead(ctx, topic.Checkpoint(),
				func(ctx context.Context) error { return r.newReader(topic).keep(ctx) })
		})
	}
	return group.Wait()
}

type reader struct {
	*Relay
	topic Topic
	done  checkpoint.Checkpoint // everything up to it is safely in the broker
}

func (r *Relay) newReader(topic Topic) *reader {
	topic.MaxRetryAfter = cmp.Or(topic.MaxRetryAfter, maxRetryAfter)
	if topic.To == nil {
		topic.To = r.to
	}
	topic.Batch = cmp.Or(topic.Batch, maxBatch)
	return &reader{r, topic, checkpoint.Checkpoint{Name: topic.Checkpoint(), Store: r.checkpoints,
		Every: r.cfg.SaveEvery, Logger: r.cfg.Logger}}
}

// keep copies the topic, retrying after failures.
func (r *reader) keep(ctx context.Context) error {
	defer r.done.SaveAtLast(ctx)
	first := min(r.cfg.RetryAfter, r.topic.MaxRetryAfter)
	wait, said := first, ""
	for {
		before := r.done.At
		err := r.copy(ctx)
		if ctx.Err() != nil {
			return nil
		}
		if permanent(err) {
			return fmt.Errorf("relay %s: %w", r.topic.Name, err)
		}
		r.failures.WithLabelValues(r.topic.Name).Inc()
		if r.done.At > before {
			wait, said = first, "" // progress was made in the meantime
		}
		level := slog.LevelDebug
		if text := err.Error(); text != said && !errors.Is(err, broker.ErrUnavailable) { // repeats say nothing new
			level, said = slog.LevelError, text
		}
		r.cfg.Logger.Log(ctx, level, "relay starts again", "topic", r.topic.Name, "wait", wait, "error", err)
		if delay.For(ctx, delay.Jittered(wait)) != nil {
			return nil
		}
		wait = min(2*wait, r.topic.MaxRetryAfter)
	}
}

// permanent reports whether retrying cannot help.
func permanent(err error) bool {
	return errors.Is(err, eventlog.ErrClosed) || errors.Is(err, broker.ErrClosed) ||
		errors.Is(err, eventschemas.ErrUnknownType) || errors.Is(err, eventschemas.ErrUnknownVersion)
}

// copy reads the log and publishes, until an error occurs or ctx ends.
func (r *reader) copy(ctx context.Context) error {
	if err := r.done.Begin(ctx, r.log); err != nil {
		return err
	}
	subscription, err := r.log.Subscribe(ctx, r.done.At, r.topic.Filter)
	if err != nil {
		return fmt.Errorf("subscribe after position %d: %w", r.done.At, err)
	}
	defer subscription.Close()
	for {
		batch, err := subscription.Next(ctx)
		if err != nil {
			return fmt.Errorf("read after position %d: %w", r.done.At, err)
		}
		if err := r.publish(ctx, batch.Events); err != nil {
			return err
		}
		r.done.At = max(r.done.At, batch.Position)
		r.position.WithLabelValues(r.topic.Name).Set(float64(r.done.At))
		r.done.SaveInTime(ctx)
		if batch.Live && len(batch.Events) > 0 {
			if err := delay.For(ctx, r.topic.Gather); err != nil {
				return err
			}
		}
	}
}

// publish sends a batch's messages to the broker, some at a time, and advances the position after each
// part that is safe there.
func (r *reader) publish(ctx context.Context, events []eventlog.Recorded) error {
	var part []broker.Message
	bytes := 0
	flush := func(upTo eventlog.Position) error {
		if len(part) > 0 {
			if err := r.topic.To.Publish(ctx, r.topic.Name, part...); err != nil {
				return fmt.Errorf("publish up to position %d: %w", upTo, err)
			}
			r.published.WithLabelValues(r.topic.Name).Add(float64(len(part)))
			part, bytes = part[:0], 0
		}
		r.done.At = upTo
		return nil
	}
	looked := r.done.At
	for _, ev := range events {
		m, ok, err := r.topic.Message(ev)
		if err != nil {
			if err := flush(looked); err != nil { // earlier messages need not wait
				return err
			}
			if err := r.skip(ev, err); err != nil {
				return err
			}
			looked = r.done.At
			continue
		}
		looked = ev.Position
		if ok {
			part = append(part, m)
			bytes += len(m.Payload)
		}
		if len(part) == r.topic.Batch || bytes >= maxBytes {
			if err := flush(looked); err != nil {
				return err
			}
		}
	}
	return flush(looked)
}

// skip advances past an event that no release can read, and returns the error of any other.
func (r *reader) skip(ev eventlog.Recorded, err error) error {
	if !errors.Is(err, eventschemas.ErrDamaged) {
		return fmt.Errorf("%s at position %d: %w", ev.Type, ev.Position, err)
	}
	r.cfg.Logger.Error("a damaged event is skipped", "topic", r.topic.Name, "stream", ev.Stream,
		"revision", ev.Revision, "error", err)
	r.skipped.WithLabelValues(r.topic.Name).Inc()
	r.done.At = ev.Position
	return nil
}
