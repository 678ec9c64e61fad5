package esdbtest

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"letterhead/internal/delay"
)

// Chaos are faults that occur at random or at intervals for as long as the server runs. The zero value has no faults.
type Chaos struct {
	// Seed is the seed of the random numbers; 0 chooses one.
	Seed uint64
	// Probabilities of the faults of an append, from 0 to 1; their sum is at most 1.
	LoseReply, LoseRequest, Duplicate, NotLeader, Hang float64
	// Delay delays a read or an append with the probability Delayed.
	Delay   time.Duration
	Delayed float64
	// ResetEvery is the interval at which all connections are reset, DropEvery that at which all subscriptions are
	// dropped, and DownEvery that at which the server stops for DownFor. 0 means never.
	ResetEvery, DropEvery, DownEvery, DownFor time.Duration
}

// chances returns the probabilities with their names and faults.
func (c *Chaos) chances() []chance {
	return []chance{
		{"lose-reply", &c.LoseReply, LoseReply}, {"lose-request", &c.LoseRequest, LoseRequest},
		{"duplicate", &c.Duplicate, Duplicate}, {"not-leader", &c.NotLeader, NotLeader}, {"hang", &c.Hang, Hang},
	}
}

type chance struct {
	name  string
	value *float64
	fault Fault
}

// FaultNames describes the syntax of Set.
const FaultNames = "lose-reply=P, lose-request=P, duplicate=P, not-leader=P, hang=P (P from 0 to 1, of each append), " +
	"delay=20ms@P, reset=30s, drop=30s, down=60s/5s (every 60 s for 5 s), seed=N"

// Set parses a fault from a command line; see FaultNames.
func (c *Chaos) Set(text string) error {
	name, value, _ := strings.Cut(text, "=")
	for _, chance := range c.chances() {
		if chance.name == name {
			p, err := strconv.ParseFloat(value, 64)
			*chance.value = p
			return faultError(text, err)
		}
	}
	var err error
	switch name {
	case "seed":
		c.Seed, err = strconv.ParseUint(value, 10, 64)
	case "reset":
		c.ResetEvery, err = time.ParseDuration(value)
	case "drop":
		c.DropEvery, err = time.ParseDuration(value)
	case "down":
		every, length, _ := strings.Cut(value, "/")
		var err2 error
		c.DownEvery, err = time.ParseDuration(every)
		c.DownFor, err2 = time.ParseDuration(length)
		err = errors.Join(err, err2)
	case "delay":
		length, p, _ := strings.Cut(value, "@")
		var err2 error
		c.Delay, err = time.ParseDuration(length)
		c.Delayed, err2 = strconv.ParseFloat(p, 64)
		err = errors.Join(err, err2)
	default:
		return fmt.Errorf("unknown fault %q; the faults are: %s", text, FaultNames)
	}
	return faultError(text, err)
}

func faultError(text string, err error) error {
	if err != nil {
		return fmt.Errorf("invalid fault %q: %w; the faults are: %s", text, err, FaultNames)
	}
	return nil
}

// Validate reports all invalid values together.
func (c Chaos) Validate() error {
	var problems []error
	sum := 0.0
	for _, chance := range append(c.chances(), chance{name: "delay", value: &c.Delayed}) {
		if !(*chance.value >= 0 && *chance.value <= 1) {
			problems = append(problems, fmt.Errorf("fault %s: the probability %v is not between 0 and 1", chance.name, *chance.value))
		}
		if chance.name != "delay" {
			sum += *chance.value
		}
	}
	if sum > 1 {
		problems = append(problems, fmt.Errorf("the probabilities of an append's faults add up to %v, more than 1", sum))
	}
	if slices.Min([]time.Duration{c.Delay, c.ResetEvery, c.DropEvery, c.DownEvery, c.DownFor}) < 0 {
		problems = append(problems, errors.New("the time of a fault is negative"))
	}
	if (c.DownEvery > 0) != (c.DownFor > 0) {
		problems = append(problems, errors.New("fault down needs both the interval and the duration"))
	}
	return errors.Join(problems...)
}

// chaos chooses faults and starts those that occur at intervals.
type chaos struct {
	Chaos
	seed   uint64 // of random
	mu     sync.Mutex
	random *rand.Rand
	ctx    context.Context
	cancel context.CancelFunc
	loops  sync.WaitGroup
}

func newChaos(cfg Chaos) *chaos {
	seed := cfg.Seed
	if seed == 0 {
		seed = rand.Uint64()
	}
	c := &chaos{Chaos: cfg, random: rand.New(rand.NewPCG(seed, 0))}
	c.ctx, c.cancel = context.WithCancel(context.Background())
	c.seed = seed
	return c
}

// start starts the faults that occur at intervals.
func (c *chaos) start(s *Server) {
	if c.Chaos != (Chaos{}) {
		s.cfg.Logger.Info("event store stand-in: random faults are enabled", "seed", c.seed)
	}
	c.every(c.ResetEvery, s.BreakConnections)
	c.every(c.DropEvery, s.DropSubscriptions)
	c.every(c.DownEvery, func() {
		s.Stop()
		_ = delay.For(c.ctx, c.DownFor)
		if err := s.Restart(); err != nil {
			s.cfg.Logger.Error("event store stand-in: restart failed", "error", err)
		}
	})
}

// every calls do at an interval until the server is closed.
func (c *chaos) every(interval time.Duration, do func()) {
	if interval == 0 {
		return
	}
	c.loops.Go(func() {
		for delay.For(c.ctx, interval) == nil {
			do()
		}
	})
}

func (c *chaos) stop() {
	if c == nil { // New failed before it started faults
		return
	}
	c.cancel()
	c.loops.Wait()
}

// delay delays a call with the configured probability.
func (c *chaos) delay(ctx context.Context) {
	if c.Delayed > 0 && c.draw() < c.Delayed {
		_ = delay.For(ctx, c.Delay)
	}
}

// append chooses the fault of an append.
func (c *chaos) append() Fault {
	if c.Chaos == (Chaos{}) {
		return None
	}
	at := c.draw()
	for _, chance := range c.chances() {
		if at < *chance.value {
			return chance.fault
		}
		at -= *chance.value
	}
	return None
}

func (c *chaos) draw() float64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.random.Float64()
}
