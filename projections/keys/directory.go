package keys

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"sync"
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
// In a database of this process alone Lookup answers from memory, which is updated before the commands that wait for
// the change are notified. In a shared database Lookup reads the rows, or answers from the keys that this node
// remembers while Hold has a lease that proves them current; AwaitNodes waits for all leases.
type Directory struct {
	projections.Model
	shared  bool
	logger  *slog.Logger
	memory  *memory                 // nil unless shared
	opening atomic.Pointer[opening] // nil before Open
	lookups *prometheus.CounterVec  // by the source of the answer

	mu       sync.RWMutex
	contents             // empty if shared
	loaded   atomic.Bool // contents include all rows
}

type hash = [sha256.Size]byte

// contents is the data in memory, about 300 bytes per key, and its origins.
type contents struct {
	byHash   map[hash]*known
	byID     map[string]*known
	accounts map[string]*standing
}

type known struct {
	id, kind string
	hash     hash
	revoked  bool
	account  string
	standing *standing
	terms    account.KeyTerms
}

// standing is what all keys of an account share.
type standing struct {
	plan   plan.ID
	status string
}

func newContents() contents {
	return contents{byHash: map[hash]*known{}, byID: map[string]*known{}, accounts: map[string]*standing{}}
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
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	d := &Directory{shared: store.Shared(), logger: cfg.Logger, contents: newContents()}
	d.Model = projections.NewModel(Name, store, d.version())
	d.lookups = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "letterhead_key_lookups_total",
		Help: "Look-ups of API keys in a database that nodes share, by where they were answered from: memory or rows.",
	}, []string{"from"})
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
	if err := await(ctx, d.memory.db, d.logger, folded); err != nil {
		return fmt.Errorf("wait until every node enforces the decision: %w", err)
	}
	return nil
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

// Ready returns nil if Lookup answers. In a database of this process alone it remains nil. Errors: those of
// projections.Handle.Read; projections.ErrNotReady, joined with the *engine.QuarantinedError if the read model stopped
// before it got there.
func (d *Directory) Ready() error {
	o := d.opening.Load()
	if o == nil {
		return fmt.Errorf("%s: not opened: %w", Name, projections.ErrNotReady)
	}
	if o.reached.Load() {
		return nil
	}
	switch err := o.follower.Await(ended, Name, o.from); {
	case err == nil && d.shared:
		return d.Handle().Read(func(projections.Queryer, *projections.Tables) error { return nil })
	case err == nil && !d.loaded.Load(): // the rows were withheld at the start
		return fmt.Errorf("%s: rows could not be repaired: %w", Name, projections.ErrNotReady)
	case err == nil:
		o.reached.Store(true)
		return nil
	case errors.Is(err, context.Canceled): // caused by the ended context
		return fmt.Errorf("%s: before position %d: %w", Name, o.from, projections.ErrNotReady)
	default:
		return fmt.Errorf("%w: %w", projections.ErrNotReady, err)
	}
}

// Lookup returns the key with this SHA-256 and whether there is one. A revoked key is found, too, with Revoked set.
// Errors: as Ready; from a shared database also sqlstore.ErrUnavailable and ctx.Err(). With an error it answers for no
// key at all: a missing key may just not have been read yet, and an existing one may have been revoked since.
func (d *Directory) Lookup(ctx context.Context, sum [32]byte) (k Key, found bool, err error) {
	if d.shared {
		return d.recall(ctx, sum)
	}
	if err := d.Ready(); err != nil {
		return Key{}, false, err
	}
	k, found = d.find(sum)
	return k, found, nil
}

func (d *Directory) find(sum hash) (Key, bool) {
	d.mu.RLock()
	defer d.mu.RUnlock()
	k, ok := d.byHash[sum]
	// The map has already found it; comparing the whole hash in constant time keeps the answer
	// independent of how the map compares.
	if !ok || subtle.ConstantTimeCompare(k.hash[:], sum[:]) != 1 {
		return Key{}, false
	}
	return Key{
		ID: k.id, AccountID: k.account, Kind: k.kind, Revoked: k.revoked,
		Plan: k.standing.plan, AccountStatus: k.standing.status,
		KeyTerms: k.terms,
	}, true
}

// List returns an account's keys in the order of issue, including revoked ones. Errors:
// projections.ErrNotReady, sqlstore.ErrUnavailable, ctx.Err().
func (d *Directory) List(ctx context.Context, accountID string) ([]Listed, error) {
	all, err := d.list(ctx, "WHERE account = $1 ORDER BY issued_at, id LIMIT $2", accountID, MaxListed)
	if err != nil {
		return nil, fmt.Errorf("list keys of account %s: %w", accountID, err)
	}
	return all, nil
}

// Get returns one key by its id, and whether there is one. Errors: as List.
func (d *Directory) Get(ctx context.Context, keyID string) (k Listed, found bool, err error) {
	one, found, err := keyTable.Get(ctx, d.Handle(), keyID)
	if err != nil {
		return Listed{}, false, fmt.Errorf("get key %s: %w", keyID, err)
	}
	if found {
		k = one.listed()
	}
	return k, found, nil
}

// list returns the keys that rest, the text from WHERE on, selects.
func (d *Directory) list(ctx context.Context, rest string, args ...any) (all []Listed, err error) {
	err = d.Handle().Read(func(q projections.Queryer, t *projections.Tables) error {
		all = nil // drops rows of an earlier attempt
		return keyTable.Each(ctx, q, t, func(_ string, k row) { all = append(all, k.listed()) }, rest, args...)
	})
	return all, err
}

// Reload implements projections.Reloader.
func (d *Directory) Reload(ctx context.Context, q projections.Queryer,
	t *projections.Tables) (apply func(), err error) {
	if d.shared {
		return func() {}, nil
	}
	fresh := newContents()
	if err := accountTable.Each(ctx, q, t, func(id string, s standing) { fresh.accounts[id] = &s }, ""); err != nil {
		return nil, fmt.Errorf("read accounts of keys: %w", err)
	}
	if err := keyTable.Each(ctx, q, t, func(_ string, k row) { fresh.put(&k) }, ""); err != nil {
		return nil, fmt.Errorf("read keys: %w", err)
	}
	return func() {
		d.mu.Lock()
		defer d.mu.Unlock()
		d.contents = fresh
		d.loaded.Store(true)
	}, nil
}

// take applies the changes of a committed batch atomically.
func (d *Directory) take(changed []row, accounts map[string]standing) {
	if d.shared || len(changed) == 0 && len(accounts) == 0 {
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	for id, s := range accounts {
		*d.standing(id) = s
	}
	for i := range changed {
		d.put(&changed[i])
	}
}

func (c *contents) standing(accountID string) *standing {
	s, ok := c.accounts[accountID]
	if !ok {
		s = &standing{}
		c.accounts[accountID] = s
	}
	return s
}

func (c *contents) put(k *row) {
	now := &known{id: k.id, kind: k.kind, hash: k.hash, revoked: !k.revokedAt.IsZero(), account: k.account,
		standing: c.standing(k.account), terms: k.terms()}
	if before, ok := c.byID[k.id]; ok && before.hash != k.hash {
		delete(c.byHash, before.hash)
	}
	c.byID[k.id], c.byHash[k.hash] = now, now
}

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
