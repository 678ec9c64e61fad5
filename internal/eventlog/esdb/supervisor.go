package esdb

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/EventStore/EventStore-Client-Go/v4/esdb"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"letterhead/internal/delay"
	"letterhead/internal/eventlog"
)

const (
	// discoveryInterval is how often the client looks for a server, in milliseconds.
	discoveryInterval = 100
	// A new client is retried after a delay that doubles from the first to the last.
	firstRebuild = 20 * time.Millisecond
	lastRebuild  = time.Second
	// stableAfter is how long a member must have worked for the next one to be made immediately. Otherwise
	// a live server that rejects calls would be connected to and compared over and over.
	stableAfter = 5 * time.Second
	// probeTimeout bounds each test of a client. A slower client is useless to callers with a deadline.
	probeTimeout = 3 * time.Second
	// stallAfter is how long a call must have run for its timeout to cast suspicion on the client instead of on the
	// caller's short deadline. The store answers within milliseconds, and a suspicion costs one read.
	stallAfter = 250 * time.Millisecond
)

// member is a tested client with concurrent users. It is closed after it is retired and its last user has
// left, because Close makes remaining users panic.
type member struct {
	client  *esdb.Client
	conn    *singleConn
	appends *batcher
	version Version
	// filters means that the server's filtered subscriptions are reliable.
	filters bool
	users   sync.WaitGroup
	// liveness is a subscription to nothing, nil without Config.Admit. It also ends if a proxy keeps the
	// connection but redirects it to another server.
	liveness *esdb.Subscription
	// alive means that the server has sent something since the last check of the watch.
	alive atomic.Bool
	// retired ends when the member must no longer be used.
	retired context.Context
	retire  context.CancelFunc
}

// markAlive records a message of the server.
func (m *member) markAlive() {
	if !m.alive.Load() { // many goroutines do this concurrently
		m.alive.Store(true)
	}
}

// supervisor keeps one working client. It tests a new one before sharing it, and replaces it at the first
// sign that it has lost its server.
type supervisor struct {
	cfg     Config
	conf    *esdb.Configuration
	metrics *metrics
	seen    func() eventlog.Mark
	ctx     context.Context // ends when the log closes
	work    sync.WaitGroup  // rebuilding, and clients that still have users

	mu       sync.Mutex
	current  *member       // nil while there is none
	shared   time.Time     // start of the last one
	pause    time.Duration // before the next one is made
	changed  chan struct{} // closed when there is one again
	lastErr  error         // why there is none
	checking bool

	leader atomic.Bool // the next server must be the leader, because the last one rejected an append
}

func newSupervisor(ctx context.Context, cfg Config, conf *esdb.Configuration, m *metrics,
	seen func() eventlog.Mark) *supervisor {
	return &supervisor{cfg: cfg, conf: conf, metrics: m, seen: seen, ctx: ctx, changed: make(chan struct{})}
}

// acquire returns a member, which must be released. It waits for one for at most ConnectWait.
//
// Errors: ctx.Err(), eventlog.ErrUnavailable, eventlog.ErrClosed.
func (s *supervisor) acquire(ctx context.Context) (*member, error) {
	var timeout <-chan time.Time
	for {
		s.mu.Lock()
		m, changed, lastErr := s.current, s.changed, s.lastErr
		if m != nil {
			m.users.Add(1)
		}
		s.mu.Unlock()
		if m != nil {
			return m, nil
		}
		if timeout == nil {
			timer := time.NewTimer(s.cfg.ConnectWait)
			defer timer.Stop()
			timeout = timer.C
		}
		select {
		case <-changed:
		case <-timeout:
			if errors.Is(lastErr, eventlog.ErrLoss) {
				return nil, fmt.Errorf("%w: %w", eventlog.ErrUnavailable, lastErr)
			}
			return nil, fmt.Errorf("%w: no connection: %v", eventlog.ErrUnavailable, lastErr)
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-s.ctx.Done():
			return nil, eventlog.ErrClosed
		}
	}
}

func (m *member) release() { m.users.Done() }

// start makes the first member.
//
// Errors: ctx.Err(), eventlog.ErrUnavailable, eventlog.ErrLoss, ErrUnsupported.
func (s *supervisor) start(ctx context.Context) error {
	connecting, cancel := context.WithTimeout(ctx, s.cfg.ConnectTimeout)
	defer cancel()
	var why error
	for wait := firstRebuild; ; wait = min(2*wait, lastRebuild) {
		m, err := s.connectAdmitted(ctx, connecting)
		if err == nil {
			s.share(m)
			return nil
		}
		if errors.Is(err, eventlog.ErrLoss) || errors.Is(err, ErrUnsupported) {
			return err
		}
		// the error of an interrupted attempt says less than the previous one
		if why == nil || connecting.Err() == nil || !isTimeout(err) {
			why = err
		}
		if ctx.Err() != nil {
			return fmt.Errorf("%w: %v", ctx.Err(), why)
		}
		if hasCode(err, esdb.ErrorCodeAccessDenied, esdb.ErrorCodeUnauthenticated) { // retrying is useless
			return fmt.Errorf("%w: it refuses the login: correct the user and the password in LETTERHEAD_EVENTSTORE: %v",
				eventlog.ErrUnavailable, why)
		}
		if delay.For(connecting, wait) != nil {
			return fmt.Errorf("%w: it does not answer: %v", eventlog.ErrUnavailable, why)
		}
	}
}

// connect makes a member.
func (s *supervisor) connect(ctx context.Context) (*member, error) {
	server, err := s.find(ctx)
	if err != nil {
		return nil, err
	}
	conn := newSingleConn(server)
	client, err := s.try(ctx, conn.address())
	if err != nil {
		conn.end()
		return nil, err
	}
	version, err := versionOf(client)
	select {
	case <-conn.ended: // the client does not know the version then
		err = errEnded
	default:
	}
	if err != nil {
		conn.end()
		return nil, errors.Join(err, client.Close())
	}
	// Before 24.2 a filtered subscription that began at the position of an excluded event could skip the next event.
	m := &member{client: client, conn: conn, version: version, filters: version.since(24, 2)}
	m.appends = newBatcher(s.conf, conn)
	m.retired, m.retire = context.WithCancel(context.Background())
	return m, nil
}

// try makes a client for a server and makes it read something. It does so in another goroutine, because the
// client ignores the context while it connects; a hanging client is closed when it returns.
func (s *supervisor) try(ctx context.Context, address string) (*esdb.Client, error) {
	conf := *s.conf
	conf.Address, conf.GossipSeeds, conf.DnsDiscover = address, nil, false
	// Callers of a client that has stopped looking for a server wait forever. It looks again only after its
	// connection has ended, and then wrongly reports success.
	conf.MaxDiscoverAttempts = 1
	client, err := esdb.NewClient(&conf)
	if err != nil {
		return nil, err
	}
	deadline, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel() // not by the caller, whose result and timeout would arrive together
	tried := make(chan error, 1)
	go func() { tried <- ping(deadline, client) }()
	select {
	case err := <-tried:
		if err != nil {
			return nil, errors.Join(err, client.Close())
		}
		return client, nil
	case <-deadline.Done():
		go func() {
			<-tried
			_ = client.Close() // no caller is left to report the error to
		}()
		return nil, fmt.Errorf("no answer within %s: %w", probeTimeout, deadline.Err())
	}
}

// ping reads the last event.
func ping(ctx context.Context, client *esdb.Client) (err error) {
	defer recovered(&err)
	_, err = readBack(ctx, client, esdb.End{}, 1)
	return err
}

// connectAdmitted is connect for a store that Config.Admit accepts. connecting limits the connection, but not Admit.
func (s *supervisor) connectAdmitted(ctx, connecting context.Context) (*member, error) {
	m, err := s.connect(connecting)
	if err != nil || s.cfg.Admit == nil {
		return m, err
	}
	if err = openLiveness(ctx, m); err == nil {
		admitting, cancel := context.WithTimeout(ctx, s.cfg.AdmitTimeout)
		defer cancel()
		err = s.cfg.Admit(admitting, prober{m.client}, s.seen())
	}
	if err != nil {
		m.retire()
		m.conn.end()
		go func() { // openLiveness may still be running
			m.users.Wait()
			_ = m.client.Close() // no caller is left to report the error to
		}()
		return nil, err
	}
	return m, nil
}

// livenessStream is a stream that never has events.
const livenessStream = "letterhead-connection"

// openLiveness opens a subscription that lasts as long as the connection of a member, and at most until the member is
// retired. It retires a member whose server does not confirm the subscription within probeTimeout or before ctx ends.
func openLiveness(ctx context.Context, m *member) error {
	ctx, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	m.users.Add(1)
	var subscription *esdb.Subscription
	err := delay.Await(ctx, func() (err error) {
		defer m.release()
		defer recovered(&err)
		subscription, err = m.client.SubscribeToStream(m.retired, livenessStream,
			esdb.SubscribeToStreamOptions{From: esdb.End{}})
		return err
	})
	if ctx.Err() != nil {
		m.retire()
		return fmt.Errorf("the server does not confirm a subscription: %w", ctx.Err())
	}
	m.liveness = subscription
	return err
}

// guard replaces a member when its liveness subscription ends: the next connection is compared again.
func (s *supervisor) guard(m *member) {
	defer m.release()
	for m.retired.Err() == nil {
		event, err := receiveOne(m.liveness)
		if err == nil && event.SubscriptionDropped != nil {
			err = event.SubscriptionDropped.Error
		}
		if err != nil {
			s.replace(m, fmt.Errorf("the connection broke: %w", err))
			return
		}
	}
}

// share publishes a member, unless the log has closed meanwhile; then it retires the member.
func (s *supervisor) share(m *member) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ctx.Err() != nil {
		m.conn.end()
		_ = m.client.Close() // no caller is left to report the error to
		return
	}
	s.current, s.lastErr, s.shared = m, nil, time.Now()
	close(s.changed)
	s.work.Go(func() { s.watch(m) })
	s.work.Go(func() {
		select {
		case <-m.conn.ended:
			s.replace(m, errEnded)
		case <-m.retired.Done():
		}
	})
	if m.liveness != nil {
		m.users.Add(1)
		s.work.Go(func() { s.guard(m) })
	}
}

// watch tests a member that has been silent for SilentFor: otherwise subscriptions on a silently lost
// connection would wait forever, or for the keepalive of the connection string.
func (s *supervisor) watch(m *member) {
	for delay.For(m.retired, s.cfg.SilentFor) == nil {
		if !m.alive.Swap(false) {
			s.suspect(m)
		}
	}
}

// replace retires the current member, and starts making another one. It ignores any other member, except that
// the next server must be the leader after an append was rejected for it, also if the member was replaced meanwhile.
func (s *supervisor) replace(m *member, why error) {
	if isNotLeader(why) {
		s.leader.Store(true)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.current != m || s.ctx.Err() != nil {
		return
	}
	s.current, s.lastErr, s.changed = nil, why, make(chan struct{})
	s.cfg.Logger.Info("EventStoreDB: the connection is replaced", "error", why)
	s.pause = pauseAfter(time.Since(s.shared), s.pause)
	pause := s.pause
	s.work.Go(func() { s.drain(m) })
	s.work.Go(func() {
		if delay.For(s.ctx, pause) == nil {
			s.rebuild()
		}
	})
}

// pauseAfter returns the pause after a member that lived for a time, when the previous member had the given pause.
func pauseAfter(lived, before time.Duration) time.Duration {
	if lived >= stableAfter {
		return 0
	}
	return min(max(firstRebuild, 2*before), lastRebuild)
}

// drain closes a member after the last user has left.
func (s *supervisor) drain(m *member) {
	m.retire()
	m.users.Wait()
	m.appends.close()
	m.conn.end()
	if err := m.client.Close(); err != nil {
		s.cfg.Logger.Info("EventStoreDB: closing a client", "error", err)
	}
}

// rebuild retries until there is a member again or the log closes.
func (s *supervisor) rebuild() {
	for wait := firstRebuild; s.ctx.Err() == nil; wait = min(2*wait, lastRebuild) {
		m, err := s.connectAdmitted(s.ctx, s.ctx)
		if err == nil {
			s.metrics.reconnects.Inc()
			s.cfg.Logger.Info("EventStoreDB: connected again")
			s.share(m)
			return
		}
		s.mu.Lock()
		s.lastErr = err
		s.mu.Unlock()
		s.cfg.Logger.Debug("EventStoreDB: no connection yet", "error", err)
		_ = delay.For(s.ctx, wait/2+rand.N(wait)) // so that nodes that lost the store together do not return together
	}
}

// judge examines how a call ended.
func (s *supervisor) judge(m *member, err error, took time.Duration) {
	switch {
	case err == nil:
	case isLost(err):
		s.replace(m, err)
	case took >= stallAfter && isTimeout(err):
		s.suspect(m)
	}
}

// judgeCurrent is judge for callers that do not know which member they waited for.
func (s *supervisor) judgeCurrent(err error, took time.Duration) {
	s.mu.Lock()
	m := s.current
	s.mu.Unlock()
	if m != nil {
		s.judge(m, err, took)
	}
}

// suspect tests a member that did not answer a caller in time, and replaces it if it does not answer now.
func (s *supervisor) suspect(m *member) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.checking || s.current != m || s.ctx.Err() != nil {
		return
	}
	s.checking = true
	m.users.Add(1)
	s.work.Go(func() {
		ctx, cancel := context.WithTimeout(s.ctx, probeTimeout)
		defer cancel()
		err := delay.Await(ctx, func() error {
			defer m.release()
			return ping(ctx, m.client)
		})
		if ctx.Err() != nil {
			err = fmt.Errorf("no answer within %s", probeTimeout)
		}
		s.mu.Lock()
		s.checking = false
		s.mu.Unlock()
		if err != nil {
			s.replace(m, err)
		}
	})
}

// close retires the current member and waits for its users to leave. If ctx ends first, it returns false
// and leaves the clients open, because calls are stuck in them.
func (s *supervisor) close(ctx context.Context) bool {
	s.mu.Lock()
	if m := s.current; m != nil {
		s.current = nil
		s.work.Go(func() { s.drain(m) })
	}
	s.mu.Unlock()
	return delay.Await(ctx, func() error { s.work.Wait(); return nil }) == nil
}

// isLost reports whether an error means that the next call needs another connection.
func isLost(err error) bool {
	return err != nil && strings.Contains(err.Error(), textEnded) || isNotLeader(err) ||
		hasCode(err, esdb.ErrorCodeConnectionClosed, esdb.ErrorUnavailable) || status.Code(err) == codes.Unavailable
}

func isTimeout(err error) bool {
	return errors.Is(err, context.DeadlineExceeded) || status.Code(err) == codes.DeadlineExceeded
}

// recovered converts a panic of the client to an error.
func recovered(err *error) {
	if p := recover(); p != nil {
		*err = fmt.Errorf("the EventStoreDB client panicked: %v", p)
	}
}
