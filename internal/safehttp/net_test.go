package safehttp_test

import (
	"bufio"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"log"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"sync"
	"syscall"
	"testing"

	"letterhead/internal/safehttp"
	"letterhead/internal/testcert"
	"letterhead/internal/testmust"
)

// internet simulates the network of a client: names, and servers at addresses that look public. It is
// below the guard, so dial receives only approved addresses. It records them.
type internet struct {
	t      *testing.T
	mu     sync.Mutex
	names  map[string]func(asked int) ([]netip.Addr, error)
	asked  map[string]int
	hosts  map[string]func(net.Conn) // by address and port
	dialed []string
	pipes  bool
	done   sync.WaitGroup
}

func newInternet(t *testing.T) *internet {
	n := &internet{t: t, names: map[string]func(int) ([]netip.Addr, error){}, asked: map[string]int{}, hosts: map[string]func(net.Conn){}}
	t.Cleanup(n.done.Wait)
	return n
}

var quiet = log.New(io.Discard, "", 0)

// public is an address for a test server.
const public = "93.184.216.34"

func addrs(list ...string) []netip.Addr {
	var out []netip.Addr
	for _, s := range list {
		out = append(out, netip.MustParseAddr(s))
	}
	return out
}

func (n *internet) name(host string, list ...string) {
	n.names[host] = func(int) ([]netip.Addr, error) { return addrs(list...), nil }
}

// serve installs a server at an address and port.
func (n *internet) serve(addr string, conn func(net.Conn)) { n.hosts[addr] = conn }

// site adds a plain HTTP host with a name.
func (n *internet) site(host string, h http.Handler) {
	n.name(host, public)
	n.serve(public+":80", n.http(h, nil))
}

// http serves the requests of one connection, with HTTP/1.1. With a certificate it uses TLS.
func (n *internet) http(h http.Handler, config *tls.Config) func(net.Conn) {
	return func(conn net.Conn) {
		if config != nil {
			conn = tls.Server(conn, config)
		}
		one := &oneConn{conn: conn, closed: make(chan struct{})}
		server := &http.Server{Handler: h, ErrorLog: quiet, ConnState: func(_ net.Conn, s http.ConnState) {
			if s == http.StateClosed || s == http.StateHijacked {
				one.Close()
			}
		}}
		_ = server.Serve(one) // ends with the connection
	}
}

// LookupNetIP implements safehttp.Resolver.
func (n *internet) LookupNetIP(ctx context.Context, _, host string) ([]netip.Addr, error) {
	n.mu.Lock()
	answer, known := n.names[host]
	n.asked[host]++
	count := n.asked[host]
	n.mu.Unlock()
	if !known {
		return nil, &net.DNSError{Err: "no such host", Name: host, IsNotFound: true}
	}
	list, err := answer(count)
	if errors.Is(err, context.DeadlineExceeded) { // a name server that never responds
		<-ctx.Done()
		return nil, &net.DNSError{Err: ctx.Err().Error(), Name: host, IsTimeout: true}
	}
	return list, err
}

func (n *internet) dial(ctx context.Context, network, addr string) (net.Conn, error) {
	n.mu.Lock()
	n.dialed = append(n.dialed, network+" "+addr)
	serve := n.hosts[addr]
	n.mu.Unlock()
	if serve == nil {
		return nil, &net.OpError{Op: "dial", Net: network, Err: syscall.ECONNREFUSED}
	}
	client, server := n.pair()
	n.done.Go(func() {
		defer server.Close()
		serve(server)
	})
	return client, nil
}

// pair returns the two ends of a connection. Pipes have no buffer, which causes a deadlock if both ends
// write, as they do when TLS fails. But tests with a fake clock support only pipes.
func (n *internet) pair() (client, server net.Conn) {
	if n.pipes {
		return net.Pipe()
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		n.t.Error(err)
		return net.Pipe()
	}
	defer l.Close()
	if client, err = net.Dial("tcp", l.Addr().String()); err == nil {
		server, err = l.Accept()
	}
	if err != nil {
		n.t.Error(err)
		return net.Pipe()
	}
	return client, server
}

func (n *internet) dials() []string {
	n.mu.Lock()
	defer n.mu.Unlock()
	return append([]string(nil), n.dialed...)
}

// client returns a client on this internet. change may be nil.
func (n *internet) client(change func(*safehttp.Config)) *safehttp.Client {
	n.t.Helper()
	cfg := safehttp.Config{Resolver: n, Dial: n.dial, RootCAs: authority.Pool(), OwnAddrs: func() ([]netip.Addr, error) { return addrs("198.100.1.1"), nil }}
	if change != nil {
		change(&cfg)
	}
	c := testmust.Get(safehttp.New(cfg))(n.t)
	n.t.Cleanup(c.Close)
	return c
}

// oneConn is a listener of a single connection.
type oneConn struct {
	conn   net.Conn
	taken  bool
	once   sync.Once
	closed chan struct{}
}

func (l *oneConn) Accept() (net.Conn, error) {
	if !l.taken {
		l.taken = true
		return l.conn, nil
	}
	<-l.closed
	return nil, io.EOF
}

func (l *oneConn) Close() error {
	l.once.Do(func() { close(l.closed) })
	return nil
}

func (l *oneConn) Addr() net.Addr { return l.conn.LocalAddr() }

// raw responds to the first request of a connection with answer and closes the connection.
func raw(answer string) func(net.Conn) {
	return func(conn net.Conn) {
		if _, err := http.ReadRequest(bufio.NewReader(conn)); err == nil {
			io.WriteString(conn, answer)
		}
	}
}

// read waits for a request and then calls then with the connection.
func read(then func(net.Conn)) func(net.Conn) {
	return func(conn net.Conn) {
		if _, err := http.ReadRequest(bufio.NewReader(conn)); err == nil {
			then(conn)
		}
	}
}

// authority signs the certificates of test servers.
var authority = func() *testcert.Authority {
	a, err := testcert.NewAuthority()
	if err != nil {
		panic(err)
	}
	return a
}()

// certificate returns a certificate for hosts; change may invalidate it.
func certificate(t *testing.T, change func(*x509.Certificate), hosts ...string) *tls.Config {
	t.Helper()
	issued := testmust.Get(authority.Issue(change, hosts...))(t)
	return &tls.Config{Certificates: []tls.Certificate{issued}}
}

func text(body string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		io.WriteString(w, body)
	})
}

func redirectTo(target string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header()["Location"] = []string{target}
		w.WriteHeader(http.StatusFound)
	})
}

// get fetches a URL and expects an error of the given kind, or a response if want is nil.
func get(t *testing.T, c *safehttp.Client, url string, want error) *safehttp.Response {
	t.Helper()
	res, err := c.NewSession().Get(t.Context(), url, safehttp.Limits{})
	if !errors.Is(err, want) || (err == nil) != (want == nil) {
		t.Fatalf("get %s: %v (%s), want %v", url, err, safehttp.Reason(err), want)
	}
	if err != nil && strings.Contains(err.Error(), "secret") {
		t.Errorf("the error contains the query: %v", err)
	}
	return res
}
