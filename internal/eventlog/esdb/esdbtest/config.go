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

// Defaults of Config, as the server has them (ClusterVNodeOptions, Enumerator.MaxLiveEventBufferCount).
const (
	phaseTimeout = 2 * time.Second
	liveBuffer   = 32
	version      = "24.10.0"
)

// Config says what to serve and where. Zero values take the defaults.
type Config struct {
	// Listen are the addresses (host:port) of the nodes, which share one log; the first one leads. Port 0
	// takes a free one. The default is one node on a free port of the loopback interface.
	Listen []string
	// Dir keeps the log in a folder, with everything acknowledged safe from kill -9. Without it the log is
	// in memory.
	Dir string
	// Certificate switches TLS on.
	Certificate *tls.Certificate
	// ClientCAs are whose user certificates count as credentials.
	ClientCAs *x509.CertPool
	// Users are names and passwords. When there are any, reads and appends need credentials.
	Users map[string]string
	// FollowersRefuse makes followers answer appends with "not leader". Without it they hand them to the
	// leader, as servers do whose caller does not ask for the leader.
	FollowersRefuse bool
	// Noise makes the server append an event and a link of its own after each append.
	Noise bool
	// Chaos are faults that come now and then.
	Chaos Chaos
	// FlushTime is how long it takes at least until what was appended is durable and readable. Appends that
	// come meanwhile wait and are flushed together.
	FlushTime time.Duration
	// PhaseTimeout is after how long an append that the server has dropped is answered; 2 s by default, as in
	// the server.
	PhaseTimeout time.Duration
	// LiveBuffer is how many events, and checkpoints, may wait for a live subscriber before it counts as too
	// slow; 32 by default, as in the server.
	LiveBuffer int
	// Version is what the server says it is, 24.10.0 by default. Before 24.2 subscribers that are too slow are
	// dropped; later they go back to catching up.
	Version string
	// Now is the clock of created times; nil is the machine's.
	Now func() time.Time
	// Logger is told what the server does; nil discards.
	Logger *slog.Logger
}

// Validate reports all that is wrong with the configuration at once.
func (c Config) Validate() error {
	var problems []error
	for _, address := range c.Listen {
		if address == "" {
			problems = append(problems, errors.New("event store stand-in: an empty address to listen on"))
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
