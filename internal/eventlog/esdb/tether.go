package esdb

import (
	"errors"
	"net/url"
	"sync"

	"google.golang.org/grpc/attributes"
	"google.golang.org/grpc/balancer"
	"google.golang.org/grpc/balancer/base"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/connectivity"
	"google.golang.org/grpc/resolver"
	"google.golang.org/grpc/status"

	"github.com/google/uuid"
)

// Both the client and gRPC reconnect by themselves when a connection ends or the server asks its clients to
// leave, and the next call goes to whatever server has the address by then, which is too late for
// Config.Admit. A member's client therefore gets an address of the scheme below, which leads to a server
// only once: every call of the member uses the one connection that was compared, or fails. gRPC's resolvers
// and balancers are the only parts of a connection that the client lets others replace.
const tetherName = "letterhead-tether"

func init() {
	resolver.Register(tetherResolver{})
	balancer.Register(tetherBalancer{})
}

// textEnded is part of the errors of calls that were not sent because the tether had ended.
const textEnded = "the connection to the event store that was compared has ended"

// unavailable is the error of calls after the connection has ended. It makes the client look for a server,
// and an apparent success ends that search: an error about an unknown question is such an answer.
var (
	errEnded    = status.Error(codes.Unavailable, textEnded)
	errNoSecond = status.Error(codes.Unimplemented, textEnded)
)

// tethers holds the tethers that clients may still request, by name.
var tethers sync.Map

// tether is the right to make one connection.
type tether struct {
	name  string
	ended chan struct{} // closed when the connection has ended or may no longer be made

	mu    sync.Mutex
	used  bool
	over  bool
	conns []balancer.SubConn
}

// newTether returns a tether that the caller must end.
func newTether() *tether {
	t := &tether{name: uuid.NewString(), ended: make(chan struct{})}
	tethers.Store(t.name, t)
	return t
}

// address returns the address that leads a client to a server (host:port) through this tether.
func (t *tether) address(server string) string {
	return (&url.URL{Scheme: tetherName, Host: t.name, Path: "/" + server}).String()
}

// hold makes end close a connection, which the client may forget without closing it.
func (t *tether) hold(conn balancer.SubConn) {
	t.mu.Lock()
	over := t.over
	if !over {
		t.conns = append(t.conns, conn)
	}
	t.mu.Unlock()
	if over {
		conn.Shutdown()
	}
}

// take reports whether a new connection is the permitted one; any other must not be used.
func (t *tether) take() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	first := !t.used && !t.over
	t.used = true
	return first
}

// spent reports whether no connection can be made any more.
func (t *tether) spent() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.used || t.over
}

// end may be called more than once. Running calls may complete.
func (t *tether) end() {
	t.mu.Lock()
	conns := t.conns
	t.conns = nil
	if !t.over {
		t.over = true
		tethers.Delete(t.name)
		close(t.ended)
	}
	t.mu.Unlock()
	for _, conn := range conns {
		conn.Shutdown()
	}
}

// tetherKey is the attribute with a connection's tether; without it the tether has ended.
type tetherKey struct{}

// tetherResolver passes the address on unchanged, and the dialer resolves it.
type tetherResolver struct{}

func (tetherResolver) Scheme() string { return tetherName }

func (tetherResolver) Build(target resolver.Target, cc resolver.ClientConn, _ resolver.BuildOptions) (resolver.Resolver, error) {
	state := resolver.State{
		Addresses:     []resolver.Address{{Addr: target.Endpoint()}},
		ServiceConfig: cc.ParseServiceConfig(`{"loadBalancingConfig":[{"` + tetherName + `":{}}]}`),
	}
	if t, ok := tethers.Load(target.URL.Host); ok {
		state.Attributes = attributes.New(tetherKey{}, t)
	}
	return unchanging{}, cc.UpdateState(state)
}

type unchanging struct{}

func (unchanging) ResolveNow(resolver.ResolveNowOptions) {}
func (unchanging) Close()                                {}

type tetherBalancer struct{}

func (tetherBalancer) Name() string { return tetherName }

func (tetherBalancer) Build(cc balancer.ClientConn, _ balancer.BuildOptions) balancer.Balancer {
	return &tethered{cc: cc}
}

// tethered is the balancer of one of the client's connections. gRPC calls its methods one at a time.
type tethered struct {
	cc     balancer.ClientConn
	tether *tether
	conn   balancer.SubConn
	up     bool
}

var _ balancer.Balancer = (*tethered)(nil)

func (t *tethered) UpdateClientConnState(s balancer.ClientConnState) error {
	if t.conn != nil {
		return nil
	}
	var known bool
	if t.tether, known = s.ResolverState.Attributes.Value(tetherKey{}).(*tether); !known || t.tether.spent() {
		t.refuse(errNoSecond)
		return nil
	}
	var err error
	//lint:ignore SA1019 the warning is of several addresses, and this is one
	if t.conn, err = t.cc.NewSubConn(s.ResolverState.Addresses, balancer.NewSubConnOptions{StateListener: t.changed}); err != nil {
		return err
	}
	t.tether.hold(t.conn)
	t.cc.UpdateState(balancer.State{ConnectivityState: connectivity.Connecting, Picker: base.NewErrPicker(balancer.ErrNoSubConnAvailable)})
	t.conn.Connect()
	return nil
}

func (t *tethered) changed(s balancer.SubConnState) {
	switch s.ConnectivityState {
	case connectivity.Ready:
		if t.up = t.tether.take(); !t.up {
			t.refuse(errNoSecond)
			t.conn.Shutdown()
			return
		}
		t.cc.UpdateState(balancer.State{ConnectivityState: connectivity.Ready, Picker: carried{balancer.PickResult{SubConn: t.conn}}})
	case connectivity.TransientFailure, connectivity.Idle, connectivity.Shutdown:
		if t.up {
			t.tether.end()
			t.refuse(errEnded)
			return
		}
		t.refuse(errors.Join(s.ConnectionError)) // which may be nil
	}
}

// refuse fails every call from now on.
func (t *tethered) refuse(err error) {
	if err == nil {
		err = errEnded
	}
	t.cc.UpdateState(balancer.State{ConnectivityState: connectivity.TransientFailure, Picker: base.NewErrPicker(err)})
}

func (t *tethered) ResolverError(error)                                        {}
func (t *tethered) UpdateSubConnState(balancer.SubConn, balancer.SubConnState) {}
func (t *tethered) ExitIdle()                                                  {}

func (t *tethered) Close() {
	if t.up {
		t.tether.end()
	}
	if t.conn != nil {
		t.conn.Shutdown()
	}
}

// carried picks the one connection.
type carried struct{ result balancer.PickResult }

func (c carried) Pick(balancer.PickInfo) (balancer.PickResult, error) { return c.result, nil }
