package node

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"letterhead/commands"
	"letterhead/internal/delay"
	"letterhead/internal/disk"
	"letterhead/internal/telemetry"
	"letterhead/projections/engine"
	"letterhead/projections/keys"
	"letterhead/readapi/lookup"
)

const (
	// crawlRoom is the free space, in bytes, below which a folder of assets counts as full: a crawl stores about as
	// much.
	crawlRoom = 1 << 20
	// faultEvery is how often a node that is starting checks whether its files can be written.
	faultEvery = 250 * time.Millisecond
)

// readiness is the body of /readyz: what the node can do.
type readiness struct {
	Status  string `json:"status"`   // ready; starting; limited, if it cannot do everything
	LookUps bool   `json:"look_ups"` // charge for brands of the index
	Crawls  bool   `json:"crawls"`   // crawl new domains
	Logos   bool   `json:"logos"`    // draw logos
	Reads   bool   `json:"reads"`    // answer what changes nothing, such as balances
	Reason  string `json:"reason,omitempty"`

	retryAfter int // seconds; 0 if waiting does not help
}

// readiness of a node that cannot do anything yet.
func notStarted() readiness { return readiness{Status: "starting", retryAfter: 1} }

// ServeHTTP answers /readyz. The status is 200 only if look-ups can be charged.
func (s readiness) ServeHTTP(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "application/json; charset=utf-8")
	if s.Status != statusReady {
		if s.retryAfter > 0 {
			w.Header().Set("Retry-After", strconv.Itoa(s.retryAfter))
		}
		w.WriteHeader(http.StatusServiceUnavailable)
	}
	_ = json.NewEncoder(w).Encode(s) // an error means that the client has gone
}

const statusReady = "ready"

// Services that a node in a cluster probes.
const (
	serviceEventStore = "event store"
	serviceDatabase   = "database"
	serviceRegistry   = "registry of the read models"
	serviceAssets     = "object storage"
)

// health knows what a node can do.
type health struct {
	stores      *Stores
	run         *processRun
	runner      *engine.Runner
	keys        *keys.Directory
	probe       *probe // nil if everything is in this process
	metrics     telemetry.Metrics
	ready       atomic.Bool
	starterSeen atomic.Bool // see filled
}

// readiness returns what the node can do: nothing before it serves everything that was stored at its start (see begun);
// afterwards, what is possible with the services that answer and the disks that can be written.
func (h *health) readiness() readiness {
	if lost := h.stores.guard.lost.Load(); lost != nil {
		return readiness{Status: "rejected", Reason: (*lost).Error()}
	}
	if !h.begun() {
		return notStarted()
	}
	return whatRemains(h.probe.missing(), h.keys.Ready(), h.unwritable(), h.assetsFull())
}

// whatRemains returns what a started node can do while some services are missing, no key can be checked because of the
// error keyless, look-ups cannot be charged because of the error unwritable, or the folder of assets is full.
func whatRemains(missing []string, keyless, unwritable error, assetsFull bool) readiness {
	has := func(services ...string) bool {
		return !slices.ContainsFunc(services, func(name string) bool { return slices.Contains(missing, name) })
	}
	s := readiness{Status: statusReady}
	s.Reads = has(serviceEventStore, serviceDatabase, serviceRegistry) && keyless == nil
	s.Logos = has(serviceDatabase, serviceRegistry, serviceAssets)
	s.LookUps = s.Reads && unwritable == nil
	s.Crawls = s.LookUps && has(serviceAssets) && !assetsFull
	var reasons []string
	for _, name := range missing {
		reasons = append(reasons, "the "+name+" does not answer")
	}
	if keyless != nil {
		reasons = append(reasons, "no key can be checked: "+keyless.Error())
	}
	if unwritable != nil {
		reasons = append(reasons, unwritable.Error())
	}
	if len(reasons) > 0 {
		s.Status, s.retryAfter = "limited", 5
	}
	if assetsFull {
		reasons = append(reasons, "no space is left for assets")
	}
	s.Reason = strings.Join(reasons, "; ")
	return s
}

// unwritable returns why nothing can be charged: a file that a look-up writes cannot be written. Nodes that share
// services have no such file.
func (h *health) unwritable() error {
	var err error
	if h.stores.log.File != nil {
		err = h.stores.log.File.Fault()
	}
	return cmp.Or(err, h.run.unrecorded())
}

// assetsFull reports whether a folder of assets has no room for a crawl.
func (h *health) assetsFull() bool {
	folder, local := strings.CutPrefix(h.stores.config.AssetsURL(), "file://")
	if !local {
		return false
	}
	space, err := disk.At(folder)
	return err == nil && space.Free < crawlRoom
}

// recordedCredits is the account writer of a process that charges nothing before its run is recorded.
type recordedCredits struct {
	*commands.AccountWriter
	unrecorded func() error
}

var _ lookup.Credits = recordedCredits{}

func (c recordedCredits) Reserve(ctx context.Context, accountID, keyID string) (*commands.Reservation, error) {
	if err := c.unrecorded(); err != nil {
		return nil, fmt.Errorf("nothing is charged before the run of this process is recorded: %w", err)
	}
	return c.AccountWriter.Reserve(ctx, accountID, keyID)
}

// errUnwritable ends work that needs to write.
var errUnwritable = errors.New("the disk cannot be written")

// writeFault returns why the log, the run or the read models cannot be written.
func (h *health) writeFault() error { return cmp.Or(h.unwritable(), h.runner.Full()) }

// awaitWrites waits until everything can be written, or until something cannot. It returns why not.
func (h *health) awaitWrites(ctx context.Context, possible bool) error {
	for {
		if err := h.writeFault(); (err == nil) == possible || delay.For(ctx, faultEvery) != nil {
			return err
		}
	}
}

// A single node that cannot reach the event store, the database or the asset store would look ready to the proxy and
// answer 503 for the accounts and brands that the proxy keeps on it. So a node in a cluster checks them periodically,
// and is not ready while one of them does not answer.
const (
	// probeEvery is the time between two checks; probeTimeout bounds each.
	probeEvery   = 3 * time.Second
	probeTimeout = 3 * time.Second
	// assetsEvery is the time between two checks of a bucket that answers: each lists it, which costs money.
	assetsEvery = 5 * time.Second
	// faultyFor is how long a service may fail before the node is unready: waiting for a short fault to pass, such as
	// the election of a leader (up to 9.5 s were measured), is cheaper than moving accounts.
	faultyFor = 12 * time.Second
	// silentFor is the same for a service of which nothing answers (errSilent). With the intervals above, the node is
	// unready within 10 s.
	silentFor = 4 * time.Second
)

// errSilent is the error of a check if nothing of the service answers, not even that it cannot serve now.
var errSilent = errors.New("nothing answers")

// probe checks whether the services that the node cannot do without answer.
type probe struct {
	checks  map[string]func(context.Context) error
	misses  *prometheus.CounterVec
	reaches *prometheus.GaugeVec
	since   map[string]time.Time // start of the first check of those that failed in a row, by service
	lost    atomic.Pointer[[]string]
}

func newProbe(reg prometheus.Registerer, checks map[string]func(context.Context) error) (*probe, error) {
	p := &probe{checks: checks, since: map[string]time.Time{},
		misses: telemetry.Counters("letterhead_node_misses_total",
			"Failed probes of a service that this node requires.", "service"),
		reaches: telemetry.Gauges("letterhead_node_reaches",
			"1 if a service this node cannot do without answered its last question, else 0.", "service")}
	for name := range checks {
		p.misses.WithLabelValues(name)
		p.reaches.WithLabelValues(name).Set(1) // it was opened
	}
	if err := telemetry.Register(reg, p.misses, p.reaches); err != nil {
		return nil, fmt.Errorf("register metrics of the node: %w", err)
	}
	return p, nil
}

func (p *probe) run(ctx context.Context) error {
	delay.Every(ctx, probeEvery, func() { p.check(ctx) })
	return nil
}

// check probes all services concurrently, so that those that hang do not delay each other's results.
func (p *probe) check(ctx context.Context) {
	var mu sync.Mutex
	failures, began := map[string]error{}, time.Now()
	var checking sync.WaitGroup
	for name, check := range p.checks {
		checking.Go(func() {
			ctx, cancel := context.WithTimeout(ctx, probeTimeout)
			defer cancel()
			err := check(ctx)
			mu.Lock()
			defer mu.Unlock()
			failures[name] = err
		})
	}
	checking.Wait()
	if ctx.Err() != nil {
		return
	}
	var lost []string
	for name, err := range failures {
		if err == nil {
			delete(p.since, name)
			p.reaches.WithLabelValues(name).Set(1)
			continue
		}
		p.reaches.WithLabelValues(name).Set(0)
		p.misses.WithLabelValues(name).Inc()
		if _, failing := p.since[name]; !failing {
			p.since[name] = began
			continue // one failed check says little: this process itself may have been frozen meanwhile
		}
		limit := faultyFor
		if errors.Is(err, errSilent) {
			limit = silentFor
		}
		if time.Since(p.since[name]) >= limit {
			lost = append(lost, name)
		}
	}
	slices.Sort(lost)
	p.lost.Store(&lost)
}

// missing names the services that have not answered for a while. It is empty if all answer, and for a nil probe.
func (p *probe) missing() []string {
	if p == nil {
		return nil
	}
	if names := p.lost.Load(); names != nil {
		return *names
	}
	return nil
}
