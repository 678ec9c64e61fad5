package kafka

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
)

const (
	// askTimeout limits one request to the cluster.
	askTimeout = 10 * time.Second
	// topicWait is the interval between checks whether a topic exists.
	topicWait = 100 * time.Millisecond
)

// admin administers the cluster.
type admin struct {
	cfg Config
	*kadm.Client
}

func newAdmin(cfg Config, more ...kgo.Opt) (*admin, error) {
	opts, err := cfg.options()
	if err != nil {
		return nil, err
	}
	client, err := kgo.NewClient(append(opts, more...)...)
	if err != nil {
		return nil, err
	}
	return &admin{cfg, kadm.NewClient(client)}, nil
}

func (a *admin) close() { a.Client.Close() }

// explained names the setting if the broker refused the login. Some brokers then only end the connection, as they also
// do when they stop.
func (c Config) explained(err error) error {
	const correct = "correct the user, the password or sasl= in LETTERHEAD_BROKER"
	switch {
	case errors.Is(err, kerr.SaslAuthenticationFailed):
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
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	topics, err := a.ListTopics(ctx, names...)
	if err != nil {
		return nil, fmt.Errorf("list topics: %w", a.cfg.explained(err))
	}
	out, existing := map[string]*topicState{}, []string{}
	for _, name := range names {
		state := &topicState{configs: map[string]string{}}
		if out[name] = state; len(topics[name].Partitions) == 0 {
			continue
		}
		existing = append(existing, name)
		state.exists, state.partitions, state.replication = true, len(topics[name].Partitions), maxReplication+1
		for _, p := range topics[name].Partitions {
			state.replication = min(state.replication, len(p.Replicas))
			if p.Leader < 0 {
				state.offline++
			}
		}
	}
	if len(existing) == 0 {
		return out, nil
	}
	described, err := a.DescribeTopicConfigs(ctx, existing...)
	if err != nil {
		return nil, fmt.Errorf("read the settings of topics: %w", err)
	}
	for _, topic := range described {
		for _, entry := range topic.Configs {
			out[topic.Name].configs[entry.Key] = entry.MaybeValue()
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
	topics := a.cfg.topics()
	names := make([]string, len(topics))
	for i, each := range topics {
		names[i] = a.cfg.KafkaTopic(each.Name)
	}
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
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	replication := int16(-1)
	if a.cfg.Replication > 0 {
		replication = int16(a.cfg.Replication)
	}
	var errs []error
	for _, each := range topics {
		settings := map[string]*string{}
		for name, value := range a.cfg.wanted(each) {
			settings[name] = &value
		}
		name := a.cfg.KafkaTopic(each.Name)
		_, err := a.CreateTopic(ctx, int32(each.Partitions), replication, settings, name)
		if err != nil && !errors.Is(err, kerr.TopicAlreadyExists) { // another node created it first
			errs = append(errs, fmt.Errorf("create topic %s: %w", name, err))
		}
	}
	return errors.Join(errs...)
}

// awaitTopics waits until all topics are usable. Creating a topic returns before every broker knows it.
func (a *admin) awaitTopics(ctx context.Context, names []string) error {
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	tick := time.NewTicker(topicWait)
	defer tick.Stop()
	for {
		states, err := a.states(ctx, names)
		ready := err == nil
		for _, s := range states {
			ready = ready && s.exists && s.offline == 0
		}
		if ready {
			// Leaders reject requests for offsets until they know that they lead, which may be later than other brokers
			// know it.
			_, err = a.extents(ctx, names)
			ready = err == nil
		}
		if ready {
			return nil
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return errors.Join(fmt.Errorf("topics were created but are not available yet: %w", ctx.Err()), err)
		}
	}
}
