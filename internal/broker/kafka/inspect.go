package kafka

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	kafkago "github.com/segmentio/kafka-go"

	"letterhead/internal/broker"
	"letterhead/internal/delay"
	"letterhead/internal/telemetry"
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
	a, err := newAdmin(cfg)
	if err != nil {
		return Report{}, err
	}
	defer a.close()
	cfg = a.cfg
	report := Report{Brokers: reach(ctx, cfg.Brokers)}
	states, err := a.states(ctx, cfg.topicNames())
	if err != nil {
		return report, fmt.Errorf("inspect kafka: %w", err)
	}
	existing := map[string]int{}
	for name, s := range states {
		if s.exists {
			existing[name] = s.partitions
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
	partition  int
	first, end int64
}

// extents returns the extents of topics. Its argument maps their names to their numbers of partitions.
func (a *admin) extents(ctx context.Context, topics map[string]int) (map[string][]extent, error) {
	request := &kafkago.ListOffsetsRequest{Topics: map[string][]kafkago.OffsetRequest{}}
	for name, partitions := range topics {
		for p := range partitions {
			request.Topics[name] = append(request.Topics[name], kafkago.FirstOffsetOf(p), kafkago.LastOffsetOf(p))
		}
	}
	out := map[string][]extent{}
	if len(request.Topics) == 0 {
		return out, nil
	}
	answer, err := ask(ctx, askTimeout, a.client.ListOffsets, request)
	if err != nil {
		return nil, fmt.Errorf("request offsets: %w", err)
	}
	for name, partitions := range answer.Topics {
		for _, p := range partitions {
			if p.Error != nil {
				return nil, fmt.Errorf("request offsets of %s, partition %d: %w", name, p.Partition, p.Error)
			}
			out[name] = append(out[name], extent{p.Partition, p.FirstOffset, p.LastOffset})
		}
		slices.SortFunc(out[name], func(a, b extent) int { return a.partition - b.partition })
	}
	return out, nil
}

const maxGroups = 256

type subscription struct{ topic, group string }

// lags measures the lag of the groups whose names have the configured prefix, by their committed offsets. also lists
// groups whose lag counts from the beginning of a topic if they have not committed an offset.
func (a *admin) lags(ctx context.Context, extents map[string][]extent, also []subscription) ([]GroupLag, error) {
	groups, err := a.groups(ctx, also)
	if err != nil {
		return nil, err
	}
	var out []GroupLag
	for _, group := range groups {
		request := &kafkago.OffsetFetchRequest{GroupID: a.cfg.TopicPrefix + group, Topics: map[string][]int{}}
		for name, partitions := range extents {
			for _, p := range partitions {
				request.Topics[name] = append(request.Topics[name], p.partition)
			}
		}
		answer, err := ask(ctx, askTimeout, a.client.OffsetFetch, request)
		if err == nil {
			err = answer.Error
		}
		if err != nil {
			return nil, fmt.Errorf("request the offsets of group %s: %w", group, err)
		}
		for _, each := range a.cfg.topics() {
			name := a.cfg.KafkaTopic(each.Name)
			behind, known := lag(extents[name], answer.Topics[name])
			if known || slices.Contains(also, subscription{each.Name, group}) {
				out = append(out, GroupLag{Group: group, Topic: each.Name, Messages: behind})
			}
		}
	}
	return out, nil
}

// lag returns the number of messages that a group still has to read from a topic. known is false if the
// group has never committed an offset of the topic.
func lag(extents []extent, committed []kafkago.OffsetFetchPartition) (behind int64, known bool) {
	at := map[int]int64{}
	for _, p := range committed {
		if p.CommittedOffset >= 0 && p.Error == nil {
			at[p.Partition], known = p.CommittedOffset, true
		}
	}
	for _, e := range extents {
		behind += max(0, e.end-max(e.first, at[e.partition]))
	}
	return behind, known
}

// groups returns the names of the groups that have the configured prefix, without the prefix.
func (a *admin) groups(ctx context.Context, also []subscription) ([]string, error) {
	answer, err := ask(ctx, askTimeout, a.client.ListGroups, &kafkago.ListGroupsRequest{})
	if err == nil {
		err = answer.Error
	}
	if err != nil {
		return nil, fmt.Errorf("list consumer groups: %w", err)
	}
	seen := map[string]bool{}
	for _, s := range also {
		seen[s.group] = true
	}
	for _, g := range answer.Groups {
		if name, ours := strings.CutPrefix(g.GroupID, a.cfg.TopicPrefix); ours && len(seen) < maxGroups {
			seen[name] = true
		}
	}
	return slices.Sorted(maps.Keys(seen)), nil
}

// currentLags measures the lag of all groups now.
func (a *admin) currentLags(ctx context.Context, also []subscription) ([]GroupLag, error) {
	topics, err := a.partitions(ctx, a.cfg.topicNames())
	if err != nil {
		return nil, err
	}
	extents, err := a.extents(ctx, topics)
	if err != nil {
		return nil, err
	}
	return a.lags(ctx, extents, also)
}

// partitions returns the numbers of partitions of the topics that exist.
func (a *admin) partitions(ctx context.Context, names []string) (map[string]int, error) {
	meta, err := ask(ctx, askTimeout, a.client.Metadata, &kafkago.MetadataRequest{Topics: names})
	if err != nil {
		return nil, fmt.Errorf("list partitions: %w", err)
	}
	out := map[string]int{}
	for _, t := range meta.Topics {
		if len(t.Partitions) > 0 && (t.Error == nil || errors.Is(t.Error, kafkago.LeaderNotAvailable)) {
			out[t.Name] = len(t.Partitions)
		}
	}
	return out, nil
}

// watchLag updates the lag gauge until ctx ends.
func (t *Transport) watchLag(ctx context.Context) {
	delay.Every(ctx, t.cfg.LagEvery, func() {
		lags, err := t.admin.currentLags(ctx, t.lag.subscriptions())
		t.lag.set(lags) // none after an error: the last measurement could hide a growing lag
		if err == nil {
			t.outage.measured()
		} else if ctx.Err() == nil {
			t.outage.failed("measure the lag", err)
		}
	})
}

// lagGauge exposes the last measured lag. If it queried the cluster during a scrape, a hanging cluster
// would block Prometheus.
type lagGauge struct {
	*prometheus.GaugeVec

	mu       sync.Mutex
	followed []subscription
}

func newLagGauge() *lagGauge {
	return &lagGauge{GaugeVec: telemetry.Gauges("letterhead_broker_lag",
		"Messages of a topic that a group still has to handle. Absent while it cannot be measured.", "lane", "group")}
}

func (g *lagGauge) follow(topic, group string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if s := (subscription{topic, group}); !slices.Contains(g.followed, s) {
		g.followed = append(g.followed, s)
	}
}

func (g *lagGauge) subscriptions() []subscription {
	g.mu.Lock()
	defer g.mu.Unlock()
	return slices.Clone(g.followed)
}

// Collect waits for set, so that a scrape sees a whole measurement.
func (g *lagGauge) Collect(metrics chan<- prometheus.Metric) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.GaugeVec.Collect(metrics)
}

func (g *lagGauge) set(lags []GroupLag) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.Reset()
	for _, l := range lags {
		g.WithLabelValues(l.Topic, l.Group).Set(float64(l.Messages))
	}
}

// settle is the number of measurements of the lag without a failed request after which Kafka works again. With
// DefaultLagEvery that is longer than the longest pause between two attempts, and clients report broken connections
// until then.
const settle = 4

// outage logs one line when requests begin to fail and one when none fails any more, not one for each attempt.
type outage struct {
	logger *slog.Logger
	quiet  time.Duration // without a failure, until Kafka works again

	mu          sync.Mutex
	since, last time.Time // of the failures; zero while there is none
}

func (o *outage) failed(msg string, err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.last = time.Now(); !o.since.IsZero() {
		o.logger.Debug("kafka: "+msg, "error", err)
		return
	}
	o.since = o.last
	o.logger.Warn("kafka does not work; requests are retried until it does", "request", msg, "error", err)
}

// measured notes that a measurement of the lag succeeded.
func (o *outage) measured() {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.since.IsZero() || time.Since(o.last) < o.quiet {
		return
	}
	o.logger.Info("kafka works again", "failed_for", o.last.Sub(o.since).Round(time.Millisecond), "until", o.last.UTC())
	o.since = time.Time{}
}
