package kafka

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"letterhead/internal/broker"
	"letterhead/internal/telemetry"
)

// Limits for unresponsive brokers.
const (
	dialTimeout = 5 * time.Second
	// answerTimeout limits the wait for a response, in addition to what the request itself allows.
	answerTimeout = 5 * time.Second
	// ackTimeout limits how long a broker waits for its replicas.
	ackTimeout = 4 * time.Second
	// Minimum and maximum wait before another attempt of a request.
	retryAfter    = 100 * time.Millisecond
	maxRetryAfter = time.Second
	maxDoublings  = 10 // prevents an overflow before the wait is limited
	// metadataMinAge is the least time between two requests for the leaders of partitions.
	metadataMinAge = 250 * time.Millisecond
)

// ErrUnknownTopic means that the topic is not in the configuration.
var ErrUnknownTopic = errors.New("no such topic")

// Transport is the transport of a broker.Bus.
type Transport struct {
	cfg     Config
	admin   *admin
	records *Records
	lag     *lagGauge
	outage  *outage

	ending context.Context // ends the subscriptions
	end    context.CancelFunc

	mu            sync.Mutex
	closing       bool // no new subscriptions
	closed        bool // no new messages
	producers     map[string]*producer
	subscriptions sync.WaitGroup
	publishing    sync.WaitGroup
	background    sync.WaitGroup
}

var _ broker.Transport = (*Transport)(nil)

// New connects to Kafka, creates missing topics, and logs warnings about topics that differ from the
// configuration. ctx only limits this call. Errors contain no password.
func New(ctx context.Context, cfg Config) (*Transport, error) {
	cfg.setDefaults()
	if err := cfg.Validate(); err != nil {
		return nil, fmt.Errorf("broker configuration: %w", err)
	}
	if cfg.SASL == Plain && !cfg.TLS {
		cfg.Logger.Warn("the password for kafka is sent unencrypted: sasl=plain without tls=true")
	}
	t := &Transport{cfg: cfg, lag: newLagGauge(), producers: map[string]*producer{},
		outage: &outage{logger: cfg.Logger, quiet: settle * cfg.LagEvery}}
	t.records = &Records{t}
	t.ending, t.end = context.WithCancel(context.Background()) // Close ends it
	var err error
	if t.admin, err = newAdmin(cfg, kgo.WithHooks(t.outage)); err != nil {
		return nil, err
	}
	if err = t.admin.ensureTopics(ctx); err != nil {
		err = fmt.Errorf("topics of kafka: %w", err)
	} else if err = telemetry.Register(cfg.Registerer, t.lag); err != nil {
		err = fmt.Errorf("register broker metrics: %w", err)
	}
	if err != nil {
		t.end()
		t.admin.close()
		return nil, err
	}
	t.background.Go(func() { t.watchLag(t.ending) })
	return t, nil
}

func (t *Transport) Publish(ctx context.Context, topic string, messages ...broker.Message) error {
	_, err := t.publish(ctx, topic, messages, crawlRecord)
	return err
}

// Records returns the publisher of the topics of record. It closes with the transport.
func (t *Transport) Records() *Records { return t.records }

// topicName returns the name of a topic with its prefix. Errors: ErrUnknownTopic.
func (t *Transport) topicName(topic string) (string, error) {
	for _, each := range t.cfg.topics() {
		if each.Name == topic {
			return t.cfg.KafkaTopic(topic), nil
		}
	}
	return "", fmt.Errorf("%w: %.120q", ErrUnknownTopic, topic)
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
	ended := make(chan struct{})
	go func() {
		t.shut()
		close(ended)
	}()
	// closeTimeout applies twice: first to the handlers of subscriptions, then to closing connections.
	timer := time.NewTimer(2 * closeTimeout)
	defer timer.Stop()
	select {
	case <-ended:
		return nil
	case <-timer.C:
		return fmt.Errorf("close kafka: the brokers did not respond within %s", 2*closeTimeout)
	}
}

func (t *Transport) shut() {
	t.subscriptions.Wait()
	t.mu.Lock()
	t.closed = true
	t.mu.Unlock()
	t.publishing.Wait()
	t.background.Wait()
	for _, p := range t.producers { // none is added any more
		p.client.Close()
	}
	t.admin.close()
	telemetry.Unregister(t.cfg.Registerer, t.lag)
}

const clientID = "letterhead"

// options returns the options of every client.
func (c Config) options() ([]kgo.Opt, error) {
	secure, err := c.securityOptions()
	if err != nil {
		return nil, err
	}
	return append(secure, kgo.SeedBrokers(c.Brokers...), kgo.ClientID(clientID), kgo.DialTimeout(dialTimeout),
		kgo.RequestTimeoutOverhead(answerTimeout), kgo.MetadataMinAge(metadataMinAge),
		kgo.RetryBackoffFn(func(failures int) time.Duration {
			return min(retryAfter<<min(failures, maxDoublings), maxRetryAfter)
		})), nil
}
