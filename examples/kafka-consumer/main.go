// Command kafka-consumer follows Letterhead's ledger topic and tracks the credits of every account.
//
// It shows the duties of a consumer: read in a group, recognize repeats, commit only processed messages. It imports
// nothing of Letterhead, so it can be copied as a starting point. README.md explains how to run it; docs/events.md of
// the repository describes the topic.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/segmentio/kafka-go"
)

func main() {
	brokers := flag.String("brokers", "127.0.0.1:9092", "brokers, separated by commas")
	topic := flag.String("topic", "letterhead.ledger", "name of the ledger topic")
	group := flag.String("group", "credits-example", "consumer group")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, strings.Split(*brokers, ","), *topic, *group, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// run follows a topic until ctx ends and prints the credits of an account when they change.
func run(ctx context.Context, brokers []string, topic, group string, out io.Writer) error {
	reader := kafka.NewReader(kafka.ReaderConfig{
		Brokers: brokers, Topic: topic, GroupID: group,
		StartOffset:           kafka.FirstOffset, // a new group begins with the first event
		WatchPartitionChanges: true,              // otherwise partitions that are added later are never read
		MaxBytes:              4 << 20,
		MaxWait:               500 * time.Millisecond,
	})
	defer reader.Close()
	books := newBooks()
	for {
		// FetchMessage, not ReadMessage, which commits before the message is processed.
		m, err := reader.FetchMessage(ctx)
		if ctx.Err() != nil {
			return nil
		}
		if err != nil {
			return fmt.Errorf("read %s: %w", topic, err)
		}
		line, err := books.take(m)
		if err != nil {
			return fmt.Errorf("partition %d, offset %d: %w", m.Partition, m.Offset, err)
		}
		if line != "" {
			fmt.Fprintln(out, line)
		}
		// A consumer with a database should write its rows and the offset in one transaction, and seek to that offset
		// at startup, so that no event is counted twice. This example keeps its books in memory, so after a restart
		// they contain only later events. Use a new group to count from the beginning.
		if err := reader.CommitMessages(ctx, m); err != nil && ctx.Err() == nil {
			return fmt.Errorf("commit: %w", err)
		}
	}
}

// books are the credits of all accounts, and the state that is needed to count each event once.
type books struct {
	credits map[string]int64
	next    map[string]uint64 // by stream: the next revision to count
	offsets map[int]int64     // by partition: the offset after the last processed message
}

func newBooks() *books {
	return &books{credits: map[string]int64{}, next: map[string]uint64{}, offsets: map[int]int64{}}
}

// take processes one message and returns its change as a line. A repeat changes nothing.
func (b *books) take(m kafka.Message) (string, error) {
	// After a rebalance kafka-go may return messages that it fetched before it,
	// which may be older than the committed offset.
	if m.Offset < b.offsets[m.Partition] {
		return "", nil
	}
	b.offsets[m.Partition] = m.Offset + 1

	head := map[string]string{}
	for _, h := range m.Headers {
		head[h.Key] = string(h.Value)
	}
	account, ours := strings.CutPrefix(head["stream"], "account-")
	if !ours {
		return "", nil // the topic also contains usage events
	}
	revision, err := strconv.ParseUint(head["revision"], 10, 64)
	if err != nil {
		return "", fmt.Errorf("event %s has no revision: %w", head["event_id"], err)
	}
	// The relay publishes at least once. The revisions of a stream are 0, 1, 2… and are first delivered in this order,
	// so one number per stream detects every repeat. A set of event ids would also work, but it would grow.
	next := b.next[head["stream"]]
	if revision < next {
		return "", nil
	}
	if revision > next && next > 0 {
		return "", fmt.Errorf("%s: revision %d came before %d", head["stream"], revision, next)
	}
	b.next[head["stream"]] = revision + 1

	change, err := creditsOf(head["event_type"], m.Value)
	if err != nil || change == 0 {
		return "", err
	}
	b.credits[account] += change
	return fmt.Sprintf("%s %s %+d credits, %d in all", account, head["event_type"], change, b.credits[account]), nil
}

var errSchema = errors.New("the event does not match its schema")

// creditsOf returns the change of an account's credits by an event. It is 0 for
// unknown types, because a release may add new ones.
func creditsOf(eventType string, data []byte) (int64, error) {
	var sign int64
	switch eventType {
	case "CreditsGranted", "ChargeReversed", "RefundReversed":
		sign = 1
	case "CreditsCharged", "PaymentRefunded", "BreakageRecognized":
		sign = -1
	default:
		return 0, nil // such as CreditsHeld, HoldReleased and ChargeKept, which do not change the balance
	}
	var e struct {
		Credits *int64 `json:"credits"`
	}
	if err := json.Unmarshal(data, &e); err != nil || e.Credits == nil {
		return 0, errors.Join(fmt.Errorf("%w: %s", errSchema, eventType), err)
	}
	return sign * *e.Credits, nil
}
