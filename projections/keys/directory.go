package keys

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/google/uuid"
	"github.com/prometheus/client_golang/prometheus"

	"letterhead/domain/account"
	"letterhead/domain/plan"
	"letterhead/internal/eventlog"
	"letterhead/internal/sqlstore"
	"letterhead/internal/telemetry"
	"letterhead/projections"
)

const (
	// Name of the read model.
	Name = "keys"
	// MaxListed limits the keys of one account that List returns.
	MaxListed = 10_000
)

// Key is what a request needs to know about its key.
type Key struct {
	ID            string
	AccountID     string
	Kind          string // secret or publishable
	Revoked       bool
	Plan          plan.ID
	AccountStatus string // active, suspended or closed
	account.KeyTerms
}

// Listed is a key as its owner sees it. Times are zero if the event has not happened.
type Listed struct {
	ID         string    `json:"id"`
	AccountID  string    `json:"account_id"`
	Kind       string    `json:"kind"`
	Last4      string    `json:"last4"`
	IssuedAt   time.Time `json:"issued_at"`
	RevokedAt  time.Time `json:"revoked_at,omitzero"`
	LastUsedAt time.Time `json:"last_used_at,omitzero"` // may lag by a second
	account.KeyTerms
}

// States of a key.
const (
	Active  = "active"
	Expired = "expired"
	Revoked = "revoked"
)

// States are all states of a key.
var States = []string{Active, Expired, Revoked}

// State returns the state of a key at a time.
func (k *Listed) State(now time.Time) string {
	switch {
	case !k.RevokedAt.IsZero():
		return Revoked
	case k.Expired(now):
		return Expired
	}
	return Active
}

// Directory is the read model. It is safe for concurrent use.
//
// Lookup answers from keys that were read before, or reads the rows. In a database of this process alone a key is
// forgotten before the commands that wait for its change are notified. In a shared database this node remembers keys
// only while Hold has a lease that proves them current; AwaitNodes waits for all leases.
type Directory struct {
	projections.Model
	shared  bool
	logger  *slog.Logger
	alone   alone                   // empty if shared
	memory  *memory                 // nil unless shared
	opening atomic.Pointer[opening] // nil before Open
	lookups *prometheus.CounterVec  // by the source of the answer
}

type hash = [sha256.Size]byte

// standing is what all keys of an account share.
type standing struct {
	plan   plan.ID
	status string
}

// Follower reports the progress of a read model; *engine.Runner.
type Follower interface {
	// Await waits until readers of the read model see everything up to a position. With an ended
	// context it only reports whether they do: nil if so.
	Await(ctx context.Context, name string, position eventlog.Position) error
}

// opening is the position from which the Directory may report that a key is unknown.
type opening struct {
	from     eventlog.Position
	follower Follower
	reached  atomic.Bool // remains true: the Directory only moves forward
}

// Config sets up a Directory. The zero Config is usable.
type Config struct {
	// Now is the clock that this node's lease is timed with; nil = time.Now.
	Now    func() time.Time
	Logger *slog.Logger
}

// New returns an empty Directory. It knows keys once a Runner has started it, and answers for them once it
// has been opened.
func New(cfg Config, store *sqlstore.Store) *Directory {
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	cfg.Logger = cmp.Or(cfg.Logger, slog.New(slog.DiscardHandler))
	d := &Directory{shared: store.Shared(), logger: cfg.Logger}
	d.Model = projections.NewModel(Name, store, d.version())
	d.lookups = telemetry.Counters("letterhead_key_lookups_total",
		"Look-ups of API keys, by where they were answered from: memory or rows.", "from")
	if d.shared {
		d.memory = newMemory(database{store}, uuid.NewString(), cfg.Now)
	}
	return d
}

// Setup creates the tables of the leases in a shared database. It must be called before a Runner
// starts the Directory there. Errors: as sqlstore.Store.Setup.
func (d *Directory) Setup(ctx context.Context) error {
	if !d.shared {
		return nil
	}
	return d.memory.db.(database).setup(ctx)
}

// Register registers the Directory's metrics.
func (d *Directory) Register(to prometheus.Registerer) error {
	if err := telemetry.Register(to, d.lookups); err != nil {
		return fmt.Errorf("register metrics of the key directory: %w", err)
	}
	return nil
}

// Hold keeps this node's lease in a shared database until ctx ends, then returns nil; during that time
// Lookup may answer from memory.
func (d *Directory) Hold(ctx context.Context) error {
	if !d.shared {
		<-ctx.Done()
		return nil
	}
	d.memory.hold(ctx)
	return nil
}

// AwaitNodes waits until a decision on a key or an account is folded, which folded waits for (Runner.WaitFor), and then
// until no node answers from keys remembered before, for at most about outlast. The decision applies to every request
// that begins later, on any node. If the server fails over meanwhile, AwaitNodes waits for both again. Errors:
// sqlstore.ErrUnavailable, the errors of folded, ctx.Err().
func (d *Directory) AwaitNodes(ctx context.Context, folded func(context.Context) error) error {
	if !d.shared {
		return folded(ctx)
	}
	return sqlstore.Wrap(await(ctx, d.memory.db, d.logger, folded), "wait until every node enforces the decision")
}

// Open lets Lookup answer as soon as follower has brought the Directory to a position: the head of the
// log when the node started. Commands that append later events wait for them.
func (d *Directory) Open(from eventlog.Position, follower Follower) {
	d.opening.Store(&opening{from: from, follower: follower})
}

// ended is a context for calls that must not wait.
var ended = func() context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	return ctx
}()

// Ready returns nil if Lookup answers. Errors: those of projections.Handle.Read; projections.ErrNotReady, joined with
// the *engine.QuarantinedError if the read model stopped before it got there.
func (d *Directory) Ready() error {
	o := d.opening.Load()
	if o == nil {
		return fmt.Errorf("%s: not opened: %w", Name, projections.ErrNotReady)
	}
	if d.shared || !o.reached.Load() {
		switch err := o.follower.Await(ended, Name, o.from); {
		case errors.Is(err, context.Canceled): // caused by the ended context
			return fmt.Errorf("%s: before position %d: %w", Name, o.from, projections.ErrNotReady)
		case err != nil:
			return fmt.Errorf("%w: %w", projections.ErrNotReady, err)
		}
		o.reached.Store(true)
	}
	return d.Handle().Read(func(projections.Queryer, *projections.Tables) error { return nil })
}

// Lookup returns the key with this SHA-256 and whether there is one. A revoked key is found, too, with Revoked set.
// Errors: as Ready; sqlstore.ErrUnavailable, ctx.Err(). With an error it answers for no key at all: a missing key may
// just not have been read yet, and an existing one may have been revoked since.
func (d *Directory) Lookup(ctx context.Context, sum [32]byte) (k Key, found bool, err error) {
	if d.shared {
		return d.recall(ctx, sum)
	}
	return d.recallAlone(ctx, sum)
}

// List returns an account's keys in the order of issue, including revoked ones. Errors:
// projections.ErrNotReady, sqlstore.ErrUnavailable, ctx.Err().
func (d *Directory) List(ctx context.Context, accountID string) ([]Listed, error) {
	rows, err := keyTable.List(ctx, d.Handle(), "WHERE account = $1 ORDER BY issued_at, id LIMIT $2", accountID, MaxListed)
	var all []Listed
	for i := range rows {
		all = append(all, rows[i].listed())
	}
	return all, sqlstore.Wrap(err, "list keys of account %s", accountID)
}

// Get returns one key by its id, and whether there is one. Errors: as List.
func (d *Directory) Get(ctx context.Context, keyID string) (k Listed, found bool, err error) {
	one, found, err := keyTable.Get(ctx, d.Handle(), keyID)
	if found {
		k = one.listed()
	}
	return k, found, sqlstore.Wrap(err, "get key %s", keyID)
}

// Forget implements projections.Forgetter.
func (d *Directory) Forget() { d.alone.empty() }

func (k *row) listed() Listed {
	return Listed{
		ID: k.id, AccountID: k.account, Kind: k.kind, Last4: k.last4,
		IssuedAt: k.issuedAt, RevokedAt: k.revokedAt, LastUsedAt: k.lastUsedAt,
		KeyTerms: k.terms(),
	}
}

// parseHash parses the hex form that events contain.
func parseHash(text string) (h hash, err error) {
	if len(text) != 2*len(h) { // hex.Decode would write past h
		return h, fmt.Errorf("key hash of %d characters is not a SHA-256 in hex", len(text))
	}
	if _, err := hex.Decode(h[:], []byte(text)); err != nil {
		return h, fmt.Errorf("key hash is not a SHA-256 in hex: %w", err)
	}
	return h, nil
}
