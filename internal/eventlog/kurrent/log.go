package kurrent

import (
	"context"
	"errors"
	"fmt"
	"math"
	"sync"
	"sync/atomic"
	"time"

	"github.com/EventStore/EventStore-Client-Go/v4/esdb"
	"github.com/prometheus/client_golang/prometheus"

	"letterhead/internal/eventlog"
)

const (
	// closeTimeout bounds how long Close waits for calls that are under way.
	closeTimeout = 10 * time.Second
	// leaderAttempts bounds how often an append follows the servers' hints to their leader.
	leaderAttempts = 3
	// discoveryInterval is how often the client looks for a server, in milliseconds.
	discoveryInterval = 100
)

// Log is an event log in EventStoreDB. It implements eventlog.Log; all methods are safe for concurrent use.
type Log struct {
	cfg     Config
	client  *esdb.Client
	latency prometheus.Histogram

	calls   chan struct{}   // one element for each call under way
	closing context.Context // ends when Close begins
	close   context.CancelFunc
	pumps   sync.WaitGroup // subscriptions
	once    sync.Once
	closed  error

	// headSeen is the highest position of an event of ours that was seen, where looking for the head may
	// stop.
	headSeen atomic.Uint64
}

var _ eventlog.Log = (*Log)(nil)

// Open connects to the store and makes sure that it answers.
//
// Errors: the configuration's, eventlog.ErrUnavailable, ctx.Err().
func Open(ctx context.Context, cfg Config) (*Log, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	cfg = cfg.withDefaults()
	if err := probe(ctx, cfg); err != nil {
		return nil, err
	}
	conf, err := cfg.clientConfig()
	if err != nil {
		return nil, err
	}
	// A client that gives up is dead for ever, and callers who wait for it hang. This one never gives up;
	// who waits for it leaves by the context.
	conf.MaxDiscoverAttempts = math.MaxInt
	conf.DiscoveryInterval = discoveryInterval
	client, err := esdb.NewClient(conf)
	if err != nil {
		return nil, fmt.Errorf("open EventStoreDB: %w", err)
	}
	closing, cancel := context.WithCancel(context.Background())
	l := &Log{
		cfg: cfg, client: client, closing: closing, close: cancel,
		calls: make(chan struct{}, cfg.Calls),
		latency: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name:    "letterhead_eventlog_append_duration_seconds",
			Help:    "Time from the call of an append until it was durable.",
			Buckets: prometheus.ExponentialBuckets(50e-6, 2, 16), // 50 µs to 1.6 s
		}),
	}
	if cfg.Registerer != nil {
		if err := cfg.Registerer.Register(l.latency); err != nil {
			return nil, errors.Join(fmt.Errorf("open EventStoreDB: %w", err), client.Close())
		}
	}
	return l, nil
}

// probe asks the store for something with a client of its own, which may give up and die.
func probe(ctx context.Context, cfg Config) error {
	conf, err := cfg.clientConfig()
	if err != nil {
		return err
	}
	conf.DiscoveryInterval = discoveryInterval
	conf.MaxDiscoverAttempts = max(int(cfg.ConnectTimeout/time.Millisecond)/discoveryInterval, 1)
	client, err := esdb.NewClient(conf)
	if err != nil {
		return fmt.Errorf("open EventStoreDB: %w", err)
	}
	deadline, cancel := context.WithTimeout(ctx, cfg.ConnectTimeout)
	defer cancel()
	tried := make(chan error, 1)
	go func() { // beside us, because the client does not look at the context while it connects
		_, err := readBack(deadline, client, esdb.End{}, 1)
		tried <- errors.Join(err, client.Close())
	}()
	select {
	case err = <-tried:
	case <-deadline.Done():
		err = deadline.Err()
	}
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case err != nil:
		return fmt.Errorf("open EventStoreDB: %w: it does not answer: %v", eventlog.ErrUnavailable, err)
	}
	return nil
}

// Append implements eventlog.Log.
func (l *Log) Append(ctx context.Context, stream string, expected eventlog.Expected, events []eventlog.Proposed) (eventlog.Appended, error) {
	if err := eventlog.CheckAppend(stream, events); err != nil {
		return eventlog.Appended{}, err
	}
	data, err := toClient(events)
	if err != nil {
		return eventlog.Appended{}, fmt.Errorf("append to %s: %w", stream, err)
	}
	start := time.Now()
	options := esdb.AppendToStreamOptions{ExpectedRevision: toExpected(expected), Deadline: &l.cfg.CallTimeout}
	result, err := call(ctx, l, nil, func(ctx context.Context, client *esdb.Client) (*esdb.WriteResult, error) {
		for attempt := 1; ; attempt++ {
			result, err := client.AppendToStream(ctx, stream, options, data...)
			if !isNotLeader(err) || attempt == leaderAttempts {
				return result, err
			}
		}
	})
	var unsent notSent
	switch {
	case errors.As(err, &unsent) && errors.Is(err, eventlog.ErrClosed):
		return eventlog.Appended{}, fmt.Errorf("append to %s: %w", stream, eventlog.ErrClosed)
	case errors.As(err, &unsent):
		return eventlog.Appended{}, unsent.error
	case err != nil:
		return eventlog.Appended{}, appendError(stream, expected, err)
	}
	landed, err := l.landed(ctx, stream, result, len(events))
	if err != nil {
		return eventlog.Appended{}, err
	}
	l.latency.Observe(time.Since(start).Seconds())
	return landed, nil
}

// landed reads the server's answer. NextExpectedVersion is, despite its name, the last event's revision.
func (l *Log) landed(ctx context.Context, stream string, result *esdb.WriteResult, n int) (eventlog.Appended, error) {
	last := result.NextExpectedVersion
	if last+1 < uint64(n) {
		return eventlog.Appended{}, fmt.Errorf("append to %s: %w: the store says that %d events end at revision %d",
			stream, eventlog.ErrAmbiguous, n, last)
	}
	landed := eventlog.Appended{
		FirstRevision: last + 1 - uint64(n), LastRevision: last, Position: eventlog.Position(result.CommitPosition),
	}
	if landed.Position != 0 {
		return landed, nil
	}
	// For a repeat the server may leave the position out.
	events, err := l.ReadStream(ctx, stream, last, eventlog.Forward, 1)
	if err != nil || len(events) == 0 {
		return eventlog.Appended{}, fmt.Errorf("append to %s: %w: it is written, its position cannot be read: %v",
			stream, eventlog.ErrAmbiguous, err)
	}
	landed.Position = events[0].Position
	return landed, nil
}

func toExpected(e eventlog.Expected) esdb.ExpectedRevision {
	next, exact := e.Next()
	switch {
	case !exact:
		return esdb.Any{}
	case next == 0:
		return esdb.NoStream{}
	default:
		return esdb.Revision(next - 1)
	}
}

// Close implements eventlog.Log. When calls are stuck in the client it leaves the client to them.
func (l *Log) Close() error {
	l.once.Do(func() {
		l.close()
		if l.cfg.Registerer != nil {
			l.cfg.Registerer.Unregister(l.latency)
		}
		ended := make(chan struct{})
		go func() {
			for range cap(l.calls) {
				l.calls <- struct{}{} // every place, once those who hold one are through
			}
			l.pumps.Wait()
			close(ended)
		}()
		timer := time.NewTimer(closeTimeout)
		defer timer.Stop()
		select {
		case <-ended:
			// Closing it under a caller's feet would make the client send on a closed channel.
			l.closed = l.client.Close()
		case <-timer.C:
			l.cfg.Logger.Warn("EventStoreDB: calls are stuck in the client, it is not closed")
		}
	})
	return l.closed
}
