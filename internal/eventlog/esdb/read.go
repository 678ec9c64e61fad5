package esdb

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/EventStore/EventStore-Client-Go/v4/esdb"
	"github.com/EventStore/EventStore-Client-Go/v4/protos/gossip"
	"github.com/EventStore/EventStore-Client-Go/v4/protos/shared"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"

	"letterhead/internal/eventlog"
)

const (
	// A filtered page reads filterRatio events for each requested one, but at least leastScan and at most
	// MaxPage: events after the last selected one are transferred in vain.
	filterRatio = 8
	leastScan   = 64
	// farBytes is the minimum distance from the end, in positions, at which a filtered read is worth the
	// two additional round trips of a subscription: some thousand events.
	farBytes = 4 << 20
	// scanTime is when a page that is read through a subscription ends with the events it has.
	scanTime = 5 * time.Second
	// maxPageBytes ends a page of the global order early, so that large events do not fill the memory.
	maxPageBytes = 16 << 20
)

// receive calls do with every event of a read, until do returns false or the read ends. A stream that does
// not exist is empty; the client reports that only here, not when the read begins.
func receive(in *esdb.ReadStream, do func(*esdb.ResolvedEvent) (bool, error)) error {
	defer in.Close()
	for {
		event, err := in.Recv()
		switch {
		case errors.Is(err, io.EOF), hasCode(err, esdb.ErrorCodeResourceNotFound):
			return nil
		case err != nil:
			return err
		}
		if more, err := do(event); err != nil || !more {
			return err
		}
	}
}

func (l *Log) ReadStream(ctx context.Context, stream string, from uint64, direction eventlog.Direction,
	limit int) ([]eventlog.Recorded, error) {
	attempt := "read " + stream
	if err := eventlog.CheckStream(stream); err != nil {
		return nil, fmt.Errorf("read a stream: %w", err)
	}
	if err := eventlog.CheckLimit(limit); err != nil {
		return nil, fmt.Errorf("%s: %w", attempt, err)
	}
	options := esdb.ReadStreamOptions{From: esdb.Revision(from), Direction: esdb.Forwards}
	switch {
	case direction == eventlog.Backward:
		options.Direction = esdb.Backwards
		if from > math.MaxInt64 {
			options.From = esdb.End{}
		}
	case from > math.MaxInt64: // more than the server can count
		return nil, l.usable(ctx, attempt)
	}
	events, err := read(ctx, l, func(ctx context.Context, m *member) ([]eventlog.Recorded, error) {
		in, err := m.client.ReadStream(ctx, stream, options, uint64(limit))
		if err != nil {
			return nil, err
		}
		var events []eventlog.Recorded
		err = receive(in, func(event *esdb.ResolvedEvent) (bool, error) {
			e, ours, err := fromClient(event)
			if ours && err == nil {
				events = append(events, e)
			}
			return true, err
		})
		return events, err
	})
	if err != nil {
		return nil, readError(ctx, attempt, err)
	}
	return events, nil
}

// usable reports why a read cannot begin.
func (l *Log) usable(ctx context.Context, attempt string) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if l.closing.Err() != nil {
		return fmt.Errorf("%s: %w", attempt, eventlog.ErrClosed)
	}
	return nil
}

// ReadAll implements eventlog.Log. The server filters only subscriptions, so a filtered read that begins
// far from the end uses one; all other reads filter here.
func (l *Log) ReadAll(ctx context.Context, after eventlog.Position, filter eventlog.Filter,
	limit int) (eventlog.Page, error) {
	const attempt = "read all streams"
	if err := eventlog.CheckLimit(limit); err != nil {
		return eventlog.Page{}, fmt.Errorf("%s: %w", attempt, err)
	}
	far := !filter.All() && l.lastSeen().Position > after+farBytes
	page, err := read(ctx, l, func(ctx context.Context, m *member) (eventlog.Page, error) {
		if far && m.filters {
			return l.scan(ctx, m, after, filter, limit)
		}
		return readPage(ctx, m, after, filter, limit)
	})
	if err != nil {
		return eventlog.Page{}, readError(ctx, attempt, err)
	}
	if n := len(page.Events); n > 0 {
		l.noteSeen(eventlog.MarkOf(&page.Events[n-1]))
	}
	return page, nil
}

// readPage reads events and filters them.
func readPage(ctx context.Context, m *member, after eventlog.Position, filter eventlog.Filter,
	limit int) (eventlog.Page, error) {
	count := limit + 1 // the server begins with the event at the position itself
	if !filter.All() {
		count = min(max(filterRatio*limit, leastScan), eventlog.MaxPage)
	}
	in, err := m.client.ReadAll(ctx, esdb.ReadAllOptions{From: startAt(after), Direction: esdb.Forwards}, uint64(count))
	if err != nil {
		return eventlog.Page{}, err
	}
	page := eventlog.Page{Next: after}
	looked, bytes := 0, 0
	err = receive(in, func(event *esdb.ResolvedEvent) (bool, error) {
		looked++
		at := position(event)
		if at <= after {
			return true, nil
		}
		e, ours, err := fromClient(event)
		if err != nil {
			return false, err
		}
		page.Next = at
		if ours && filter.Match(e.Stream, e.Type) {
			page.Events = append(page.Events, e)
			bytes += len(e.Data)
		}
		return len(page.Events) < limit && bytes < maxPageBytes, nil
	})
	page.End = looked < count && len(page.Events) < limit && bytes < maxPageBytes
	return page, err
}

// scan reads a page through a subscription that the server filters. It never reports the end, because
// events that the server skipped may follow.
func (l *Log) scan(ctx context.Context, m *member, after eventlog.Position, filter eventlog.Filter,
	limit int) (eventlog.Page, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	f, err := l.follow(ctx, m, after, filter, catchingUp)
	if err != nil {
		return eventlog.Page{}, err
	}
	var page eventlog.Page
	bytes, began := 0, time.Now()
	for {
		event, err := f.next(ctx)
		if err != nil {
			return eventlog.Page{}, err
		}
		e, chosen, err := f.take(ctx, event)
		if err != nil {
			return eventlog.Page{}, err
		}
		page.Next = f.at
		if chosen {
			page.Events = append(page.Events, e)
			bytes += len(e.Data)
		}
		long := time.Since(began) > scanTime && f.at > after
		if event.CaughtUp != nil || len(page.Events) == limit || bytes >= maxPageBytes || long {
			return page, nil
		}
	}
}

// startAt converts a position for the client. Commit and prepare positions are equal for events that were
// appended in one step, as all are since version 5 of the server.
func startAt(p eventlog.Position) esdb.AllPosition {
	if p == 0 {
		return esdb.Start{}
	}
	return esdb.Position{Commit: uint64(p), Prepare: uint64(p)}
}

// readBack reads the global order backwards, beginning before the event at the position.
func readBack(ctx context.Context, client *esdb.Client, from esdb.AllPosition,
	count uint64) ([]*esdb.ResolvedEvent, error) {
	in, err := client.ReadAll(ctx, esdb.ReadAllOptions{From: from, Direction: esdb.Backwards}, count)
	if err != nil {
		return nil, err
	}
	var events []*esdb.ResolvedEvent
	err = receive(in, func(event *esdb.ResolvedEvent) (bool, error) {
		events = append(events, event)
		return true, nil
	})
	return events, err
}

// find returns the address (host:port) of the server to connect to: the only configured one, or the one
// that the servers of a cluster report and the configuration prefers. After a server that was not the
// leader, it is the leader, if one is known.
func (s *supervisor) find(ctx context.Context) (string, error) {
	preference, leader := s.conf.NodePreference, s.leader.Swap(false)
	if leader {
		preference = esdb.NodePreferenceLeader
	}
	if len(s.conf.GossipSeeds) == 0 && !s.conf.DnsDiscover {
		if !leader {
			return s.conf.Address, nil
		}
		members, err := s.members(ctx, s.conf.Address)
		if server, found := choose(members, preference); found && err == nil {
			return server, nil
		}
		return s.conf.Address, nil
	}
	seeds := s.seeds()
	var errs []error
	for _, i := range rand.Perm(len(seeds)) {
		members, err := s.members(ctx, seeds[i])
		if err == nil {
			if server, found := choose(members, preference); found {
				return server, nil
			}
			err = errors.New("it names no ready server")
		}
		errs = append(errs, fmt.Errorf("ask %s for the servers of the cluster: %w", seeds[i], err))
	}
	return "", errors.Join(errs...)
}

// seeds returns the configured addresses.
func (s *supervisor) seeds() (seeds []string) {
	if len(s.conf.GossipSeeds) == 0 {
		return []string{s.conf.Address}
	}
	for _, seed := range s.conf.GossipSeeds {
		seeds = append(seeds, seed.String())
	}
	return seeds
}

// Answers reports whether a configured server answers before ctx ends, if only that there is no leader or that it is
// not ready. A store whose servers hang does not.
func (l *Log) Answers(ctx context.Context) bool {
	var answered atomic.Bool
	var asking sync.WaitGroup
	for _, seed := range l.supervisor.seeds() {
		asking.Go(func() {
			_, err := l.supervisor.members(ctx, seed)
			if code := status.Code(err); code != codes.Unavailable && code != codes.DeadlineExceeded {
				answered.Store(true)
			}
		})
	}
	asking.Wait()
	return answered.Load()
}

// members requests the members of the cluster from a server.
func (s *supervisor) members(ctx context.Context, server string) ([]*gossip.MemberInfo, error) {
	transport, err := transportOf(s.conf)
	if err != nil {
		return nil, err
	}
	conn, err := grpc.NewClient(server, grpc.WithTransportCredentials(transport))
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	ctx, cancel := context.WithTimeout(ctx, min(probeTimeout, time.Duration(s.conf.GossipTimeout)*time.Second))
	defer cancel()
	cluster, err := gossip.NewGossipClient(conn).Read(ctx, &shared.Empty{})
	return cluster.GetMembers(), err
}

// transportOf returns the same transport that the client would use for the configuration.
func transportOf(conf *esdb.Configuration) (credentials.TransportCredentials, error) {
	if conf.DisableTLS {
		return insecure.NewCredentials(), nil
	}
	// the operator's tlsVerifyCert=false
	cfg := &tls.Config{InsecureSkipVerify: conf.SkipCertificateVerification, RootCAs: conf.RootCAs}
	if conf.UserCertFile != "" {
		own, err := tls.LoadX509KeyPair(conf.UserCertFile, conf.UserKeyFile)
		if err != nil {
			return nil, fmt.Errorf("userCertFile and userKeyFile: %w", err)
		}
		cfg.Certificates = []tls.Certificate{own}
	}
	return credentials.NewTLS(cfg), nil
}

// ready are the states in which a server answers, and preferred those that a preference selects first.
var (
	ready = []gossip.MemberInfo_VNodeState{
		gossip.MemberInfo_Leader, gossip.MemberInfo_Follower, gossip.MemberInfo_ReadOnlyReplica,
		gossip.MemberInfo_PreReadOnlyReplica, gossip.MemberInfo_ReadOnlyLeaderless,
	}
	preferred = map[esdb.NodePreference][]gossip.MemberInfo_VNodeState{
		esdb.NodePreferenceLeader:          {gossip.MemberInfo_Leader},
		esdb.NodePreferenceFollower:        {gossip.MemberInfo_Follower},
		esdb.NodePreferenceReadOnlyReplica: ready[2:],
	}
)

// choose returns one of the ready servers, a preferred one if possible. With a preference for the leader it
// returns no other server: during the seconds of an election the search is repeated.
func choose(members []*gossip.MemberInfo, preference esdb.NodePreference) (server string, found bool) {
	first := ""
	for _, i := range rand.Perm(len(members)) {
		m := members[i]
		if !m.GetIsAlive() || !slices.Contains(ready, m.GetState()) {
			continue
		}
		server = fmt.Sprintf("%s:%d", m.GetHttpEndPoint().GetAddress(), m.GetHttpEndPoint().GetPort())
		if slices.Contains(preferred[preference], m.GetState()) {
			return server, true
		}
		if first == "" && preference != esdb.NodePreferenceLeader {
			first = server
		}
	}
	return first, first != ""
}
