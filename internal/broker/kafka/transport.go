// Package kafka is the broker for distributed installations.
//
// Two clients share one configuration, one set of topics and one partitioner:
//
//   - The crawl topics use watermill-kafka (sarama), as a broker.Transport of a broker.Bus, with
//     consumer groups and an idempotent producer that waits for all in-sync replicas.
//   - The topics of record (ledger, brands), which external systems such as a data warehouse consume,
//     are written in batches with kafka-go (Records). docs/events.md describes the format of their
//     messages.
//
// In Kafka the name of a topic has a prefix. Missing topics are created. An existing topic with
// different settings is used unchanged, with a warning. In particular the number of partitions is not
// increased, because that moves keys to other partitions and breaks their order.
//
// The transport implements the contract of broker.Port, with these details:
//
//   - Publish returns when the in-sync replicas have the messages. If its context ends first, the
//     messages may still arrive.
//   - A dead member is detected after Config.SessionTimeout. Then another member repeats its
//     uncommitted messages, which are a few seconds old at most. When members join or leave,
//     messages whose handlers are running may be handled twice.
//   - A message that no Bus published (without id or key, or too large) is delivered as
//     broker.Unreadable, so that it is dead-lettered. No message can block a partition.
package kafka

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/IBM/sarama"
	"github.com/ThreeDotsLabs/watermill"
	wkafka "github.com/ThreeDotsLabs/watermill-kafka/v3/pkg/kafka"
	"github.com/ThreeDotsLabs/watermill/message"

	"letterhead/internal/broker"
	"letterhead/internal/delay"
	"letterhead/internal/telemetry"
)

// Limits for unresponsive brokers. With them a Publish to a hanging broker fails after about half a
// minute, even without a deadline.
const (
	dialTimeout = 5 * time.Second
	// netTimeout limits the wait for a response. It is longer than ackTimeout, which limits how long
	// the broker waits for its replicas.
	netTimeout      = 5 * time.Second
	ackTimeout      = 4 * time.Second
	metadataTimeout = 10 * time.Second
	// connectAttempts limits how often sarama is started. Each time it requests the producer's id from
	// a random broker. If that broker is down, sarama retries the same broker, by default 50 times.
	connectAttempts = 40
	idRetries       = 2
	// sarama's own retries, 100 ms apart, handle broken connections. The retries of sendOne, with
	// longer waits, handle a moved leader.
	saramaRetries  = 3
	sendRetryAfter = 50 * time.Millisecond
	maxSendRetry   = time.Second
	sendFor        = 20 * time.Second // no attempt starts after this time
	// maxSending limits the messages being sent. A message whose Publish has given up counts until sarama gives up,
	// too.
	maxSending = 256
)

// Memory of a consumer: a partition holds at most channelBuffer messages and two fetches.
const (
	channelBuffer = 16
	fetchBytes    = 256 << 10
	maxFetchBytes = 2 << 20 // above maxMessageBytes: a message too large to fetch would stop its partition
)

// protocolVersion is the oldest supported version of brokers. Kafka 4 rejects older clients.
var protocolVersion = sarama.V2_1_0_0

// ErrUnknownTopic means that the topic is not in the configuration.
var ErrUnknownTopic = errors.New("no such topic")

// Transport is the transport of a broker.Bus.
type Transport struct {
	cfg       Config
	admin     *admin
	publisher *wkafka.Publisher
	sending   chan struct{} // one token per message being sent
	lag       *lagGauge
	outage    *outage

	ending context.Context // ends the subscriptions
	end    context.CancelFunc

	mu            sync.Mutex
	closing       bool // no new subscriptions
	closed        bool // no new messages
	subscriptions sync.WaitGroup
	publishing    sync.WaitGroup
	background    sync.WaitGroup
}

var _ broker.Transport = (*Transport)(nil)

// New connects to Kafka, creates missing topics, and logs warnings about topics that differ from the
// configuration. ctx only limits this call. Errors contain no password.
func New(ctx context.Context, cfg Config) (*Transport, error) {
	admin, err := newAdmin(cfg)
	if err != nil {
		return nil, err
	}
	cfg = admin.cfg
	if cfg.SASL == Plain && !cfg.TLS {
		cfg.Logger.Warn("the password for kafka is sent unencrypted: sasl=plain without tls=true")
	}
	t := &Transport{cfg: cfg, admin: admin, sending: make(chan struct{}, maxSending), lag: newLagGauge(),
		outage: &outage{logger: cfg.Logger, quiet: settle * cfg.LagEvery}}
	t.ending, t.end = context.WithCancel(context.Background()) // Close ends it
	if err := t.open(ctx); err != nil {
		t.end()
		admin.close()
		return nil, err
	}
	t.background.Go(func() { t.watchLag(t.ending) })
	return t, nil
}

func (t *Transport) open(ctx context.Context) error {
	if err := t.admin.ensureTopics(ctx); err != nil {
		return fmt.Errorf("topics of kafka: %w", err)
	}
	config, err := t.cfg.producerConfig()
	if err != nil {
		return err
	}
	// sarama connects here and takes no context.
	connected := make(chan error, 1)
	go func() {
		var err error
		for range connectAttempts {
			t.publisher, err = wkafka.NewPublisher(wkafka.PublisherConfig{
				Brokers: t.cfg.Brokers, Marshaler: format{}, OverwriteSaramaConfig: config,
			}, quietLogger{t.cfg.Logger, t.outage})
			if err == nil || ctx.Err() != nil {
				break
			}
		}
		connected <- err
	}()
	select {
	case err = <-connected:
	case <-ctx.Done():
		go func() { // ends within the limits above
			if <-connected == nil {
				t.publisher.Close()
			}
		}()
		return fmt.Errorf("connect to kafka: %w", ctx.Err())
	}
	if err != nil {
		return fmt.Errorf("connect to kafka: %w", t.cfg.explained(err))
	}
	if err := telemetry.Register(t.cfg.Registerer, t.lag); err != nil {
		return errors.Join(fmt.Errorf("register broker metrics: %w", err), t.publisher.Close())
	}
	return nil
}

func (c Config) clientConfig(base *sarama.Config) (*sarama.Config, error) {
	base.ClientID = clientID
	base.Version = protocolVersion
	base.ChannelBufferSize = channelBuffer
	base.Net.DialTimeout, base.Net.ReadTimeout, base.Net.WriteTimeout = dialTimeout, netTimeout, netTimeout
	base.Metadata.Timeout = metadataTimeout
	base.Metadata.Full = false // do not cache metadata of other topics
	base.Metadata.AllowAutoTopicCreation = false
	base.Metadata.Retry.Backoff = 250 * time.Millisecond
	return base, c.secure(base)
}

// producerConfig modifies watermill's defaults, because a new configuration would replace them.
func (c Config) producerConfig() (*sarama.Config, error) {
	p := wkafka.DefaultSaramaSyncPublisherConfig()
	p.Producer.RequiredAcks = sarama.WaitForAll
	p.Producer.Idempotent = true
	p.Net.MaxOpenRequests = 1 // required for idempotence
	p.Producer.Partitioner = sarama.NewHashPartitioner
	p.Producer.Timeout = ackTimeout
	p.Producer.Retry.Max = saramaRetries
	p.Producer.Transaction.Retry.Max = idRetries
	p.Producer.MaxMessageBytes = maxMessageBytes - 1<<10 // the broker also counts the frame
	return c.clientConfig(p)
}

func (c Config) consumerConfig() (*sarama.Config, error) {
	s := wkafka.DefaultSaramaSubscriberConfig()
	s.Consumer.Offsets.Initial = sarama.OffsetOldest // a new group starts with the oldest message
	s.Consumer.Group.Session.Timeout = c.SessionTimeout
	s.Consumer.Group.Heartbeat.Interval = c.SessionTimeout / 4
	s.Consumer.Group.Rebalance.Timeout = rebalanceTimeout
	s.Consumer.Group.Rebalance.GroupStrategies = []sarama.BalanceStrategy{sarama.NewBalanceStrategyRange()}
	s.Consumer.Fetch.Default = fetchBytes
	s.Consumer.Fetch.Max = maxFetchBytes
	return c.clientConfig(s)
}

// Publish implements broker.Transport. It returns when the context of a message ends.
func (t *Transport) Publish(topic string, messages ...*message.Message) error {
	if len(messages) == 0 {
		return nil
	}
	name, err := t.topicName(topic)
	if err != nil {
		return err
	}
	if err := t.enter(); err != nil {
		return err
	}
	defer t.publishing.Done()
	ctx := messages[0].Context()
	// watermill sends messages one after the other, each with a round trip. Messages with different
	// keys need no order, so they are sent concurrently.
	results := make(chan error, len(messages))
	keys := map[string][]*message.Message{}
	for _, m := range messages {
		keys[broker.KeyOf(m)] = append(keys[broker.KeyOf(m)], m)
	}
	for _, of := range keys {
		go func() { results <- t.send(ctx, name, of) }()
	}
	var errs []error
	for range keys {
		select {
		case err := <-results:
			if err != nil {
				errs = append(errs, err)
			}
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return errors.Join(errs...)
}

// send publishes the messages of one key, in order, and stops at the first that fails.
func (t *Transport) send(ctx context.Context, topic string, messages []*message.Message) error {
	for _, m := range messages {
		if err := delay.Send(ctx, t.sending, struct{}{}); err != nil {
			return err
		}
		err := t.sendOne(ctx, topic, m)
		<-t.sending
		if err != nil {
			return err
		}
	}
	return nil
}

// sendOne publishes one message, with retries for a limited time.
func (t *Transport) sendOne(ctx context.Context, topic string, m *message.Message) error {
	begun, wait := time.Now(), sendRetryAfter
	for {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		err := t.publisher.Publish(topic, m)
		if err == nil || isPermanent(err) {
			return err
		}
		t.outage.failed("publish to "+topic, err)
		if time.Since(begun) > sendFor {
			return fmt.Errorf("%w: %w", broker.ErrUnavailable, err)
		}
		if err := delay.For(ctx, wait); err != nil {
			return err
		}
		wait = min(2*wait, maxSendRetry)
	}
}

// isPermanent reports whether an error is permanent, so that retries are useless.
func isPermanent(err error) bool {
	return slices.ContainsFunc([]error{
		sarama.ErrMessageSizeTooLarge, sarama.ErrTopicAuthorizationFailed, sarama.ErrClusterAuthorizationFailed,
		sarama.ErrInvalidTopic, sarama.ErrShuttingDown, sarama.ErrClosedClient,
	}, func(e error) bool { return errors.Is(err, e) }) || errors.As(err, new(sarama.ConfigurationError))
}

// Records returns the publisher of the topics of record. It closes with the transport.
func (t *Transport) Records() Records { return Records{t} }

// topicName returns the name of a topic with its prefix. Errors: ErrUnknownTopic.
func (t *Transport) topicName(topic string) (string, error) {
	for _, each := range t.cfg.topics() {
		if each.Name == topic {
			return t.cfg.KafkaTopic(topic), nil
		}
	}
	return "", fmt.Errorf("%w: %.120q", ErrUnknownTopic, topic)
}

// enter adds the caller to those that Close waits for, unless new messages are rejected.
func (t *Transport) enter() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.closed {
		return broker.ErrClosed
	}
	t.publishing.Add(1)
	return nil
}

// Close ends all subscriptions and waits for running work, up to a limit that depends on
// closeTimeout. Until the last handler has ended, messages can still be dead-lettered.
func (t *Transport) Close() error {
	t.mu.Lock()
	again := t.closing
	t.closing = true
	t.mu.Unlock()
	if again {
		return nil
	}
	t.end()
	// closeTimeout applies twice: first to the handlers of subscriptions, then to closing connections.
	ctx, cancel := context.WithTimeout(context.Background(), 2*closeTimeout)
	defer cancel()
	err := delay.Await(ctx, t.shut)
	if ctx.Err() != nil {
		return fmt.Errorf("close kafka: the brokers did not respond within %s", 2*closeTimeout)
	}
	return err
}

func (t *Transport) shut() error {
	t.subscriptions.Wait()
	t.mu.Lock()
	t.closed = true
	t.mu.Unlock()
	t.publishing.Wait()
	t.background.Wait()
	err := t.publisher.Close()
	t.admin.close()
	telemetry.Unregister(t.cfg.Registerer, t.lag)
	return err
}

const clientID = "letterhead"

// quietLogger logs watermill's messages at debug level. Its errors belong to an outage, because they concern
// connections, which are re-established.
type quietLogger struct {
	to     *slog.Logger
	outage *outage
}

func (l quietLogger) Error(msg string, err error, _ watermill.LogFields) { l.outage.failed(msg, err) }
func (l quietLogger) Info(msg string, fields watermill.LogFields) {
	l.to.Debug("kafka: "+msg, pairs(fields)...)
}
func (l quietLogger) Debug(string, watermill.LogFields) {}
func (l quietLogger) Trace(string, watermill.LogFields) {}

// With implements watermill.LoggerAdapter. It ignores the fields, which are random ids of watermill.
func (l quietLogger) With(watermill.LogFields) watermill.LoggerAdapter { return l }

func pairs(fields watermill.LogFields) []any {
	var out []any
	for _, key := range []string{"topic", "consumer_group", "kafka_partition", "kafka_partition_offset"} {
		if value, ok := fields[key]; ok {
			out = append(out, key, value)
		}
	}
	return out
}
