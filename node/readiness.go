package node

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"letterhead/commands"
	"letterhead/internal/disk"
	"letterhead/internal/sqlstore"
	"letterhead/readapi/lookup"
)

const (
	// crawlRoom is the free space, in bytes, below which a folder of assets counts as full: a crawl stores about as much.
	crawlRoom = 1 << 20
	// roomEvery is how often a node with a full disk checks whether there is room.
	roomEvery = 250 * time.Millisecond
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

// readiness returns what the node can do: nothing before it serves everything that was stored at its start (see begun), and
// then what the services that still answer, and the disks that can still be written, are enough for.
func (n *Node) readiness() readiness {
	if lost := n.lost.Load(); lost != nil {
		return readiness{Status: "rejected", Reason: (*lost).Error()}
	}
	if !n.begun() {
		return notStarted()
	}
	return whatRemains(n.probe.missing(), n.unwritable(), n.assetsFull())
}

// whatRemains returns what a started node can do without some services, while unwritable keeps look-ups from being charged,
// and while the folder of assets is full.
func whatRemains(missing []string, unwritable error, assetsFull bool) readiness {
	has := func(services ...string) bool {
		return !slices.ContainsFunc(services, func(name string) bool { return slices.Contains(missing, name) })
	}
	s := readiness{Status: statusReady}
	s.Reads = has(serviceEventStore, serviceDatabase, serviceRegistry)
	s.Logos = has(serviceDatabase, serviceRegistry, serviceAssets)
	s.LookUps = s.Reads && unwritable == nil
	s.Crawls = s.LookUps && has(serviceAssets) && !assetsFull
	var reasons []string
	for _, name := range missing {
		reasons = append(reasons, "the "+name+" does not answer")
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
func (n *Node) unwritable() error {
	if n.logFile != nil && !n.reading {
		if err := n.logFile.Fault(); err != nil {
			return err
		}
	}
	return n.unrecorded()
}

// unrecorded returns why the run of this process is not recorded yet. Without it, charges that a crash leaves without
// their answers could not be found.
func (n *Node) unrecorded() error {
	if err := n.unnoted.Load(); err != nil {
		return *err
	}
	return nil
}

// assetsFull reports whether a folder of assets has no room for a crawl.
func (n *Node) assetsFull() bool {
	folder, local := strings.CutPrefix(n.Config.AssetsURL(), "file://")
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

// Reserve implements lookup.Credits.
func (c recordedCredits) Reserve(ctx context.Context, accountID string) (*commands.Reservation, error) {
	if err := c.unrecorded(); err != nil {
		return nil, fmt.Errorf("nothing is charged before the run of this process is recorded: %w", err)
	}
	return c.AccountWriter.Reserve(ctx, accountID)
}

// errNoRoom ends a wait for work that needs room on a full disk.
var errNoRoom = errors.New("the disk is full")

// full returns why the log or the read models cannot be written.
func (n *Node) full() error {
	if err := n.unwritable(); err != nil {
		return err
	}
	return n.Runner.Full()
}

// whileRoom returns a context that also ends, with errNoRoom as its cause, when a file cannot be written.
func (n *Node) whileRoom(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(ctx)
	go func() {
		tick := time.NewTicker(roomEvery)
		defer tick.Stop()
		for {
			if full := n.full(); full != nil {
				cancel(fmt.Errorf("%w: %w", errNoRoom, full))
				return
			}
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
			}
		}
	}()
	return ctx, func() { cancel(nil) }
}

// awaitRoom waits until everything can be written.
func (n *Node) awaitRoom(ctx context.Context) error {
	tick := time.NewTicker(roomEvery)
	defer tick.Stop()
	for n.full() != nil {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-tick.C:
		}
	}
	return nil
}

// isFull reports whether an error of the database means that the node can serve without writing to it.
func isFull(err error) bool { return errors.Is(err, sqlstore.ErrFull) }
