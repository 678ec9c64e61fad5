package commands

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"time"

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
	return hex.EncodeToString(o.Key[:sha256.Size/2]) + hex.EncodeToString(item[:sha256.Size/2]), hex.EncodeToString(o.Request[:])
}

// Recall is the request for the charges under an idempotency key.
type Recall struct {
	Request   Request
	AccountID string
	Once      Once // of any item
}

// Recall returns the charges under an idempotency key, for any item, in the order in which they were
// made: those of the last 24 h that were not reversed, and none for a key that may still be used. It
// has seen every charge that any node made before the call. The returned charges are kept: no node
// reverses them any more because their first client has gone.
//
// Errors: account.ErrIdempotencyMismatch (the key came with another request), account.ErrClosed,
// ErrInvalidRequest, ErrKeysUnknown, and those of Desk.
func (d *Desk) Recall(ctx context.Context, in Recall) ([]Receipt, error) {
	if err := in.Request.Validate(); err != nil {
		return nil, err
	}
	receipts, err := d.recall(ctx, in)
	if errors.Is(err, account.ErrKeysForgotten) { // the account was not in memory before
		receipts, err = d.recall(ctx, in)
	}
	return receipts, keysUnknown(err)
}

func (d *Desk) recall(ctx context.Context, in Recall) ([]Receipt, error) {
	j := &recallJob{in: account.Recall{RequestID: in.Request.ID}}
	j.in.IdempotencyKeyHash, j.in.RequestHash = in.Once.hashes()
	var err error
	if j.in.Older, err = d.olderKeys(ctx, in.AccountID, j.in.IdempotencyKeyHash); err != nil {
		return nil, err
	}
	if err := d.accounts.do(ctx, in.AccountID, &task[*ledger]{request: in.Request, job: j, loose: !d.shared}); err != nil {
		return nil, err
	}
	return j.receipts, nil
}

type recallJob struct {
	in       account.Recall
	facts    []account.ChargeFact
	receipts []Receipt
}

func (j *recallJob) decide(l *ledger, now time.Time) (verdict, error) {
	out, facts, err := l.Recall(j.in, now)
	if err != nil {
		return verdict{}, err
	}
	j.facts = facts
	return verdict{events: out.Events}, nil
}

func (j *recallJob) applied(l *ledger) {
	j.receipts = nil
	for _, f := range j.facts {
		j.receipts = append(j.receipts, receiptOf(l, f, true))
	}
}

func (j *recallJob) undone(*ledger) {}

func (j *recallJob) finished(_ *actor[*ledger], _ error, position eventlog.Position) {
	for i := range j.receipts {
		j.receipts[i].Position = position
	}
}

func (j *recallJob) orphaned() *task[*ledger] { return nil }
