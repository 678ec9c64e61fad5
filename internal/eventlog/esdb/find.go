package esdb

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
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
)

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
