package kafka_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/twmb/franz-go/pkg/kfake"

	"letterhead/internal/broker"
	"letterhead/internal/broker/kafka"
	"letterhead/internal/testcert"
	"letterhead/internal/testmust"
	"letterhead/internal/testwait"
)

func TestNew_CreatesConfiguredTopics(t *testing.T) {
	both(t, func(t *testing.T, config func(t *testing.T) kafka.Config) {
		cfg := config(t)
		cfg.Replication = 1
		cfg.Topics = []kafka.Topic{{Name: testTopic, Partitions: 3, Retention: time.Hour}, {Name: broker.Ledger, Record: true, Retention: kafka.Forever}}
		report := inspect(t, cfg)
		if problems := report.Problems(); len(problems) != 3 || !strings.Contains(problems[0], "missing") {
			t.Errorf("before the first start: %q", problems)
		}
		open(t, cfg)
		open(t, cfg) // as a second node does
		report = inspect(t, cfg)
		if problems := report.Problems(); len(problems) > 0 {
			t.Errorf("after the start: %q", problems)
		}
		want := map[string]kafka.TopicReport{
			testTopic:                         {Partitions: 3, Retention: "3600000"},
			broker.DeadLetterTopic(testTopic): {Partitions: 1, Retention: "1209600000"},
			broker.Ledger:                     {Partitions: 8, Retention: "-1"},
		}
		for _, topic := range report.Topics {
			w, known := want[topic.Name]
			if !known || topic.KafkaTopic != cfg.KafkaTopic(topic.Name) || topic.Partitions != w.Partitions || topic.Replication != 1 ||
				topic.MinInsync != "1" || topic.Retention != w.Retention || topic.MaxMessage != "1048576" {
				t.Errorf("topic = %+v, want the settings of %+v", topic, w)
			}
			delete(want, topic.Name)
		}
		if len(want) > 0 {
			t.Errorf("the report does not mention %v", want)
		}
	})
}

func inspect(t *testing.T, cfg kafka.Config) kafka.Report {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), timeout)
	defer cancel()
	report := testmust.Get(kafka.Inspect(ctx, cfg))(t)
	return report
}

func TestNew_DifferentTopic_IsUsedWithWarning(t *testing.T) {
	c := cluster(t)
	cfg := fakeConfig(c)
	name := cfg.KafkaTopic(testTopic)
	testmust.Succeed(t, c.CreateTopic(name, 3, map[string]string{"retention.ms": "1000", "max.message.bytes": "1000"}))
	var output bytes.Buffer
	cfg.Logger = slog.New(slog.NewTextHandler(&output, nil))
	cfg.Topics[0].Retention = time.Hour
	open(t, cfg)
	for _, want := range []string{name, "3 partitions, but 8 are configured", "retention.ms is 1000, but 3600000 is configured", "max.message.bytes is 1000"} {
		if !strings.Contains(output.String(), want) {
			t.Errorf("the log does not contain %q: %s", want, &output)
		}
	}
	report := inspect(t, cfg)
	if i := slices.IndexFunc(report.Topics, func(r kafka.TopicReport) bool { return r.Name == testTopic }); report.Topics[i].Partitions != 3 || report.Topics[i].Retention != "1000" {
		t.Errorf("the topic was changed: %+v", report.Topics[i])
	}
	if len(report.Problems()) != 3 {
		t.Errorf("problems are %q", report.Problems())
	}
}

func TestInspect_UnreachableBroker_IsReported(t *testing.T) {
	l := testmust.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
	l.Close()
	cfg := fakeConfig(cluster(t))
	cfg.Brokers = append(cfg.Brokers, l.Addr().String())
	open(t, cfg) // one topic is enough
	report := inspect(t, cfg)
	if report.Brokers[0].Problem != "" || report.Brokers[1].Problem == "" || len(report.Problems()) != 1 {
		t.Errorf("brokers are %+v", report.Brokers)
	}
	cfg.Brokers = cfg.Brokers[1:]
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
	defer cancel()
	if report, err := kafka.Inspect(ctx, cfg); err == nil || report.Brokers[0].Problem == "" {
		t.Errorf("without any broker: %+v, %v", report, err)
	}
}

func TestLag_CountsUnhandledMessages(t *testing.T) {
	both(t, func(t *testing.T, config func(t *testing.T) kafka.Config) {
		cfg := config(t)
		registry := prometheus.NewPedanticRegistry()
		cfg.Registerer, cfg.LagEvery = registry, 50*time.Millisecond
		bus := openBus(t, cfg)
		publish(t, bus, spread(10, 2)...)
		release, got := make(chan struct{}), make(chan string, 64)
		subscribe(t, bus, testTopic, "workers", func(ctx context.Context, m broker.Message) error {
			select {
			case <-release:
			case <-ctx.Done():
				return ctx.Err()
			}
			got <- m.ID
			return nil
		})
		awaitLag(t, registry, 20)
		close(release)
		for range 20 {
			testwait.Receive(t, got, "all messages")
		}
		awaitLag(t, registry, 0)
		if groups := inspect(t, cfg).Groups; len(groups) != 1 || groups[0] != (kafka.GroupLag{Group: "workers", Topic: testTopic}) {
			t.Errorf("groups are %+v", groups)
		}
	})
}

// awaitLag waits until the gauge has the wanted value for the only group.
func awaitLag(t *testing.T, registry *prometheus.Registry, want float64) {
	t.Helper()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	deadline := time.After(timeout)
	last := -1.0
	for {
		families := testmust.Get(registry.Gather())(t)
		for _, f := range families {
			if f.GetName() != "letterhead_broker_lag" {
				continue
			}
			for _, m := range f.GetMetric() {
				if last = m.GetGauge().GetValue(); last == want && m.GetLabel()[0].GetValue() == "workers" && m.GetLabel()[1].GetValue() == testTopic {
					return
				}
			}
		}
		select {
		case <-tick.C:
		case <-deadline:
			t.Fatalf("the lag is %v, want %v", last, want)
		}
	}
}

func TestLoginAndEncryption(t *testing.T) {
	certificate, ca := certified(t)
	for mechanism, name := range map[kafka.Mechanism]string{kafka.Plain: "PLAIN", kafka.ScramSHA256: "SCRAM-SHA-256", kafka.ScramSHA512: "SCRAM-SHA-512"} {
		t.Run(string(mechanism), func(t *testing.T) {
			c := cluster(t, kfake.EnableSASL(), kfake.Superuser(name, "user", "hunter2"),
				kfake.TLS(&tls.Config{Certificates: []tls.Certificate{certificate}}))
			cfg := testmust.Get(kafka.ParseURL("kafka://user:hunter2@" + strings.Join(c.ListenAddrs(), ",") + "?tls=true&sasl=" + string(mechanism) + "&ca=" + ca))(t)
			cfg.Topics = testTopics()
			transport := open(t, cfg)
			bus := testmust.Get(broker.New(fast, transport))(t)
			defer bus.Close()
			got := make(chan string, 1)
			subscribe(t, bus, testTopic, "workers", func(_ context.Context, m broker.Message) error {
				got <- m.ID
				return nil
			})
			publish(t, bus, numbered("a", 0))
			testwait.Receive(t, got, "the message")
			if err := record(t, transport.Records(), numbered("a", 0)); err != nil {
				t.Error(err)
			}
			if problems := inspect(t, cfg).Problems(); len(problems) > 0 {
				t.Error(problems)
			}
			cfg.Password = "hunter3"
			ctx, cancel := context.WithTimeout(t.Context(), timeout)
			defer cancel()
			for what, call := range map[string]func() error{
				"New":     func() error { return testmust.Err(kafka.New(ctx, cfg)) },
				"Inspect": func() error { return testmust.Err(kafka.Inspect(ctx, cfg)) },
			} {
				if err := call(); err == nil || strings.Contains(err.Error(), "hunter") ||
					!strings.Contains(err.Error(), "correct the user, the password or sasl= in LETTERHEAD_BROKER") {
					t.Errorf("%s with a wrong password: %v", what, err)
				}
			}
			cfg.Password, cfg.CAFile = "hunter2", ""
			if _, err := kafka.New(ctx, cfg); err == nil || strings.Contains(err.Error(), "hunter") {
				t.Errorf("New with an untrusted authority: %v", err)
			}
		})
	}
}

// certified returns a certificate for 127.0.0.1 and a CA file that verifies it.
func certified(t *testing.T) (tls.Certificate, string) {
	t.Helper()
	authority := testmust.Get(testcert.NewAuthority())(t)
	certificate := testmust.Get(authority.Issue(nil, "127.0.0.1"))(t)
	file := filepath.Join(t.TempDir(), "ca.pem")
	testmust.Succeed(t, os.WriteFile(file, authority.PEM(), 0o600))
	return certificate, file
}
