package kafka

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"net"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"

	"letterhead/internal/broker"
)

// Report is the result of Inspect.
type Report struct {
	Brokers []BrokerReport `json:"brokers"`
	Topics  []TopicReport  `json:"topics"`
	Groups  []GroupLag     `json:"groups"`
}

// BrokerReport describes one of the configured brokers.
type BrokerReport struct {
	Address string `json:"address"`
	Problem string `json:"problem,omitempty"` // empty if a connection succeeded
}

// TopicReport describes one topic.
type TopicReport struct {
	Name        string `json:"lane"`
	KafkaTopic  string `json:"topic"`
	Partitions  int    `json:"partitions"`
	Replication int    `json:"replication"`
	// MinInsync, Retention (ms, -1 for unlimited) and MaxMessage (bytes) are as the cluster reports them,
	// or empty if it does not.
	MinInsync  string `json:"min_insync_replicas"`
	Retention  string `json:"retention_ms"`
	MaxMessage string `json:"max_message_bytes"`
	// Messages is the number of messages in the topic. In a dead-letter topic each of them waits for an operator.
	Messages int64    `json:"messages"`
	Problems []string `json:"problems,omitempty"`
}

// GroupLag is the lag of a consumer group in a topic.
type GroupLag struct {
	Group    string `json:"group"`
	Topic    string `json:"lane"`
	Messages int64  `json:"messages_behind"`
}

// Problems returns all problems in the report, each as a sentence.
func (r Report) Problems() []string {
	var out []string
	for _, b := range r.Brokers {
		if b.Problem != "" {
			out = append(out, fmt.Sprintf("broker %s: %s", b.Address, b.Problem))
		}
	}
	for _, t := range r.Topics {
		for _, p := range t.Problems {
			out = append(out, fmt.Sprintf("topic %s: %s", t.KafkaTopic, p))
		}
	}
	return out
}

// Inspect examines the cluster without changing it. It reports which brokers are reachable, whether
// topics match their configuration, and how far groups lag behind. It fails only if no broker responds.
// The report never contains a password.
func Inspect(ctx context.Context, cfg Config) (Report, error) {
	cfg.setDefaults()
	if err := cfg.Validate(); err != nil {
		return Report{}, fmt.Errorf("broker configuration: %w", err)
	}
	report := Report{Brokers: reach(ctx, cfg.Brokers)}
	a, err := newAdmin(cfg)
	if err != nil {
		return report, err
	}
	defer a.close()
	var names []string
	for _, each := range cfg.topics() {
		names = append(names, cfg.KafkaTopic(each.Name))
	}
	states, err := a.states(ctx, names)
	if err != nil {
		return report, fmt.Errorf("inspect kafka: %w", err)
	}
	var existing []string
	for name, s := range states {
		if s.exists {
			existing = append(existing, name)
		}
	}
	extents, err := a.extents(ctx, existing)
	if err != nil {
		return report, fmt.Errorf("inspect kafka: %w", err)
	}
	for _, each := range cfg.topics() {
		report.Topics = append(report.Topics,
			a.topicReport(each, states[cfg.KafkaTopic(each.Name)], extents[cfg.KafkaTopic(each.Name)]))
	}
	if report.Groups, err = a.lags(ctx, extents, nil); err != nil {
		return report, fmt.Errorf("inspect kafka: %w", err)
	}
	return report, nil
}

func (a *admin) topicReport(topic Topic, s *topicState, e []extent) TopicReport {
	out := TopicReport{
		Name: topic.Name, KafkaTopic: a.cfg.KafkaTopic(topic.Name), Partitions: s.partitions,
		Replication: s.replication, MinInsync: s.configs[settingMinInsync], Retention: s.configs[settingRetention],
		MaxMessage: s.configs[settingMaxMessage], Problems: a.cfg.differences(topic, s),
	}
	for _, p := range e {
		out.Messages += p.end - p.first
	}
	if out.Messages > 0 && strings.HasSuffix(topic.Name, broker.DeadLetterTopic("")) {
		out.Problems = append(out.Problems,
			fmt.Sprintf("%d messages could not be handled and were dead-lettered", out.Messages))
	}
	return out
}

// reach connects to all addresses concurrently.
func reach(ctx context.Context, addresses []string) []BrokerReport {
	ctx, cancel := context.WithTimeout(ctx, dialTimeout)
	defer cancel()
	out := make([]BrokerReport, len(addresses))
	var all sync.WaitGroup
	for i, address := range addresses {
		all.Go(func() {
			out[i].Address = address
			conn, err := new(net.Dialer).DialContext(ctx, "tcp", address)
			if err != nil {
				out[i].Problem = err.Error()
				return
			}
			conn.Close()
		})
	}
	all.Wait()
	return out
}

// extent is the range of offsets in a partition, from first up to but excluding end.
type extent struct {
	partition  int32
	first, end int64
}

// extents returns the extents of the partitions of topics.
func (a *admin) extents(ctx context.Context, topics []string) (map[string][]extent, error) {
	out := map[string][]extent{}
	if len(topics) == 0 {
		return out, nil
	}
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	starts, err := a.ListStartOffsets(ctx, topics...)
	if err = cmp.Or(err, starts.Error()); err != nil {
		return nil, fmt.Errorf("request offsets: %w", err)
	}
	ends, err := a.ListEndOffsets(ctx, topics...)
	if err = cmp.Or(err, ends.Error()); err != nil {
		return nil, fmt.Errorf("request offsets: %w", err)
	}
	starts.Each(func(first kadm.ListedOffset) {
		end, _ := ends.Lookup(first.Topic, first.Partition)
		out[first.Topic] = append(out[first.Topic], extent{first.Partition, first.Offset, end.Offset})
	})
	return out, nil
}

// maxGroups limits the groups that are inspected.
const maxGroups = 256

// subscription is a subscription of this process.
type subscription struct{ topic, group string }

// lags measures the lag of the groups whose names have the configured prefix, by their committed offsets. also lists
// groups whose lag counts from the beginning of a topic if they have not committed an offset.
func (a *admin) lags(ctx context.Context, extents map[string][]extent, also []subscription) ([]GroupLag, error) {
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	groups, err := a.groups(ctx, also)
	if err != nil {
		return nil, err
	}
	var out []GroupLag
	for _, group := range groups {
		committed, err := a.FetchOffsets(ctx, a.cfg.TopicPrefix+group)
		if err != nil {
			return nil, fmt.Errorf("request the offsets of group %s: %w", group, err)
		}
		for _, each := range a.cfg.topics() {
			name := a.cfg.KafkaTopic(each.Name)
			behind, known := lag(extents[name], committed[name])
			if known || slices.Contains(also, subscription{each.Name, group}) {
				out = append(out, GroupLag{Group: group, Topic: each.Name, Messages: behind})
			}
		}
	}
	return out, nil
}

// lag returns the number of messages that a group still has to read from a topic. known is false if the
// group has never committed an offset of the topic.
func lag(extents []extent, committed map[int32]kadm.OffsetResponse) (behind int64, known bool) {
	for _, e := range extents {
		at := int64(0)
		if p, ok := committed[e.partition]; ok && p.At >= 0 && p.Err == nil {
			at, known = p.At, true
		}
		behind += max(0, e.end-max(e.first, at))
	}
	return behind, known
}

// groups returns the names of the groups that have the configured prefix, without the prefix.
func (a *admin) groups(ctx context.Context, also []subscription) ([]string, error) {
	all, err := a.ListGroups(ctx)
	if err != nil {
		return nil, fmt.Errorf("list consumer groups: %w", err)
	}
	seen := map[string]bool{}
	for _, s := range also {
		seen[s.group] = true
	}
	for _, g := range all.Groups() {
		if name, ours := strings.CutPrefix(g, a.cfg.TopicPrefix); ours && len(seen) < maxGroups {
			seen[name] = true
		}
	}
	return slices.Sorted(maps.Keys(seen)), nil
}

// currentLags measures the lag of all groups now.
func (a *admin) currentLags(ctx context.Context, also []subscription) ([]GroupLag, error) {
	var names []string
	for _, each := range a.cfg.topics() {
		names = append(names, a.cfg.KafkaTopic(each.Name))
	}
	existing, err := a.existing(ctx, names)
	if err != nil {
		return nil, err
	}
	extents, err := a.extents(ctx, existing)
	if err != nil {
		return nil, err
	}
	return a.lags(ctx, extents, also)
}

// existing returns the names of the topics that exist.
func (a *admin) existing(ctx context.Context, names []string) ([]string, error) {
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	topics, err := a.ListTopics(ctx, names...)
	if err != nil {
		return nil, fmt.Errorf("list topics: %w", a.cfg.explained(err))
	}
	return slices.DeleteFunc(names, func(name string) bool { return len(topics[name].Partitions) == 0 }), nil
}

// watchLag updates the lag gauge until ctx ends.
func (t *Transport) watchLag(ctx context.Context) {
	tick := time.NewTicker(t.cfg.LagEvery)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
		lags, err := t.admin.currentLags(ctx, t.lag.subscriptions())
		if err != nil {
			// Remove the last measurement, which could hide a growing lag.
			t.lag.set(nil)
			if ctx.Err() == nil {
				t.outage.failed("measure the lag", err)
			}
			continue
		}
		t.lag.set(lags)
		t.outage.measured()
	}
}
