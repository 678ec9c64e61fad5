package esdb

import (
	"errors"
	"net/url"
	"sync"
	"sync/atomic"

	"google.golang.org/grpc/attributes"
	"google.golang.org/grpc/balancer"
	"google.golang.org/grpc/balancer/base"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/connectivity"
	"google.golang.org/grpc/resolver"
	"google.golang.org/grpc/status"

	"github.com/google/uuid"
)

// Both the client and gRPC reconnect when a connection ends or the server asks its clients to
// leave, and the next call goes to whatever server has the address by then, which is too late for
// Config.Admit. A member's client therefore gets an address of the scheme below, which leads to a server
// only once: every call of the member uses the one connection that was compared, or fails. gRPC's resolvers
// and balancers are the only parts of a connection that the client lets others replace.
const singleConnScheme = "letterhead-single-connection"

func init() {
	resolver.Register(singleConnResolver{})
	balancer.Register(singleConnBuilder{})
}

// textEnded is part of the errors of calls that were not sent because the connection had ended.
const textEnded = "the connection to the event store that was compared has ended"

// errEnded is the error of calls after the connection has ended. It makes the client look for a server, and
// errNoSecond ends that search: the client takes Unimplemented for the answer of an old server.
var (
	errEnded    = status.Error(codes.Unavailable, textEnded)
	errNoSecond = status.Error(codes.Unimplemented, textEnded)
)

// singleConns holds those that clients may still use, by name.
var singleConns sync.Map

// singleConn is the permission to make one connection.
type singleConn struct {
	name   string
	server string
	ended  chan struct{}                    // closed when the connection has ended or may no longer be made
	made   atomic.Pointer[balancer.SubConn] // the one connection, nil before it is made

	mu    sync.Mutex
	used  bool
	over  bool
	conns []balancer.SubConn
}

// newSingleConn returns a singleConn to a server (host:port) that the caller must end.
func newSingleConn(server string) *singleConn {
	c := &singleConn{name: uuid.NewString(), server: server, ended: make(chan struct{})}
	singleConns.Store(c.name, c)
	return c
}

// address returns the address that leads a client to the server through this connection.
func (c *singleConn) address() string {
	return (&url.URL{Scheme: singleConnScheme, Host: c.name, Path: "/" + c.server}).String()
}

// sharing ends the address for calls over the connection that the client has made.
const sharing = "?shared"

// hold makes end close a connection, because the client may forget it without closing it.
func (c *singleConn) hold(conn balancer.SubConn) {
	c.mu.Lock()
	over := c.over
	if !over {
		c.conns = append(c.conns, conn)
	}
	c.mu.Unlock()
	if over {
		conn.Shutdown()
	}
}

// take reports whether a new connection is the permitted one; any other must not be used.
func (c *singleConn) take(conn balancer.SubConn) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	first := !c.used && !c.over
	if c.used = true; first {
		c.made.Store(&conn)
	}
	return first
}

// spent reports whether no connection can be made any more.
func (c *singleConn) spent() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.used || c.over
}

// end may be called more than once. Running calls may complete.
func (c *singleConn) end() {
	c.mu.Lock()
	conns := c.conns
	c.conns = nil
	if !c.over {
		c.over = true
		singleConns.Delete(c.name)
		close(c.ended)
	}
	c.mu.Unlock()
	for _, conn := range conns {
		conn.Shutdown()
	}
}

// singleConnKey is the attribute with a connection's singleConn; without it the singleConn has ended.
type singleConnKey struct{}

// singleConnResolver passes the address on unchanged, and the dialer resolves it.
type singleConnResolver struct{}

func (singleConnResolver) Scheme() string { return singleConnScheme }

func (singleConnResolver) Build(target resolver.Target, cc resolver.ClientConn,
	_ resolver.BuildOptions) (resolver.Resolver, error) {
	state := resolver.State{
		Addresses:     []resolver.Address{{Addr: target.Endpoint()}},
		ServiceConfig: cc.ParseServiceConfig(`{"loadBalancingConfig":[{"` + singleConnScheme + `":{}}]}`),
	}
	if t, ok := singleConns.Load(target.URL.Host); ok {
		state.Attributes = attributes.New(singleConnKey{}, t)
	}
	return unchanging{}, cc.UpdateState(state)
}

type unchanging struct{}

func (unchanging) ResolveNow(resolver.ResolveNowOptions) {}
func (unchanging) Close()                                {}

type singleConnBuilder struct{}

func (singleConnBuilder) Name() string { return singleConnScheme }

func (singleConnBuilder) Build(cc balancer.ClientConn, o balancer.BuildOptions) balancer.Balancer {
	return &singleConnBalancer{cc: cc, shares: "?"+o.Target.URL.RawQuery == sharing}
}

// singleConnBalancer is the balancer of one of the client's connections. gRPC calls its methods one at a time.
type singleConnBalancer struct {
	cc      balancer.ClientConn
	shares  bool // another client's connection
	allowed *singleConn
	conn    balancer.SubConn
	up      bool
}

var _ balancer.Balancer = (*singleConnBalancer)(nil)

func (b *singleConnBalancer) UpdateClientConnState(s balancer.ClientConnState) error {
	if b.conn != nil {
		return nil
	}
	allowed, known := s.ResolverState.Attributes.Value(singleConnKey{}).(*singleConn)
	if known && allowed.made.Load() != nil && b.shares {
		b.carry(*allowed.made.Load())
		return nil
	}
	if !known || allowed.spent() {
		b.fail(errNoSecond)
		return nil
	}
	b.allowed = allowed
	var err error
	//lint:ignore SA1019 the warning is about several addresses, and this is one
	b.conn, err = b.cc.NewSubConn(s.ResolverState.Addresses, balancer.NewSubConnOptions{StateListener: b.changed})
	if err != nil {
		return err
	}
	b.allowed.hold(b.conn)
	b.cc.UpdateState(balancer.State{ConnectivityState: connectivity.Connecting,
		Picker: base.NewErrPicker(balancer.ErrNoSubConnAvailable)})
	b.conn.Connect()
	return nil
}

func (b *singleConnBalancer) changed(s balancer.SubConnState) {
	switch s.ConnectivityState {
	case connectivity.Ready:
		if b.up = b.allowed.take(b.conn); !b.up {
			b.fail(errNoSecond)
			b.conn.Shutdown()
			return
		}
		b.carry(b.conn)
	case connectivity.TransientFailure, connectivity.Idle, connectivity.Shutdown:
		if b.up {
			b.allowed.end()
			b.fail(errEnded)
			return
		}
		b.fail(errors.Join(s.ConnectionError)) // which may be nil
	}
}

// carry makes a connection carry every call.
func (b *singleConnBalancer) carry(conn balancer.SubConn) {
	b.cc.UpdateState(balancer.State{ConnectivityState: connectivity.Ready,
		Picker: carried{balancer.PickResult{SubConn: conn}}})
}

// fail fails every call from now on.
func (b *singleConnBalancer) fail(err error) {
	if err == nil {
		err = errEnded
	}
	b.cc.UpdateState(balancer.State{ConnectivityState: connectivity.TransientFailure, Picker: base.NewErrPicker(err)})
}

func (b *singleConnBalancer) ResolverError(error)                                        {}
func (b *singleConnBalancer) UpdateSubConnState(balancer.SubConn, balancer.SubConnState) {}
func (b *singleConnBalancer) ExitIdle()                                                  {}

func (b *singleConnBalancer) Close() {
	if b.up {
		b.allowed.end()
	}
	if b.conn != nil {
		b.conn.Shutdown()
	}
}

// carried picks the one connection.
type carried struct{ result balancer.PickResult }

func (c carried) Pick(balancer.PickInfo) (balancer.PickResult, error) { return c.result, nil }
