package commands

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/google/uuid"
	"github.com/prometheus/client_golang/prometheus"

	"letterhead/domain/account"
	"letterhead/eventschemas"
	"letterhead/internal/eventlog"
)

// Defaults of DeskConfig and UsageConfig.
const (
	DefaultMaxQueue      = 4096
	DefaultMaxLive       = 20_000
	DefaultIdleAfter     = 10 * time.Minute
	DefaultSettleWithin  = 2 * time.Second
	DefaultKnowWithin    = 5 * time.Second
	DefaultAppendWithin  = 5 * time.Second
	DefaultLoadWithin    = 3 * time.Second // less than the deadline of a request, so that its answer gives the reason
	DefaultSnapshotEvery = 4096
)

// DeskConfig sets the limits of a desk. Zero values take the defaults.
type DeskConfig struct {
	// MaxQueue limits the commands that wait for one account; further ones get ErrBusy.
	MaxQueue int
	// MaxLive limits the accounts in memory; at the limit an idle account is evicted.
	MaxLive int
	// IdleAfter is how long, up to twice the value, an account stays in memory without a command.
	IdleAfter time.Duration
	// SettleWithin limits the time of retries after conflicts.
	SettleWithin time.Duration
	// KnowWithin limits the time of repeating an append whose outcome is unknown.
	KnowWithin time.Duration
	// AppendWithin limits one call of the log's Append or ReadStream.
	AppendWithin time.Duration
	// LoadWithin is how long commands wait for an account to load. A stream that takes longer
	// continues to load in the background, and its commands get a *LoadingError in the meantime.
	LoadWithin time.Duration
	// SnapshotEvery is the minimum number of events between two snapshots of an account.
	SnapshotEvery int
	// Shared is set if other nodes serve the same accounts. Standing then reads the stream's tail
	// first, a busy account lets the other nodes append now and then, and a charge for a record older
	// than another node's answer is refused (ErrOlderRecord).
	Shared bool
	// Events encodes events in the versions that every node in service reads; the zero value writes
	// the current versions.
	Events eventschemas.Encoder
	// Keys finds charges under older idempotency keys. If nil, requests with a key are refused with
	// ErrKeysUnknown while the account has forgotten keys that are still valid.
	Keys KeyIndex
	// Now is the clock; time.Now when nil.
	Now func() time.Time
	// Logger logs faults; nil discards.
	Logger *slog.Logger
	// Registerer gets the metrics; nil means none.
	Registerer prometheus.Registerer
}

// Validate reports all errors of the configuration.
func (c DeskConfig) Validate() error {
	return validateActors("account desk", c.actors())
}

func (c DeskConfig) actors() actorConfig {
	return actorConfig{
		MaxQueue: c.MaxQueue, MaxLive: c.MaxLive, IdleAfter: c.IdleAfter, SettleWithin: c.SettleWithin, KnowWithin: c.KnowWithin,
		AppendWithin: c.AppendWithin, LoadWithin: c.LoadWithin, SnapshotEvery: c.SnapshotEvery, Shared: c.Shared, Events: c.Events, Now: c.Now, Logger: c.Logger,
	}
}

// numbers lists the settings that are counts or durations, with their defaults.
func (c *actorConfig) numbers() []setting {
	return []setting{
		{"MaxQueue", &c.MaxQueue, nil, DefaultMaxQueue},
		{"MaxLive", &c.MaxLive, nil, DefaultMaxLive},
		{"SnapshotEvery", &c.SnapshotEvery, nil, DefaultSnapshotEvery},
		{"IdleAfter", nil, &c.IdleAfter, int64(DefaultIdleAfter)},
		{"SettleWithin", nil, &c.SettleWithin, int64(DefaultSettleWithin)},
		{"KnowWithin", nil, &c.KnowWithin, int64(DefaultKnowWithin)},
		{"AppendWithin", nil, &c.AppendWithin, int64(DefaultAppendWithin)},
		{"LoadWithin", nil, &c.LoadWithin, int64(DefaultLoadWithin)},
	}
}

// setting is a count or a duration.
type setting struct {
	name     string
	count    *int
	duration *time.Duration
	usual    int64
}

func (s setting) value() int64 {
	if s.count != nil {
		return int64(*s.count)
	}
	return int64(*s.duration)
}

func (s setting) set(v int64) {
	if s.count != nil {
		*s.count = int(v)
		return
	}
	*s.duration = time.Duration(v)
}

func validateActors(desk string, c actorConfig) error {
	var errs []error
	for _, s := range c.numbers() {
		if s.value() < 0 {
			errs = append(errs, fmt.Errorf("%s: %s is negative", desk, s.name))
		}
	}
	return errors.Join(errs...)
}

func (c actorConfig) withDefaults() actorConfig {
	for _, s := range c.numbers() {
		if s.value() == 0 {
			s.set(s.usual)
		}
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	return c
}

// Desk serves all accounts: every command on an account goes through it. It is safe for concurrent
// use.
//
// In addition to the errors of each method, all of them return ErrBusy (queue full, conflict not
// settled, shutting down; a *LoadingError while a long stream is loaded), ErrUnknownOutcome,
// account.ErrNotFound, eventlog.ErrUnavailable, eventlog.ErrCorrupt (the stream cannot be trusted; a
// *ChainError has the place), or ctx.Err(). After ctx.Err() or ErrUnknownOutcome a charge that landed
// is reversed, and a hold released.
type Desk struct {
	accounts *registry[*ledger]
	metrics  *deskMetrics
	shared   bool
	keys     KeyIndex
}

// NewDesk returns a desk for a log. Snapshots may be nil: then every account is folded from its
// beginning.
func NewDesk(cfg DeskConfig, log eventlog.Log, snapshots Snapshots) (*Desk, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	if log == nil {
		return nil, errors.New("account desk: no event log")
	}
	m, err := newDeskMetrics("account", cfg.Registerer)
	if err != nil {
		return nil, fmt.Errorf("account desk: %w", err)
	}
	k := kind[*ledger]{foldVersion: account.FoldVersion, open: openLedger(cfg.Shared)}
	return &Desk{
		accounts: newRegistry(cfg.actors().withDefaults(), k, log, snapshots, m),
		metrics:  m,
		shared:   cfg.Shared,
		keys:     cfg.Keys,
	}, nil
}

// openLedger rejects ids that no account can have, so that they never reach the log as stream names.
func openLedger(shared bool) func(id string) (string, *ledger, error) {
	return func(id string) (string, *ledger, error) {
		if err := checkAccountID(id); err != nil {
			return "", nil, err
		}
		return account.Stream(id), newLedger(id, shared), nil
	}
}

func checkAccountID(id string) error {
	if parsed, err := uuid.Parse(id); err != nil || parsed.String() != id {
		return fmt.Errorf("account %.64q: %w", id, account.ErrNotFound)
	}
	return nil
}

// Drain refuses new commands with ErrBusy, finishes the queued ones, and ends. If ctx ends first,
// running commands are cut off and their callers get an error.
func (d *Desk) Drain(ctx context.Context) error { return d.accounts.drain(ctx) }

// plainJob is a command that neither uses a reservation nor needs compensation.
type plainJob struct {
	now     func(l *ledger, now time.Time) (account.Outcome, error)
	outcome account.Outcome
	done    Done
}

func (j *plainJob) decide(l *ledger, now time.Time) (verdict, error) {
	out, err := j.now(l, now)
	j.outcome = out
	return verdict{events: out.Events}, err
}

func (j *plainJob) applied(l *ledger) { j.done.Balance = l.Balance() }

func (j *plainJob) undone(*ledger) {}

func (j *plainJob) finished(_ *actor[*ledger], _ error, position eventlog.Position) {
	j.done.Position, j.done.Repeated = position, j.outcome.Repeated
}

func (j *plainJob) orphaned() *task[*ledger] { return nil }

// decideAccount runs a plain command.
func (d *Desk) decideAccount(ctx context.Context, in Request, accountID string, decide func(a *ledger, now time.Time) (account.Outcome, error)) (Done, error) {
	if err := in.Validate(); err != nil {
		return Done{}, err
	}
	j := &plainJob{now: decide}
	if err := d.accounts.do(ctx, accountID, &task[*ledger]{request: in, job: j}); err != nil {
		return Done{}, err
	}
	return j.done, nil
}

// chargeAt reads a charge's event, which has the amount to reverse.
func (d *Desk) chargeAt(ctx context.Context, accountID, chargeID string, revision uint64) (eventschemas.CreditsCharged, time.Time, error) {
	stream := account.Stream(accountID)
	found, err := d.accounts.log.ReadStream(ctx, stream, revision, eventlog.Forward, 1)
	if err != nil {
		return eventschemas.CreditsCharged{}, time.Time{}, fmt.Errorf("read revision %d of %s: %w", revision, stream, err)
	}
	if len(found) == 1 && found[0].Revision == revision {
		ev, err := eventschemas.Decode(found[0].Type, found[0].SchemaVersion, found[0].Data)
		if err != nil {
			return eventschemas.CreditsCharged{}, time.Time{}, fmt.Errorf("revision %d of %s: %w", revision, stream, err)
		}
		if charge, ok := ev.(eventschemas.CreditsCharged); ok && charge.ChargeID == chargeID {
			return charge, found[0].OccurredAt, nil
		}
	}
	return eventschemas.CreditsCharged{}, time.Time{}, fmt.Errorf("charge %s at revision %d of %s: %w", chargeID, revision, stream, ErrUnknownCharge)
}
