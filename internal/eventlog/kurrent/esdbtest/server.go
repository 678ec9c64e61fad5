package esdbtest

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/EventStore/EventStore-Client-Go/v4/protos/serverfeatures"
	"github.com/EventStore/EventStore-Client-Go/v4/protos/shared"
	"github.com/EventStore/EventStore-Client-Go/v4/protos/streams"
	"google.golang.org/grpc"
)

// version is what the stand-in says it is.
const version = "24.10.0"

// Server is a running stand-in.
type Server struct {
	// Faults are the faults to come.
	Faults Faults

	streams.UnimplementedStreamsServer
	serverfeatures.UnimplementedServerFeaturesServer

	store   *store
	address string

	mu      sync.Mutex
	grpc    *grpc.Server
	conns   map[net.Conn]struct{}
	dropped chan struct{} // closed to drop the subscriptions
	noisy   bool
}

// Start serves an empty store on a free port of the loopback interface until the test ends.
func Start(t testing.TB) *Server {
	t.Helper()
	s := &Server{store: newStore(time.Now), conns: map[net.Conn]struct{}{}, dropped: make(chan struct{})}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s.address = listener.Addr().String()
	s.serve(t, listener)
	t.Cleanup(s.Stop)
	return s
}

func (s *Server) serve(t testing.TB, listener net.Listener) {
	server := grpc.NewServer()
	streams.RegisterStreamsServer(server, s)
	serverfeatures.RegisterServerFeaturesServer(server, s)
	s.mu.Lock()
	s.grpc = server
	s.mu.Unlock()
	go func() {
		if err := server.Serve(&tracked{Listener: listener, server: s}); err != nil && !errors.Is(err, grpc.ErrServerStopped) {
			t.Errorf("esdbtest: serve: %v", err)
		}
	}()
}

// ConnectionString is what the client needs to find the server.
func (s *Server) ConnectionString() string {
	return fmt.Sprintf("esdb://%s?tls=false", s.address)
}

// Stop stops serving, at once. What was committed stays.
func (s *Server) Stop() {
	s.mu.Lock()
	server := s.grpc
	s.mu.Unlock()
	server.Stop()
}

// Restart serves again, on the same address, what was committed.
func (s *Server) Restart(t testing.TB) {
	t.Helper()
	listener, err := net.Listen("tcp", s.address)
	if err != nil {
		t.Fatal(err)
	}
	s.serve(t, listener)
}

// BreakConnections resets all connections; new ones are accepted.
func (s *Server) BreakConnections() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for conn := range s.conns {
		if tcp, ok := conn.(*net.TCPConn); ok {
			_ = tcp.SetLinger(0) // a reset and not an orderly end
		}
		_ = conn.Close()
	}
	clear(s.conns)
}

// DropSubscriptions ends all subscriptions as the server ends those of slow consumers.
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

// tracked notes the connections, so that they can be broken.
type tracked struct {
	net.Listener
	server *Server
}

func (l *tracked) Accept() (net.Conn, error) {
	conn, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	l.server.mu.Lock()
	defer l.server.mu.Unlock()
	l.server.conns[conn] = struct{}{}
	return conn, nil
}

// GetSupportedMethods is the first thing a client asks.
func (s *Server) GetSupportedMethods(context.Context, *shared.Empty) (*serverfeatures.SupportedMethods, error) {
	return &serverfeatures.SupportedMethods{EventStoreServerVersion: version}, nil
}
