package commands

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"

	"letterhead/commands/streamwriter"
	"letterhead/domain/account"
	"letterhead/domain/plan"
	"letterhead/eventschemas"
	"letterhead/internal/eventlog"
	"letterhead/internal/runs"
)

// AccountWriterConfig configures an AccountWriter.
type AccountWriterConfig struct {
	// Config sets the limits. With Shared set, Standing reads the stream's tail first, and a charge for
	// a record older than another node's answer is rejected (ErrOlderRecord).
	streamwriter.Config
	// Keys finds charges under older idempotency keys. If nil, requests with a key are rejected with
	// ErrKeysUnknown while the account has forgotten keys that are still valid.
	Keys KeyIndex
	// Charges learns which charges have no answer yet. It may be nil.
	Charges *runs.Charges
	// LookupCredits is the price of a look-up; plan.LookupCredits when zero.
	LookupCredits int64
}

// AccountWriter decides every command on an account, for all accounts. It is safe for concurrent use.
//
// In addition to the errors of each method, all of them return ErrBusy (queue full, conflict not resolved, shutting
// down; a *streamwriter.LoadingError while a long stream is loaded), ErrUnknownOutcome, account.ErrNotFound,
// eventlog.ErrUnavailable, eventlog.ErrCorrupt (the stream cannot be trusted; a *streamwriter.ChainError has the
// place), or ctx.Err(). After ctx.Err() or ErrUnknownOutcome a charge that was stored is reversed, and a hold released.
type AccountWriter struct {
	accounts *streamwriter.Actors[*accountState]
	log      eventlog.Log
	shared   bool
	keys     KeyIndex
	charges  *runs.Charges // may be nil
	price    int64         // of a look-up, in credits
}

type accountActor = streamwriter.Actor[*accountState]

// NewAccountWriter returns the account writer for a log. Snapshots may be nil: then every account is
// folded from its beginning.
func NewAccountWriter(cfg AccountWriterConfig, log eventlog.Log,
	snapshots streamwriter.Snapshots) (*AccountWriter, error) {
	accounts, err := streamwriter.New(cfg.Config, accountStreams(cfg.Shared), log, snapshots)
	if err != nil {
		return nil, fmt.Errorf("account writer: %w", err)
	}
	price := cmp.Or(cfg.LookupCredits, plan.LookupCredits)
	return &AccountWriter{
		accounts: accounts, log: log, shared: cfg.Shared, keys: cfg.Keys, charges: cfg.Charges, price: price,
	}, nil
}

// accountStreams describes the streams of accounts. An id that no account can have is rejected, so that
// it never reaches the log as a stream name.
func accountStreams(shared bool) streamwriter.Kind[*accountState] {
	return streamwriter.Kind[*accountState]{
		Label:       "account",
		FoldVersion: account.FoldVersion,
		Open: func(id string) (string, *accountState, error) {
			if err := checkAccountID(id); err != nil {
				return "", nil, err
			}
			return account.Stream(id), newAccountState(id, shared), nil
		},
		Identify: accountDecision,
		Encoder:  eventschemas.Encoder{},
		Decode:   eventschemas.Decode,
		EventID:  eventschemas.EventID,
		Chain:    Chain,
		// A malformed request stays malformed, and an older record stays older.
		Final: func(err error) bool {
			return errors.Is(err, account.ErrInvalid) || errors.Is(err, ErrOlderRecord)
		},
		NeedsOperator: func(err error) bool { return errors.Is(err, account.ErrTooLate) },
	}
}

func checkAccountID(id string) error {
	if parsed, err := uuid.Parse(id); err != nil || parsed.String() != id {
		return fmt.Errorf("account %.64q: %w", id, account.ErrNotFound)
	}
	return nil
}

// Drain rejects new commands with ErrBusy, finishes the queued ones, and ends. If ctx ends first,
// running commands are cut off and their callers get an error.
func (d *AccountWriter) Drain(ctx context.Context) error { return d.accounts.Drain(ctx) }

// plainCommand is a command that neither uses a reservation nor needs compensation.
type plainCommand struct {
	streamwriter.PlainCommand[*accountState]
	now     func(s *accountState, now time.Time) (account.Outcome, error)
	outcome account.Outcome
	done    Done
	ended   func(error) // optional
}

func (c *plainCommand) Decide(s *accountState, now time.Time) (streamwriter.Decision, error) {
	out, err := c.now(s, now)
	c.outcome = out
	return streamwriter.Decision{Events: out.Events}, err
}

func (c *plainCommand) Applied(s *accountState) { c.done.Balance = s.Balance() }

func (c *plainCommand) Finished(_ *accountActor, err error, position eventlog.Position) {
	if c.ended != nil {
		c.ended(err)
	}
	c.done.Position, c.done.Repeated = position, c.outcome.Repeated
}

// decide runs a plain command.
func (d *AccountWriter) decide(ctx context.Context, in Request, accountID string,
	decide func(s *accountState, now time.Time) (account.Outcome, error)) (Done, error) {
	if err := in.Validate(); err != nil {
		return Done{}, err
	}
	c := &plainCommand{now: decide}
	if err := d.accounts.Do(ctx, accountID, in, c); err != nil {
		return Done{}, err
	}
	return c.done, nil
}

type compensation = streamwriter.Compensation[*accountState]

// compensate returns the compensation of a command on an account.
func compensate(request Request, decide func(*accountState, time.Time) (account.Outcome, error)) *compensation {
	return &compensation{Request: request, Command: &plainCommand{now: decide}}
}
