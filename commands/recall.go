package commands

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"time"

	"letterhead/commands/streamwriter"
	"letterhead/domain/account"
	"letterhead/internal/eventlog"
)

// Once is an idempotency key and the request sent with it.
type Once struct {
	Key     [sha256.Size]byte // SHA-256 of the Idempotency-Key header
	Request [sha256.Size]byte // SHA-256 of the request
	Item    string            // empty for a single request; the domain for an item of a batch
}

// hashes returns the hashes that a charge stores. Half of the first depends on the key only, so that
// the items of one key are found together and the key is recognized with any request; 128 bits of each
// are enough, because an account could only produce collisions with its own answers.
func (o *Once) hashes() (key, request string) {
	if o == nil {
		return "", ""
	}
	item := sha256.Sum256([]byte(o.Item))
	return hex.EncodeToString(o.Key[:sha256.Size/2]) + hex.EncodeToString(item[:sha256.Size/2]),
		hex.EncodeToString(o.Request[:])
}

// Recall is the request for the charges under an idempotency key.
type Recall struct {
	Request   Request
	AccountID string
	Once      Once // of any item
}

// Recall returns the charges under an idempotency key, for any item, in the order in which they were
// made: the charges of the last 24 h that were not reversed, and none for a key that may still be used. It
// has seen every charge that any node made before the call. The returned charges are kept: no node
// reverses them any more because their first client has gone.
//
// Errors: account.ErrIdempotencyMismatch (the key came with another request), account.ErrClosed,
// ErrInvalidRequest, ErrKeysUnknown, and the errors of AccountWriter.
func (d *AccountWriter) Recall(ctx context.Context, in Recall) ([]Receipt, error) {
	if err := in.Request.Validate(); err != nil {
		return nil, err
	}
	receipts, err := d.recall(ctx, in)
	if errors.Is(err, account.ErrKeysForgotten) { // the account was not in memory before
		receipts, err = d.recall(ctx, in)
	}
	return receipts, keysUnknown(err)
}

func (d *AccountWriter) recall(ctx context.Context, in Recall) ([]Receipt, error) {
	c := &recallCommand{final: !d.shared, in: account.Recall{RequestID: in.Request.ID}}
	c.in.IdempotencyKeyHash, c.in.RequestHash = in.Once.hashes()
	var err error
	if c.in.Older, err = d.olderKeys(ctx, in.AccountID, c.in.IdempotencyKeyHash); err != nil {
		return nil, err
	}
	if err := d.accounts.Do(ctx, in.AccountID, in.Request, c); err != nil {
		return nil, err
	}
	return c.receipts, nil
}

type recallCommand struct {
	streamwriter.PlainCommand[*accountState]
	final    bool // without reading the stream's tail
	in       account.Recall
	facts    []account.ChargeFact
	receipts []Receipt
}

func (c *recallCommand) Decide(s *accountState, now time.Time) (streamwriter.Decision, error) {
	out, facts, err := s.Recall(c.in, now)
	if err != nil {
		return streamwriter.Decision{}, err
	}
	c.facts = facts
	return streamwriter.Decision{Events: out.Events, Final: c.final}, nil
}

func (c *recallCommand) Applied(s *accountState) {
	c.receipts = nil
	for _, f := range c.facts {
		c.receipts = append(c.receipts, receiptOf(s, f, true))
	}
}

func (c *recallCommand) Finished(_ *accountActor, _ error, position eventlog.Position) {
	for i := range c.receipts {
		c.receipts[i].Position = position
	}
}
