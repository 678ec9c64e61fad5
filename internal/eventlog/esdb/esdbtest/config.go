package esdbtest

import (
	"cmp"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"time"
)

// Defaults of Config, which are the server's defaults (ClusterVNodeOptions, Enumerator.MaxLiveEventBufferCount).
const (
	phaseTimeout = 2 * time.Second
	liveBuffer   = 32
	version      = "24.10.0"
)

// Config configures a server. Zero values mean the defaults.
type Config struct {
	// Listen are the addresses (host:port) of the nodes, which share one log; the first node leads. Port 0 chooses a
	// free port. The default is one node on a free port of the loopback interface.
	Listen []string
	// Dir is a folder for the log; acknowledged events survive kill -9. By default the log is in memory.
	Dir string
	// Certificate enables TLS.
	Certificate *tls.Certificate
	// ClientCAs are the authorities whose user certificates are accepted as credentials.
	ClientCAs *x509.CertPool
	// Users are names and passwords. If there are any, reads and appends need credentials.
	Users map[string]string
	// FollowersReject makes followers answer appends with "not leader". Otherwise they forward them to the leader, as
	// servers do if the client does not require the leader.
	FollowersReject bool
	// Noise makes the server append system events and a link after each append.
	Noise bool
	// Chaos are random faults.
	Chaos Chaos
	// FlushTime is the minimum time until appended events are durable and readable. Appends that arrive meanwhile wait
	// and are flushed together.
	FlushTime time.Duration
	// PhaseTimeout is the time after which the server answers an append that it has dropped. The default is 2 s, as in
	// the server.
	PhaseTimeout time.Duration
	// LiveBuffer is the number of events and checkpoints that may wait for a live subscriber before it is too slow. The
	// default is 32, as in the server.
	LiveBuffer int
	// Version is the server version that clients see, 24.10.0 by default. Before 24.2 the server drops slow
	// subscriptions; later versions return them to catching up.
	Version string
	// Now is the clock for the creation times of events; nil means time.Now.
	Now func() time.Time
	// Logger logs the server's actions; nil discards them.
	Logger *slog.Logger
}

// Validate reports all invalid values together.
func (c Config) Validate() error {
	var problems []error
	for _, address := range c.Listen {
		if address == "" {
			problems = append(problems, errors.New("event store stand-in: a listen address is empty"))
		}
	}
	if len(c.Users) > 0 && c.Certificate == nil {
		problems = append(problems, errors.New("event store stand-in: users need TLS, because the client sends no credentials without it"))
	}
	for name, password := range c.Users {
		if name == "" || password == "" {
			problems = append(problems, fmt.Errorf("event store stand-in: user %q has an empty name or password", name))
		}
	}
	if min(c.FlushTime, c.PhaseTimeout) < 0 || c.LiveBuffer < 0 {
		problems = append(problems, errors.New("event store stand-in: a time or the live buffer is negative"))
	}
	return errors.Join(append(problems, c.Chaos.Validate())...)
}

func (c Config) withDefaults() Config {
	if len(c.Listen) == 0 {
		c.Listen = []string{"127.0.0.1:0"}
	}
	c.PhaseTimeout = cmp.Or(c.PhaseTimeout, phaseTimeout)
	c.LiveBuffer = cmp.Or(c.LiveBuffer, liveBuffer)
	c.Version = cmp.Or(c.Version, version)
	if c.Now == nil {
		c.Now = time.Now
	}
	c.Logger = cmp.Or(c.Logger, slog.New(slog.DiscardHandler))
	return c
}
