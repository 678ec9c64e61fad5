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
	"sync/atomic"
	"time"

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

func (c recordedCredits) Reserve(ctx context.Context, accountID string) (*commands.Reservation, error) {
	if err := c.unrecorded(); err != nil {
		return nil, fmt.Errorf("nothing is charged before the run of this process is recorded: %w", err)
	}
	return c.AccountWriter.Reserve(ctx, accountID)
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
