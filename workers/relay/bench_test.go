package relay_test

import (
	"context"
	"crypto/rand"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	kafkago "github.com/segmentio/kafka-go"

	"letterhead/internal/broker"
	"letterhead/internal/broker/kafka"
	"letterhead/internal/eventlog"
	"letterhead/internal/eventlog/sqlite"
	"letterhead/internal/sqlstore"
	"letterhead/internal/testmust"
	"letterhead/internal/testservices"
	"letterhead/workers/relay"
)

// counting counts the messages that a publisher has accepted, and closes all when it has all.
type counting struct {
	relay.Publisher
	left int
	all  chan struct{}
}

func (c *counting) Publish(ctx context.Context, topic string, m ...broker.Message) error {
	err := c.Publisher.Publish(ctx, topic, m...)
	if err == nil {
		if c.left -= len(m); c.left == 0 {
			close(c.all)
		}
	}
	return err
}

// BenchmarkRelayToKafka copies a log of charges (SQLite) to the ledger topic of a real Kafka.
func BenchmarkRelayToKafka(b *testing.B) {
	const appends, each = 100, 1000
	folder := b.TempDir()
	log := testmust.Get(sqlite.Open(b.Context(), sqlite.Config{Path: filepath.Join(folder, "events.db")}))(b)
	defer log.Close()
	data := []byte(`{"charge_id":"0192f0c1-7d6b-7c3a-9d53-3a1f0f0a7a11","credits":1,"request_id":"0192f0c1-7d6b-7c3a-9d53-3a1f0f0a7a12","brand_id":"acme.com","domain":"acme.com","record_revision":3}`)
	for i := range appends {
		var events []eventlog.Proposed
		for range each {
			events = append(events, eventlog.Proposed{
				ID: uuid.New(), Type: "CreditsCharged", SchemaVersion: 1, OccurredAt: time.Now().UTC().Truncate(time.Microsecond), Data: data,
				Metadata: eventlog.Metadata{RequestID: uuid.NewString(), Actor: "account:0192f0c1", Hash: strings.Repeat("ab", 32)},
			})
		}
		testmust.Succeed(b, testmust.Err(log.Append(b.Context(), fmt.Sprint("account-", i), eventlog.NoStream(), events)))
	}
	store := testmust.Get(sqlstore.Open(b.Context(), sqlstore.Config{Path: filepath.Join(folder, "letterhead.db")}))(b)
	defer store.Close()
	positions := testmust.Get(sqlstore.NewPositions(b.Context(), store))(b)
	brokers := strings.Split(testservices.Kafka(b), ",")
	var took time.Duration
	runs := 0
	for b.Loop() {
		cfg := kafka.Config{Brokers: brokers, TopicPrefix: "test-" + strings.ToLower(rand.Text()[:10]) + ".", Topics: []kafka.Topic{{Name: broker.Ledger, Record: true}}}
		transport := testmust.Get(kafka.New(b.Context(), cfg))(b)
		to := &counting{transport.Records(), appends * each, make(chan struct{})}
		topic := relay.RecordTopics(to)[0]
		topic.Name = broker.Ledger
		r := testmust.Get(relay.New(relay.Config{Topics: []relay.Topic{topic}}, log, to, unsaved{positions}))(b)
		ctx, stop := context.WithCancel(b.Context())
		ended := make(chan error, 1)
		begun := time.Now()
		go func() { ended <- r.Run(ctx) }()
		select {
		case <-to.all:
		case err := <-ended:
			b.Fatal(err)
		}
		took += time.Since(begun)
		runs++
		stop()
		<-ended
		transport.Close()
		(&kafkago.Client{Addr: kafkago.TCP(brokers...)}).DeleteTopics(b.Context(), &kafkago.DeleteTopicsRequest{Topics: []string{cfg.KafkaTopic(broker.Ledger)}})
	}
	b.ReportMetric(float64(runs*appends*each)/took.Seconds(), "events/s")
}

// unsaved positions start over on each load, but are saved all the same.
type unsaved struct{ *sqlstore.Positions }

func (unsaved) Load(context.Context, string) (eventlog.Position, bool, error) { return 0, false, nil }
