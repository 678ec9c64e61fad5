package esdbtest

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/EventStore/EventStore-Client-Go/v4/protos/gossip"
	"github.com/EventStore/EventStore-Client-Go/v4/protos/serverfeatures"
	"github.com/EventStore/EventStore-Client-Go/v4/protos/shared"
	"github.com/EventStore/EventStore-Client-Go/v4/protos/streams"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/keepalive"
)

const (
	// leastPing is the minimum interval between two pings of a client. The client pings every ten seconds; with gRPC's
	// default of five minutes the server would close its connections.
	leastPing = 5 * time.Second
	// maxMessage is the maximum size of a received message. It is above maxAppend, so that the server can reject an
	// append that is too large with the right error.
	maxMessage = 4 << 20
	// maxStreams is the maximum number of concurrent calls on a connection.
	maxStreams = 4096
)

// Server is a running stand-in: one or more nodes that share a log.
type Server struct {
	// Faults are the queued faults of single calls.
	Faults Faults

	cfg   Config
	codec codec
	store *store
	nodes []*node
	chaos *chaos

	appends, reads, subscriptions, sent, drops, slow, batches atomic.Int64

	mu      sync.Mutex
	leader  int
	version string
	noisy   bool
	dropped chan struct{} // closed to drop all subscriptions
	// withheld is closed when subscriptions are confirmed again. It is nil if they are not withheld.
	withheld chan struct{}
	once     sync.Once
	closed   error
}

// node is one node of the server, with its own address.
type node struct {
	serverfeatures.UnimplementedServerFeaturesServer
	gossip.UnimplementedGossipServer

	server  *Server
	index   int
	address string

	// Guarded by server.mu.
	grpc  *grpc.Server // nil while stopped
	conns map[net.Conn]*trackedConn
}

// New starts a server, which runs until Close.
func New(cfg Config) (*Server, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	cfg = cfg.withDefaults()
	s := &Server{cfg: cfg, dropped: make(chan struct{}), noisy: cfg.Noise, version: cfg.Version}
	var err error
	if s.codec, err = newCodec(); err != nil {
		return nil, err
	}
	if s.store, err = openStore(cfg.Dir, cfg.FlushTime, cfg.Now); err != nil {
		return nil, fmt.Errorf("event store stand-in: %w", err)
	}
	s.chaos = newChaos(cfg.Chaos)
	for i, address := range cfg.Listen {
		n := &node{server: s, index: i, address: address, conns: map[net.Conn]*trackedConn{}}
		s.nodes = append(s.nodes, n)
		if err := n.start(); err != nil {
			return nil, errors.Join(err, s.Close())
		}
	}
	s.chaos.start(s)
	return s, nil
}

// TB contains the methods of testing.TB that Start uses.
type TB interface {
	Helper()
	Fatal(args ...any)
	Error(args ...any)
	Cleanup(func())
}

// Start starts a server with an empty log in memory, on a free port of the loopback interface, until the test ends.
func Start(t TB) *Server {
	t.Helper()
	return StartWith(t, Config{})
}

// StartWith starts a server until the test ends.
func StartWith(t TB, cfg Config) *Server {
	t.Helper()
	s, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// Close stops the server and closes the log. Further calls return the same error.
func (s *Server) Close() error {
	s.once.Do(func() {
		s.chaos.stop()
		s.Stop()
		s.closed = s.store.close()
	})
	return s.closed
}

// Nodes without a configured port get one below the system's ephemeral ports (by default from 32768 on), because
// another process could get an ephemeral port while the node is stopped.
const (
	firstPort, ports = 30_000, 2_700
	portTries        = 100
)

// nextPort counts through all ports before it repeats one, because the node of a used port may only be stopped.
var nextPort = sync.OnceValue(func() *atomic.Int64 {
	var n atomic.Int64
	n.Store(rand.Int64N(ports)) // other processes may start servers too
	return &n
})

// listen listens on an address. For port 0 it tries some of the ports above, and then lets the system choose one.
func listen(address string) (net.Listener, error) {
	if host, port, err := net.SplitHostPort(address); err == nil && port == "0" {
		for range portTries {
			l, err := net.Listen("tcp", net.JoinHostPort(host, strconv.FormatInt(firstPort+nextPort().Add(1)%ports, 10)))
			if err == nil {
				return l, nil
			}
		}
	}
	return net.Listen("tcp", address)
}

// start listens and serves. A node keeps the port that it got first.
func (n *node) start() error {
	listener, err := listen(n.address)
	if err != nil {
		return fmt.Errorf("event store stand-in: %w", err)
	}
	n.address = listener.Addr().String()
	s := n.server
	options := []grpc.ServerOption{
		grpc.ForceServerCodecV2(s.codec),
		grpc.MaxRecvMsgSize(maxMessage),
		grpc.MaxConcurrentStreams(maxStreams),
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: leastPing, PermitWithoutStream: true}),
		grpc.StreamInterceptor(s.authorize),
	}
	if s.cfg.Certificate != nil {
		conf := &tls.Config{Certificates: []tls.Certificate{*s.cfg.Certificate}, MinVersion: tls.VersionTLS12}
		if s.cfg.ClientCAs != nil {
			conf.ClientCAs, conf.ClientAuth = s.cfg.ClientCAs, tls.VerifyClientCertIfGiven
		}
		options = append(options, grpc.Creds(credentials.NewTLS(conf)))
	}
	server := grpc.NewServer(options...)
	streams.RegisterStreamsServer(server, streamsService{node: n})
	serverfeatures.RegisterServerFeaturesServer(server, n)
	gossip.RegisterGossipServer(server, n)
	s.mu.Lock()
	n.grpc = server
	s.mu.Unlock()
	go func() {
		if err := server.Serve(&tracked{Listener: listener, node: n}); err != nil && !errors.Is(err, grpc.ErrServerStopped) {
			s.cfg.Logger.Error("event store stand-in: server stopped unexpectedly", "address", n.address, "error", err)
		}
	}()
	return nil
}

func (n *node) stop() {
	s := n.server
	s.mu.Lock()
	server := n.grpc
	n.grpc = nil
	s.mu.Unlock()
	if server != nil {
		server.Stop()
	}
}

// Stop stops all nodes immediately. Committed events are kept.
func (s *Server) Stop() {
	for _, n := range s.nodes {
		n.stop()
	}
}

// Leave begins a graceful stop of all nodes, as real servers do on request: they free their addresses, reject new
// connections and calls, notify clients on open connections, and continue the calls in progress until Stop.
func (s *Server) Leave() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, n := range s.nodes {
		if n.grpc != nil {
			go n.grpc.GracefulStop()
		}
	}
}

// Restart starts all stopped nodes again, at the same addresses and with the committed events.
func (s *Server) Restart() error {
	var errs []error
	for i := range s.nodes {
		errs = append(errs, s.RestartNode(i))
	}
	return errors.Join(errs...)
}

// StopNode stops one node.
func (s *Server) StopNode(i int) { s.nodes[i].stop() }

// RestartNode starts a node again if it is stopped.
func (s *Server) RestartNode(i int) error {
	s.mu.Lock()
	running := s.nodes[i].grpc != nil
	s.mu.Unlock()
	if running {
		return nil
	}
	return s.nodes[i].start()
}

// Lead makes a node the leader.
func (s *Server) Lead(i int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.leader = i
}

// SetVersion changes the version that new clients see, and the corresponding behavior with slow subscribers.
func (s *Server) SetVersion(version string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.version = version
}

// Counts contains totals since the server started.
type Counts struct {
	Appends, Reads, Subscriptions int64 // calls
	Sent                          int64 // events
	Rejected                      int64 // appends at the wrong revision
	Dropped                       int64 // appends that the server did not answer before its timeout
	Slow                          int64 // how often a live subscription was too slow
	Batches                       int64 // calls that carry many appends
}

// Counts returns totals since the server started.
func (s *Server) Counts() Counts {
	return Counts{
		Appends: s.appends.Load(), Reads: s.reads.Load(), Subscriptions: s.subscriptions.Load(), Sent: s.sent.Load(),
		Rejected: s.store.rejected.Load(), Dropped: s.drops.Load(), Slow: s.slow.Load(), Batches: s.batches.Load(),
	}
}

// Connections returns the number of open connections.
func (s *Server) Connections() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := 0
	for _, node := range s.nodes {
		n += len(node.conns)
	}
	return n
}

// Addresses returns the addresses (host:port) of the nodes.
func (s *Server) Addresses() []string {
	addresses := make([]string, len(s.nodes))
	for i, n := range s.nodes {
		addresses[i] = n.address
	}
	return addresses
}

// ConnectionString returns a connection string without credentials. A client finds several nodes by gossip.
func (s *Server) ConnectionString() string {
	scheme := "esdb"
	if len(s.nodes) > 1 {
		scheme = "esdb+discover"
	}
	return fmt.Sprintf("%s://%s?tls=%t", scheme, strings.Join(s.Addresses(), ","), s.cfg.Certificate != nil)
}

// BreakConnections resets all open connections. Clients can connect again.
func (s *Server) BreakConnections() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, n := range s.nodes {
		for conn := range n.conns {
			if tcp, ok := conn.(*net.TCPConn); ok {
				_ = tcp.SetLinger(0) // sends RST instead of FIN
			}
			_ = conn.Close()
		}
	}
}

// LoseConnections simulates a network that silently drops the packets of all open connections, in both directions. The
// connections stay open. New connections work.
func (s *Server) LoseConnections() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, n := range s.nodes {
		for _, conn := range n.conns {
			conn.lost.Store(true)
		}
	}
}

// HoldIndex delays the indexing of new events until release is called: the events are written but cannot be read, and
// their appends get no answer. The caller must call release before it closes the server.
func (s *Server) HoldIndex() (release func()) { return s.store.hold() }

// WithholdConfirmations delays the confirmation of new subscriptions until release is called, as a server with a
// stalled read queue does.
func (s *Server) WithholdConfirmations() (release func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	withheld := make(chan struct{})
	s.withheld = withheld
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.withheld = nil
		close(withheld)
	}
}

// DropSubscriptions ends all subscriptions in the way in which servers before 24.2 end subscriptions of slow consumers.
func (s *Server) DropSubscriptions() {
	s.mu.Lock()
	defer s.mu.Unlock()
	close(s.dropped)
	s.dropped = make(chan struct{})
}

// Noise makes the server append a system event and a link after each append from now on.
func (s *Server) Noise() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.noisy = true
}

// tracked registers the connections that it accepts, so that they can be reset or lost.
type tracked struct {
	net.Listener
	node *node
}

// trackedConn unregisters itself when it is closed.
type trackedConn struct {
	net.Conn
	node *node
	lost atomic.Bool
}

// Read implements net.Conn. It discards data from a lost connection.
func (c *trackedConn) Read(b []byte) (int, error) {
	for {
		if n, err := c.Conn.Read(b); err != nil || !c.lost.Load() {
			return n, err
		}
	}
}

// Write implements net.Conn. It discards data for a lost connection.
func (c *trackedConn) Write(b []byte) (int, error) {
	if c.lost.Load() {
		return len(b), nil
	}
	return c.Conn.Write(b)
}

// Accept implements net.Listener.
func (l *tracked) Accept() (net.Conn, error) {
	conn, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	s := l.node.server
	s.mu.Lock()
	defer s.mu.Unlock()
	c := &trackedConn{Conn: conn, node: l.node}
	l.node.conns[conn] = c
	return c, nil
}

// Close implements net.Conn.
func (c *trackedConn) Close() error {
	s := c.node.server
	s.mu.Lock()
	delete(c.node.conns, c.Conn)
	s.mu.Unlock()
	return c.Conn.Close()
}

// GetSupportedMethods returns the server's version. Clients call it first.
func (n *node) GetSupportedMethods(context.Context, *shared.Empty) (*serverfeatures.SupportedMethods, error) {
	s := n.server
	s.mu.Lock()
	defer s.mu.Unlock()
	return &serverfeatures.SupportedMethods{EventStoreServerVersion: s.version}, nil
}

// members returns the nodes with their states.
func (n *node) members() []*gossip.MemberInfo {
	s := n.server
	s.mu.Lock()
	defer s.mu.Unlock()
	var members []*gossip.MemberInfo
	for i, other := range s.nodes {
		state := gossip.MemberInfo_Follower
		if i == s.leader {
			state = gossip.MemberInfo_Leader
		}
		host, port := other.endpoint()
		members = append(members, &gossip.MemberInfo{
			State: state, IsAlive: other.grpc != nil,
			HttpEndPoint: &gossip.EndPoint{Address: host, Port: uint32(port)},
		})
	}
	return members
}

// endpoint returns the host and the port of the node's address.
func (n *node) endpoint() (host string, port uint16) {
	host, text, err := net.SplitHostPort(n.address)
	if err != nil {
		return n.address, 0
	}
	number, err := strconv.ParseUint(text, 10, 16)
	if err != nil {
		return host, 0
	}
	return host, uint16(number)
}

// leads returns the leader, and reports whether it is this node.
func (n *node) leads() (leader *node, leads bool) {
	s := n.server
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.nodes[s.leader], s.leader == n.index
}
