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
	"fmt"
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"letterhead/domain/account"
	"letterhead/domain/brand"
	"letterhead/domain/usage"
	"letterhead/eventschemas"
	"letterhead/internal/broker"
	"letterhead/internal/checkpoint"
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
