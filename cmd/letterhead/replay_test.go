package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"path/filepath"
	"strings"
	"testing"
	"time"

	kafkago "github.com/segmentio/kafka-go"
	"github.com/twmb/franz-go/pkg/kfake"

	"letterhead/internal/broker"
	"letterhead/internal/broker/kafka"
	"letterhead/internal/checkpoint"
	"letterhead/internal/config"
	"letterhead/internal/eventlog"
	"letterhead/internal/testmust"
	"letterhead/node"
	"letterhead/node/datafolder"
	"letterhead/workers/relay"
)

const replayTimeout = 30 * time.Second

// inService runs a command line inside a node, as its admin socket does.
func inService(ctx context.Context, n *node.Node, args ...string) (stdout, stderr string, err error) {
	var out, faults bytes.Buffer
	e := &environment{stdout: &out, stderr: &faults, node: n}
	root := newRoot(e)
	if args[0] == "replay" {
		root = replayCommand(e)
		args = args[1:]
	}
	root.SilenceErrors, root.SilenceUsage = true, true
	root.SetArgs(args)
	err = root.ExecuteContext(ctx)
	return out.String(), faults.String(), err
}

// copied returns a node with two accounts, whose ledger a relay has copied to a Kafka in this process.
func copied(t *testing.T, ctx context.Context) (*node.Node, kafka.Config) {
	t.Helper()
	cluster := testmust.Get(kfake.NewCluster(kfake.NumBrokers(1)))(t)
	t.Cleanup(cluster.Close)
	url := "kafka://" + strings.Join(cluster.ListenAddrs(), ",") + "?replication=1&partitions=3"
	t.Setenv("LETTERHEAD_STARTER", "off")
	t.Setenv("LETTERHEAD_BROKER", url)
	cfg := testmust.Get(config.FromEnvironment(map[string]string{"LETTERHEAD_DATA": filepath.Join(t.TempDir(), "data")}))(t)
	lock := testmust.Get(datafolder.Acquire(cfg.Data, datafolder.MayBeNew, version))(t)
	n := testmust.Get(node.Open(ctx, cfg, lock, node.Options{Release: version, Logs: io.Discard, LogLevel: "error"}))(t)
	t.Cleanup(func() { n.Close() })
	for _, name := range []string{"Acme", "Globex"} {
		if _, _, err := inService(ctx, n, "account", "create", "--name", name, "--plan", "growth", "--json"); err != nil {
			t.Fatal(err)
		}
	}
	broker := testmust.Get(kafka.ParseURL(url))(t)
	copyLog(t, ctx, n, broker)
	return n, broker
}

// copyLog relays the log to the ledger topic, up to the log's head.
func copyLog(t *testing.T, ctx context.Context, n *node.Node, cfg kafka.Config) {
	t.Helper()
	transport := testmust.Get(kafka.New(ctx, cfg))(t)
	defer transport.Close()
	head := testmust.Get(n.Stores.Log.Head(ctx))(t)
	saved := reached{n.Stores.Positions, head, make(chan struct{})}
	topics := relay.RecordTopics(transport.Records())[:1]
	r := testmust.Get(relay.New(relay.Config{Topics: topics, SaveEvery: time.Nanosecond}, n.Stores.Log, transport.Records(), saved))(t)
	running, stop := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() { ended <- r.Run(running) }()
	select {
	case <-saved.done:
	case err := <-ended:
		t.Fatal(err)
	}
	stop()
	testmust.Succeed(t, <-ended)
}

// reached closes done when a checkpoint has reached a position.
type reached struct {
	checkpoint.Store
	at   eventlog.Position
	done chan struct{}
}

func (r reached) Save(ctx context.Context, name string, p eventlog.Position) error {
	err := r.Store.Save(ctx, name, p)
	if err == nil && p >= r.at {
		select {
		case <-r.done:
		default:
			close(r.done)
		}
	}
	return err
}

func TestReplay_FromKafka_EqualsLogAndReportsFaults(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), replayTimeout)
	defer cancel()
	n, cfg := copied(t, ctx)
	fromLog, _, err := inService(ctx, n, "replay", "--json", "--stream", "account-")
	testmust.Succeed(t, err)
	everything := []string{"replay", "--from-kafka", "--from-beginning", "--no-follow", "--json", "--stream", "account-"}
	fromKafka, _, err := inService(ctx, n, everything...)
	testmust.Succeed(t, err)
	// The order of streams may differ, but the events of each must be the same, byte for byte.
	if want, got := byStream(t, fromLog), byStream(t, fromKafka); len(want) != 2 || len(got) != 2 {
		t.Errorf("%d streams in the log, %d in Kafka", len(want), len(got))
	} else {
		for stream := range want {
			if want[stream] != got[stream] {
				t.Errorf("%s in the log:\n%sin Kafka:\n%s", stream, want[stream], got[stream])
			}
		}
	}
	if out, _, err := inService(ctx, n, "replay", "--from-kafka", "--verify", "--json"); err != nil || !strings.Contains(out, `"faults":0`) {
		t.Errorf("verify an intact topic: %s, %v", out, err)
	}

	// The relay lost its checkpoint and published everything again. Events are printed once, and repeats are no faults.
	again := cfg
	republish(t, ctx, n, again)
	if twice, _, err := inService(ctx, n, everything...); err != nil || len(twice) != len(fromKafka) {
		t.Errorf("repeats were printed: %d bytes (%v), want %d", len(twice), err, len(fromKafka))
	}
	out, _, err := inService(ctx, n, "replay", "--from-kafka", "--verify", "--json")
	if err != nil || strings.Contains(out, `"repeats":0`) {
		t.Errorf("verify with repeats: %s, %v", out, err)
	}

	// Another program writes to the topic.
	client := &kafkago.Client{Addr: kafkago.TCP(cfg.Brokers...)}
	if _, err := client.Produce(ctx, &kafkago.ProduceRequest{Topic: cfg.KafkaTopic(broker.Ledger), RequiredAcks: kafkago.RequireAll,
		Records: kafkago.NewRecordReader(kafkago.Record{Value: kafkago.NewBytes([]byte("{}"))})}); err != nil {
		t.Fatal(err)
	}
	if out, faults, err := inService(ctx, n, "replay", "--from-kafka", "--verify"); !errors.Is(err, errTopicDiffers) || !strings.Contains(faults, relay.FaultForeign) {
		t.Errorf("verify with a foreign message: %s %s %v; want text that contains %q and errTopicDiffers", out, faults, err, relay.FaultForeign)
	}

	// Events up to the checkpoint are missing from the topic.
	if _, _, err := inService(ctx, n, "account", "create", "--name", "Initech", "--plan", "free", "--json"); err != nil {
		t.Fatal(err)
	}
	head := testmust.Get(n.Stores.Log.Head(ctx))(t)
	testmust.Succeed(t, n.Stores.Positions.Save(ctx, relay.Topic{Name: broker.Ledger}.Checkpoint(), head))
	if _, faults, err := inService(ctx, n, "replay", "--from-kafka", "--verify"); !errors.Is(err, errTopicDiffers) || !strings.Contains(faults, relay.FaultMissing) {
		t.Errorf("verify with a gap: %s %v; want text that contains %q and errTopicDiffers", faults, err, relay.FaultMissing)
	}
}

// republish copies the log again, from its beginning.
func republish(t *testing.T, ctx context.Context, n *node.Node, cfg kafka.Config) {
	t.Helper()
	transport := testmust.Get(kafka.New(ctx, cfg))(t)
	defer transport.Close()
	page := testmust.Get(n.Stores.Log.ReadAll(ctx, 0, eventlog.Filter{StreamPrefixes: relay.LedgerStreams()}, 1000))(t)
	for _, r := range page.Events {
		testmust.Succeed(t, transport.Records().Publish(ctx, broker.Ledger, broker.Record(r)))
	}
}

// byStream groups printed events by stream and keeps their order.
func byStream(t *testing.T, lines string) map[string]string {
	t.Helper()
	out := map[string]string{}
	for line := range strings.Lines(lines) {
		var ev node.EventJSON
		testmust.Succeed(t, json.Unmarshal([]byte(line), &ev))
		out[ev.Stream] += line
	}
	return out
}

func TestReplay_InvalidFlags_AreUsageErrors(t *testing.T) {
	n := &node.Node{}
	n.Config.Broker = config.Embedded
	for _, args := range [][]string{
		{"replay", "--from-kafka", "--lane", "crawl.live"},
		{"replay", "--verify"},
		{"replay", "--from-kafka", "--verify", "--type", "KeyIssued"},
		{"replay", "--from-kafka"}, // the settings have no Kafka
		{"replay", "extra"},
	} {
		if _, _, err := inService(t.Context(), n, args...); !errors.As(err, new(usageError)) {
			t.Errorf("%v: %v, want a usage error", args, err)
		}
	}
}

func TestRevisions_Repeats_AreNotNew(t *testing.T) {
	var r revisions
	seen := map[uint64]bool{}
	for _, revision := range []uint64{5, 6, 8, 7, 7, 0, 5, 2, 1, 3, 4, 4, 9, 0, 8, 20, 19, 18} {
		var first bool
		if r, first = r.add(revision); first == seen[revision] {
			t.Errorf("add(%d) reports new = %t in %v, want %t", revision, first, r, !seen[revision])
		}
		seen[revision] = true
	}
	if len(r) != 2 || r[0] != (span{0, 10}) || r[1] != (span{18, 21}) {
		t.Errorf("spans = %v, want [{0 10} {18 21}]", r)
	}
}
