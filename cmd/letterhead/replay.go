package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"letterhead/internal/broker"
	"letterhead/internal/broker/kafka"
	"letterhead/internal/config"
	"letterhead/internal/eventlog"
	"letterhead/node"
	"letterhead/workers/relay"
)

// maxShownFaults is the maximum number of faults that `events replay --verify` prints; it counts all.
const maxShownFaults = 100

var errTopicDiffers = errors.New("the topic differs from the log")

type replayFlags struct {
	fromKafka, fromBeginning, noFollow, verify, asJSON bool
	topic                                              string
	streams, types                                     []string
}

func replayCommand(e *environment) *cobra.Command {
	var f replayFlags
	c := command("replay", "Read events again, from the log or from Kafka")
	c.Flags().BoolVar(&f.fromKafka, "from-kafka", false, "read the topic in Kafka instead of the log")
	c.Flags().StringVar(&f.topic, "lane", broker.Ledger, "topic to read: ledger or brands")
	c.Flags().BoolVar(&f.fromBeginning, "from-beginning", false, "from Kafka: begin at the beginning of the topic")
	c.Flags().BoolVar(&f.noFollow, "no-follow", false, "from Kafka: stop at the end of the topic")
	c.Flags().BoolVar(&f.verify, "verify", false, "compare the whole topic with the log")
	c.Flags().StringSliceVar(&f.streams, "stream", nil,
		"only streams with this prefix, such as account- or brand-github.com")
	c.Flags().StringSliceVar(&f.types, "type", nil, "only events of this type")
	asJSON := jsonFlag(c)
	c.RunE = e.onFolder(node.ToRead, func(ctx context.Context, n *node.Node, _ *cobra.Command, _ []string) error {
		f.asJSON = *asJSON
		if err := f.check(); err != nil {
			return err
		}
		if !f.fromKafka {
			return f.replayLog(ctx, e, n)
		}
		cfg, err := replayBroker(n.Config)
		if err != nil {
			return err
		}
		if f.verify {
			return f.verifyTopic(ctx, e, n, cfg)
		}
		return f.replayKafka(ctx, e, cfg)
	})
	return c
}

func (f *replayFlags) check() error {
	switch {
	case f.topic != broker.Ledger && f.topic != broker.Brands:
		return misuse("--lane must be %s or %s, not %q", broker.Ledger, broker.Brands, f.topic)
	case f.verify && !f.fromKafka:
		return misuse("--verify compares Kafka with the log: it needs --from-kafka")
	case f.verify && len(f.types) > 0:
		return misuse("--verify compares events of all types; --stream limits it to some streams")
	}
	return nil
}

// prefixes returns the prefixes of the topic's streams that --stream selects.
func (f *replayFlags) prefixes() []string {
	of := relay.LedgerStreams()
	if f.topic == broker.Brands {
		of = relay.BrandStreams()
	}
	if len(f.streams) == 0 {
		return of
	}
	var out []string
	for _, s := range f.streams {
		for _, p := range of {
			switch {
			case strings.HasPrefix(s, p):
				out = append(out, s)
			case strings.HasPrefix(p, s):
				out = append(out, p)
			}
		}
	}
	return out
}

func replayBroker(c config.Config) (kafka.Config, error) {
	if c.Broker == config.Embedded {
		return kafka.Config{}, misuse("there is no Kafka: LETTERHEAD_BROKER is inprocess")
	}
	return kafka.ParseURL(c.Broker)
}

func (f *replayFlags) replayLog(ctx context.Context, e *environment, n *node.Node) error {
	filter := eventlog.Filter{StreamPrefixes: f.streams, EventTypes: f.types}
	for after := eventlog.Position(0); ; {
		page, err := n.Stores.Log.ReadAll(ctx, after, filter, listPage)
		if err != nil {
			return err
		}
		for _, r := range page.Events {
			if err := printEvent(e, r, f.asJSON); err != nil {
				return err
			}
		}
		if after = page.Next; page.End {
			return nil
		}
	}
}

// replayKafka prints each event once. The first copies of a stream's events arrive in order, because the relay copies
// the log in its order and repeats from a checkpoint. If the number of partitions was raised, older events of a stream
// are in another partition and may arrive later; they are printed too.
func (f *replayFlags) replayKafka(ctx context.Context, e *environment, cfg kafka.Config) error {
	printed := map[string]revisions{} // by stream; about 100 bytes each
	prefixes := f.prefixes()
	options := kafka.ReadOptions{FromBeginning: f.fromBeginning, Follow: !f.noFollow}
	return kafka.ReadTopic(ctx, cfg, f.topic, options, func(m kafka.Read) error {
		r, err := broker.Recorded(m.Message)
		if err != nil {
			_, err = fmt.Fprintf(e.stderr, "partition %d, offset %d: %s\n", m.Partition, m.Offset, err)
			return err
		}
		if !slices.ContainsFunc(prefixes, func(p string) bool { return strings.HasPrefix(r.Stream, p) }) {
			return nil
		}
		seen, first := printed[r.Stream].add(r.Revision)
		if !first {
			return nil
		}
		printed[strings.Clone(r.Stream)] = seen
		if len(f.types) > 0 && !slices.Contains(f.types, r.Type) {
			return nil
		}
		return printEvent(e, r, f.asJSON)
	})
}

func (f *replayFlags) verifyTopic(ctx context.Context, e *environment, n *node.Node, cfg kafka.Config) error {
	prefixes := f.prefixes()
	if len(prefixes) == 0 {
		return misuse("topic %s carries no stream that begins with %q", f.topic, f.streams)
	}
	// Load the checkpoint before reading the topic, so that all events up to it are in the topic.
	checkpoint, _, err := n.Stores.Positions.Load(ctx, relay.Topic{Name: f.topic}.Checkpoint())
	if err != nil {
		return err
	}
	source := func(ctx context.Context, do func(int, broker.Message) error) error {
		return kafka.ReadTopic(ctx, cfg, f.topic, kafka.ReadOptions{FromBeginning: true},
			func(m kafka.Read) error { return do(m.Partition, m.Message) })
	}
	shown := 0
	found, err := relay.Verify(ctx, n.Stores.Log, prefixes, checkpoint, source, func(fault relay.Fault) {
		if shown++; shown <= maxShownFaults {
			fmt.Fprintf(e.stderr, "%s: revision %d of %s %s\n", fault.Kind, fault.Revision, fault.Stream, fault.Detail)
		}
	})
	if err != nil {
		return err
	}
	object := struct {
		Topic      string            `json:"lane"`
		Checkpoint eventlog.Position `json:"checkpoint"`
		relay.Verified
	}{f.topic, checkpoint, found}
	err = e.print(f.asJSON, object, "topic %s up to position %d: %d events of %d streams in the log, %d found unchanged, %d repeats, %d newer, %d faults\n",
		f.topic, checkpoint, found.Events, found.Streams, found.Equal, found.Repeats, found.Newer, found.Faults)
	if err == nil && found.Faults > 0 {
		err = errTopicDiffers
	}
	return err
}

// revisions are the revisions of one stream that have been read, as ascending spans that do not touch: nearly always a
// single span.
type revisions []span

type span struct{ from, to uint64 } // from inclusive, to exclusive

// add returns the revisions including another one, and reports whether it is new.
func (r revisions) add(revision uint64) (revisions, bool) {
	i, found := slices.BinarySearchFunc(r, revision, func(s span, revision uint64) int {
		switch {
		case s.to <= revision:
			return -1
		case s.from > revision:
			return 1
		}
		return 0
	})
	if found {
		return r, false
	}
	r = slices.Insert(r, i, span{revision, revision + 1})
	for j := min(i+1, len(r)-1); j >= max(i, 1); j-- { // it may touch the spans beside it
		if r[j-1].to == r[j].from {
			r[j-1].to = r[j].to
			r = slices.Delete(r, j, j+1)
		}
	}
	return r, true
}

func eventsTail(e *environment) *cobra.Command {
	c := command("tail", "Print events as they are appended")
	from := c.Flags().Int64("from", -1, "begin after this position; 0 is the beginning of the log (default: its end)")
	streams := c.Flags().StringSlice("stream", nil,
		"only streams with this prefix, such as account- or brand-github.com")
	types := c.Flags().StringSlice("type", nil, "only events of this type")
	stop := c.Flags().Bool("no-follow", false, "stop at the end of the log")
	asJSON := jsonFlag(c)
	c.RunE = e.onFolder(node.ToRead, func(ctx context.Context, n *node.Node, _ *cobra.Command, _ []string) error {
		after := eventlog.Position(max(*from, 0))
		if *from < 0 {
			head, err := n.Stores.Log.Head(ctx)
			if err != nil {
				return err
			}
			after = head
		}
		sub, err := n.Stores.Log.Subscribe(ctx, after, eventlog.Filter{StreamPrefixes: *streams, EventTypes: *types})
		if err != nil {
			return err
		}
		defer sub.Close()
		for {
			batch, err := sub.Next(ctx)
			if err != nil {
				return err
			}
			for _, r := range batch.Events {
				if err := printEvent(e, r, *asJSON); err != nil {
					return err
				}
			}
			if batch.Live && *stop {
				return nil
			}
		}
	})
	return c
}

func printEvent(e *environment, r eventlog.Recorded, asJSON bool) error {
	if asJSON {
		return printJSON(e.stdout, node.ToJSON(r))
	}
	return e.printf("%d %s %s@%d %s %s\n", r.Position, r.OccurredAt.UTC().Format(time.RFC3339Nano),
		r.Stream, r.Revision, r.Type, r.Data)
}
