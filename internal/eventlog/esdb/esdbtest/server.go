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
	// leastPing is how often a client may ping. gRPC's own default of five minutes would take the client's
	// ten seconds for an attack and end its connections.
	leastPing = 5 * time.Second
	// maxMessage bounds what is received in one message: the largest append, which is refused by name, and
	// some.
	maxMessage = 4 << 20
	// maxStreams bounds the calls of one connection that are under way.
	maxStreams = 4096
)

// Server is a running stand-in: one or more nodes over one log.
type Server struct {
	// Faults are the faults to come.
	Faults Faults

	cfg   Config
	codec codec
	store *store
	nodes []*node
	chaos *chaos

	appends, reads, subscriptions, sent, drops atomic.Int64

	mu      sync.Mutex
	leader  int
	version string
	noisy   bool
	dropped chan struct{} // closed to drop the subscriptions
	// withheld is closed when subscriptions are confirmed again, nil while they are.
	withheld chan struct{}
	once     sync.Once
	closed   error
}

// node is one address of the server.
type node struct {
	serverfeatures.UnimplementedServerFeaturesServer
	gossip.UnimplementedGossipServer

	server  *Server
	index   int
	address string

	// Guarded by the server's mu.
	grpc  *grpc.Server // nil while stopped
	conns map[net.Conn]*trackedConn
}

// New serves until Close.
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
	for i, address := range cfg.Listen {
		n := &node{server: s, index: i, address: address, conns: map[net.Conn]*trackedConn{}}
		s.nodes = append(s.nodes, n)
		if err := n.start(); err != nil {
			return nil, errors.Join(err, s.Close())
		}
	}
	s.chaos = startChaos(s, cfg.Chaos)
	return s, nil
}

// TB is what Start needs of a test.
type TB interface {
	Helper()
	Fatal(args ...any)
	Error(args ...any)
	Cleanup(func())
}

// Start serves an empty log in memory, on a free port of the loopback interface, until the test ends.
func Start(t TB) *Server {
	t.Helper()
	return StartWith(t, Config{})
}

// StartWith serves until the test ends.
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

// Close stops serving and closes the log. Closing again returns what the first Close returned.
func (s *Server) Close() error {
	s.once.Do(func() {
		s.chaos.stop()
		s.Stop()
		s.closed = s.store.close()
	})
	return s.closed
}

// Ports of nodes whose address names none lie below those that the system gives to listeners and connections (from
// 32768 on by default): one of those might be taken by somebody else while the node is stopped.
const (
	firstPort, ports = 30_000, 2_700
	portTries        = 100
)

// nextPort goes round: a port that was given is the last to be given again, since its node may be stopped.
var nextPort = sync.OnceValue(func() *atomic.Int64 {
	var n atomic.Int64
	n.Store(rand.Int64N(ports)) // other processes have servers too
	return &n
})

// listen listens at an address; where it names port 0, at a free port of those above, or at whichever the system
// gives when all that were tried are taken.
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

// start listens and serves. The address keeps the port it got first.
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
			s.cfg.Logger.Error("event store stand-in: serving ended", "address", n.address, "error", err)
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

// Stop stops all nodes at once. What was committed stays.
func (s *Server) Stop() {
	for _, n := range s.nodes {
		n.stop()
	}
}

// Leave makes all nodes stop as servers do that are asked to: they take no new connections and calls, say so on the
// connections that are open, and go on with what is under way there until Stop. Their addresses are free.
func (s *Server) Leave() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, n := range s.nodes {
		if n.grpc != nil {
			go n.grpc.GracefulStop()
		}
	}
}

// Restart serves again on all nodes, at the same addresses, what was committed.
func (s *Server) Restart() error {
	var errs []error
	for i := range s.nodes {
		errs = append(errs, s.RestartNode(i))
	}
	return errors.Join(errs...)
}

// StopNode stops one node.
func (s *Server) StopNode(i int) { s.nodes[i].stop() }

// RestartNode serves again on one node, if it was stopped.
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

// SetVersion changes what the server says it is, for clients that connect from now on, and what it does with
// slow subscribers.
func (s *Server) SetVersion(version string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.version = version
}

// Counts says what the server has done so far.
type Counts struct {
	Appends, Reads, Subscriptions int64 // calls
	Sent                          int64 // events that went out
	Refused                       int64 // appends at the wrong revision
	Dropped                       int64 // appends that the server did not answer before its timeout
}

// Counts says what the server has done so far.
func (s *Server) Counts() Counts {
	return Counts{Appends: s.appends.Load(), Reads: s.reads.Load(), Subscriptions: s.subscriptions.Load(), Sent: s.sent.Load(), Refused: s.store.refused.Load(), Dropped: s.drops.Load()}
}

// Connections says how many connections are open.
func (s *Server) Connections() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := 0
	for _, node := range s.nodes {
		n += len(node.conns)
	}
	return n
}

// Addresses are where the nodes listen (host:port).
func (s *Server) Addresses() []string {
	addresses := make([]string, len(s.nodes))
	for i, n := range s.nodes {
		addresses[i] = n.address
	}
	return addresses
}

// ConnectionString is what a client needs to find the server: one node by its address, several by gossip.
// Credentials are the caller's to add.
func (s *Server) ConnectionString() string {
	scheme := "esdb"
	if len(s.nodes) > 1 {
		scheme = "esdb+discover"
	}
	return fmt.Sprintf("%s://%s?tls=%t", scheme, strings.Join(s.Addresses(), ","), s.cfg.Certificate != nil)
}

// BreakConnections resets all connections; new ones are accepted.
func (s *Server) BreakConnections() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, n := range s.nodes {
		for conn := range n.conns {
			if tcp, ok := conn.(*net.TCPConn); ok {
				_ = tcp.SetLinger(0) // a reset and not an orderly end
			}
			_ = conn.Close()
		}
	}
}

// LoseConnections loses all connections without a word, as a network does whose middle forgets them: they
// stay open, and nothing arrives on them any more, in either direction. New ones are served.
func (s *Server) LoseConnections() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, n := range s.nodes {
		for _, conn := range n.conns {
			conn.lost.Store(true)
		}
	}
}

// HoldIndex delays the indexing of new events until release is called: the events are written, but cannot be
// read, and their appends have no answer. The caller must release before the server is closed.
func (s *Server) HoldIndex() (release func()) { return s.store.hold() }

// WithholdConfirmations leaves new subscriptions without any answer until release is called, as a server does whose
// queue of reads stalls.
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

// DropSubscriptions ends all subscriptions as servers before 24.2 end those of slow consumers.
func (s *Server) DropSubscriptions() {
	s.mu.Lock()
	defer s.mu.Unlock()
	close(s.dropped)
	s.dropped = make(chan struct{})
}

// Noise makes the server append an event and a link of its own after each append from now on.
func (s *Server) Noise() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.noisy = true
}

// tracked notes the connections, so that they can be broken and lost.
type tracked struct {
	net.Listener
	node *node
}

// trackedConn forgets itself when it is closed.
type trackedConn struct {
	net.Conn
	node *node
	lost atomic.Bool
}

// Read implements net.Conn. What comes on a lost connection is dropped.
func (c *trackedConn) Read(b []byte) (int, error) {
	for {
		if n, err := c.Conn.Read(b); err != nil || !c.lost.Load() {
			return n, err
		}
	}
}

// Write implements net.Conn. What goes out on a lost connection is dropped.
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

// GetSupportedMethods is the first thing a client asks.
func (n *node) GetSupportedMethods(context.Context, *shared.Empty) (*serverfeatures.SupportedMethods, error) {
	s := n.server
	s.mu.Lock()
	defer s.mu.Unlock()
	return &serverfeatures.SupportedMethods{EventStoreServerVersion: s.version}, nil
}

// members says who is there, and who leads.
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

// endpoint splits an address that net.Listener gave.
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

// leads says whether a node is the leader, and who is.
func (n *node) leads() (leader *node, leads bool) {
	s := n.server
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.nodes[s.leader], s.leader == n.index
}
