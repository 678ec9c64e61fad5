package kafka

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"time"

	"github.com/IBM/sarama"
	kafkago "github.com/segmentio/kafka-go"

	"letterhead/internal/delay"
)

const (
	// askTimeout limits one request to the cluster.
	askTimeout = 10 * time.Second
	// metadataTTL is the maximum age of kafka-go's cached metadata. For that long, requests may go to a former leader.
	metadataTTL = 3 * time.Second
	// topicWait is the interval between checks whether a topic exists.
	topicWait = 100 * time.Millisecond
)

type admin struct {
	cfg       Config
	transport *kafkago.Transport
	client    *kafkago.Client
}

// newAdmin sets the defaults of a configuration, which it validates.
func newAdmin(cfg Config) (*admin, error) {
	cfg.setDefaults()
	if err := cfg.Validate(); err != nil {
		return nil, fmt.Errorf("broker configuration: %w", err)
	}
	secure, err := cfg.tlsConfig()
	if err != nil {
		return nil, err
	}
	mechanism, err := cfg.mechanism()
	if err != nil {
		return nil, err
	}
	names := cfg.topicNames()
	dialer := &net.Dialer{Timeout: dialTimeout}
	transport := &kafkago.Transport{
		Dial: dialer.DialContext, DialTimeout: dialTimeout, TLS: secure, SASL: mechanism, ClientID: clientID,
		MetadataTTL: metadataTTL, MetadataTopics: names,
	}
	return &admin{cfg: cfg, transport: transport,
		client: &kafkago.Client{Addr: kafkago.TCP(cfg.Brokers...), Transport: transport}}, nil
}

func (a *admin) close() { a.transport.CloseIdleConnections() }

// ask sends one request and returns when ctx ends, although kafka-go may ignore the context while it
// waits for a connection.
func ask[Q, T any](ctx context.Context, limit time.Duration, send func(context.Context, Q) (T, error),
	request Q) (value T, err error) {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	answer := new(T) // which send may write after ask has returned
	if err := delay.Await(ctx, func() (err error) { *answer, err = send(ctx, request); return err }); err != nil {
		return value, err
	}
	return *answer, nil
}

// explained names the setting if the broker refused the login. Some brokers then only end the connection, as they also
// do when they stop.
func (c Config) explained(err error) error {
	const correct = "correct the user, the password or sasl= in LETTERHEAD_BROKER"
	switch {
	case errors.Is(err, kafkago.SASLAuthenticationFailed), errors.Is(err, sarama.ErrSASLAuthenticationFailed):
		return fmt.Errorf("login failed: %s: %w", correct, err)
	case c.SASL != "" && (errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF)):
		return fmt.Errorf("the broker ended the connection; if it does so again, %s: %w", correct, err)
	}
	return err
}

// topicState is the state of a topic in the cluster.
type topicState struct {
	exists      bool
	partitions  int
	replication int // the minimum over its partitions
	offline     int // partitions without a leader
	configs     map[string]string
}

// Settings of a topic, as Kafka names them.
const (
	settingMinInsync  = "min.insync.replicas"
	settingRetention  = "retention.ms"
	settingMaxMessage = "max.message.bytes"
)

func (a *admin) states(ctx context.Context, names []string) (map[string]*topicState, error) {
	meta, err := ask(ctx, askTimeout, a.client.Metadata, &kafkago.MetadataRequest{Topics: names})
	if err != nil {
		return nil, fmt.Errorf("list topics: %w", a.cfg.explained(err))
	}
	out := map[string]*topicState{}
	for _, name := range names {
		out[name] = &topicState{configs: map[string]string{}}
	}
	var resources []kafkago.DescribeConfigRequestResource
	for _, topic := range meta.Topics {
		state := out[topic.Name]
		if state == nil || topic.Error != nil && !errors.Is(topic.Error, kafkago.LeaderNotAvailable) ||
			len(topic.Partitions) == 0 {
			continue
		}
		state.exists, state.partitions, state.replication = true, len(topic.Partitions), maxReplication+1
		for _, p := range topic.Partitions {
			state.replication = min(state.replication, len(p.Replicas))
			if p.Leader.Host == "" {
				state.offline++
			}
		}
		resources = append(resources, kafkago.DescribeConfigRequestResource{
			ResourceType: kafkago.ResourceTypeTopic, ResourceName: topic.Name,
			ConfigNames: []string{settingMinInsync, settingRetention, settingMaxMessage},
		})
	}
	if len(resources) == 0 {
		return out, nil
	}
	described, err := ask(ctx, askTimeout, a.client.DescribeConfigs, &kafkago.DescribeConfigsRequest{Resources: resources})
	if err != nil {
		return nil, fmt.Errorf("read the settings of topics: %w", err)
	}
	for _, r := range described.Resources {
		for _, entry := range r.ConfigEntries {
			out[r.ResourceName].configs[entry.ConfigName] = entry.ConfigValue
		}
	}
	return out, nil
}

// wanted returns the configured settings of a topic.
func (c Config) wanted(topic Topic) map[string]string {
	out := map[string]string{settingMaxMessage: strconv.Itoa(maxMessageBytes)}
	if c.MinInsync > 0 {
		out[settingMinInsync] = strconv.Itoa(c.MinInsync)
	}
	switch {
	case topic.Retention == Forever:
		out[settingRetention] = "-1"
	case topic.Retention > 0:
		out[settingRetention] = strconv.FormatInt(topic.Retention.Milliseconds(), 10)
	}
	return out
}

// differences describes how a topic in the cluster differs from its configuration.
func (c Config) differences(topic Topic, s *topicState) []string {
	if !s.exists {
		return []string{"it is missing"}
	}
	var out []string
	if s.offline > 0 {
		out = append(out, fmt.Sprintf("%d of %d partitions have no leader", s.offline, s.partitions))
	}
	if s.partitions != topic.Partitions {
		out = append(out, fmt.Sprintf("it has %d partitions, but %d are configured", s.partitions, topic.Partitions))
	}
	if c.Replication > 0 && s.replication != c.Replication {
		out = append(out, fmt.Sprintf("it has %d replicas, but %d are configured", s.replication, c.Replication))
	}
	want := c.wanted(topic)
	for _, name := range []string{settingMinInsync, settingRetention, settingMaxMessage} {
		have, known := s.configs[name]
		if want[name] == "" || !known || have == want[name] {
			continue
		}
		if name == settingMaxMessage && atLeast(have, want[name]) {
			continue // a larger limit is fine
		}
		out = append(out, fmt.Sprintf("%s is %s, but %s is configured", name, have, want[name]))
	}
	return out
}

func atLeast(have, want string) bool {
	h, err1 := strconv.ParseInt(have, 10, 64)
	w, err2 := strconv.ParseInt(want, 10, 64)
	return err1 == nil && err2 == nil && h >= w
}

// ensureTopics creates missing topics, waits until all exist, and logs warnings about topics that
// differ from the configuration.
func (a *admin) ensureTopics(ctx context.Context) error {
	topics, names := a.cfg.topics(), a.cfg.topicNames()
	states, err := a.states(ctx, names)
	if err != nil {
		return err
	}
	var missing []Topic
	for i, each := range topics {
		state := states[names[i]]
		if !state.exists {
			missing = append(missing, each)
			continue
		}
		if diff := a.cfg.differences(each, state); len(diff) > 0 {
			a.cfg.Logger.Warn("topic differs from its configuration and is used unchanged", "topic", names[i],
				"differences", strings.Join(diff, "; "))
		}
	}
	if len(missing) == 0 {
		return nil
	}
	if err := a.create(ctx, missing); err != nil {
		return err
	}
	return a.awaitTopics(ctx, names)
}

func (a *admin) create(ctx context.Context, topics []Topic) error {
	request := &kafkago.CreateTopicsRequest{}
	for _, each := range topics {
		topic := kafkago.TopicConfig{Topic: a.cfg.KafkaTopic(each.Name), NumPartitions: each.Partitions,
			ReplicationFactor: cmp.Or(a.cfg.Replication, -1)}
		for name, value := range a.cfg.wanted(each) {
			topic.ConfigEntries = append(topic.ConfigEntries, kafkago.ConfigEntry{ConfigName: name, ConfigValue: value})
		}
		request.Topics = append(request.Topics, topic)
	}
	done, err := ask(ctx, askTimeout, a.client.CreateTopics, request)
	if err != nil {
		return fmt.Errorf("create topics: %w", err)
	}
	var errs []error
	for name, err := range done.Errors {
		if err != nil && !errors.Is(err, kafkago.TopicAlreadyExists) { // another node created it first
			errs = append(errs, fmt.Errorf("create topic %s: %w", name, err))
		}
	}
	return errors.Join(errs...)
}

// awaitTopics waits until all topics are usable. Creating a topic returns before every broker knows it.
func (a *admin) awaitTopics(ctx context.Context, names []string) error {
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	for {
		states, err := a.states(ctx, names)
		ready := err == nil
		partitions := map[string]int{}
		for name, s := range states {
			ready = ready && s.exists && s.offline == 0
			partitions[name] = s.partitions
		}
		if ready {
			// Leaders reject requests for offsets until they know that they lead, which may be later than other brokers
			// know it.
			_, err = a.extents(ctx, partitions)
			ready = err == nil
		}
		if ready {
			return nil
		}
		if delay.For(ctx, topicWait) != nil {
			return errors.Join(fmt.Errorf("topics were created but are not available yet: %w", ctx.Err()), err)
		}
	}
}
