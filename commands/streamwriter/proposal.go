package streamwriter

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"time"

	"letterhead/internal/delay"
	"letterhead/internal/eventlog"
)

// Propose encodes an event of a stream for storage, complete except for the hash of the chain.
//
// The id is derived from the decision, as the design says, and a digest of the data that the chain covers. Without the
// digest two actors that race to make the same decision would use the same id at the same revision; the log would take
// the second event for a repeat of the first, and the second actor would continue from a hash that was never stored.
// With it, equal ids mean equal events: a retry is the same event, and a lost race is a conflict.
func (k *Kind[S]) Propose(encoder Encoder, stream string, ev eventlog.Body, request Request,
	at time.Time) (eventlog.Proposed, error) {
	enc, err := encoder.Encode(ev)
	if err != nil {
		return eventlog.Proposed{}, fmt.Errorf("encode %s for %s: %w", ev.EventType(), stream, err)
	}
	key, subject, err := k.Identify(ev, request)
	if err != nil {
		return eventlog.Proposed{}, fmt.Errorf("identify %s for %s: %w", enc.Type, stream, err)
	}
	p := eventlog.Proposed{Type: enc.Type, SchemaVersion: enc.SchemaVersion, OccurredAt: at, Data: enc.Data,
		Metadata: request.metadata()}
	p.ID = k.EventID(stream, key, enc.Type, withDigest(subject, &p))
	return p, nil
}

// withDigest appends 96 bits of a hash of the data that the chain covers and the id does not contain.
func withDigest(subject string, p *eventlog.Proposed) string {
	var space [1024]byte // usual events fit, and need no memory of the heap
	hashed := space[:0]
	for _, part := range [...]string{p.Metadata.Actor, p.Metadata.RequestID} {
		hashed = append(binary.BigEndian.AppendUint64(hashed, uint64(len(part))), part...)
	}
	hashed = binary.BigEndian.AppendUint64(hashed, uint64(p.OccurredAt.UnixMicro()))
	sum := sha256.Sum256(append(hashed, p.Data...))
	var text [128]byte
	return string(base64.RawURLEncoding.AppendEncode(append(append(text[:0], subject...), '/'), sum[:12]))
}

// MaxRequestText limits each field of a Request, in bytes: the events of one command contain it many times.
const MaxRequestText = 128

// Request identifies the request of a command and its actor. It becomes the metadata of the events.
type Request struct {
	ID            string // generated for each request, never taken from a client
	Actor         string // account:<id>, operator:<name>, system:<part>
	CorrelationID string // optional
	CausationID   string // optional
}

// Validate returns ErrInvalidRequest if the id or actor is missing or a field is too long.
func (r Request) Validate() error {
	var errs []error
	for _, field := range []struct {
		name, value string
		required    bool
	}{
		{"request id", r.ID, true}, {"actor", r.Actor, true},
		{"correlation id", r.CorrelationID, false}, {"causation id", r.CausationID, false},
	} {
		if field.required && field.value == "" {
			errs = append(errs, fmt.Errorf("%w: %s is missing", ErrInvalidRequest, field.name))
		}
		if len(field.value) > MaxRequestText {
			errs = append(errs, fmt.Errorf("%w: %s is too long", ErrInvalidRequest, field.name))
		}
	}
	return errors.Join(errs...)
}

// metadata returns the request as event metadata.
func (r Request) metadata() eventlog.Metadata {
	return eventlog.Metadata{RequestID: r.ID, Actor: r.Actor, CorrelationID: r.CorrelationID,
		CausationID: r.CausationID}
}

// Plain is the part of a State that has no snapshots, appends nothing of its own, publishes nothing and keeps nothing
// between groups.
type Plain struct{}

// Remembered implements State.
func (Plain) Remembered() int { return 0 }

// MarshalBinary implements State.
func (Plain) MarshalBinary() ([]byte, error) { return nil, errors.ErrUnsupported }

// UnmarshalBinary implements State.
func (Plain) UnmarshalBinary([]byte) error { return errors.ErrUnsupported }

// BeforeGroup implements State.
func (Plain) BeforeGroup(time.Time) []Event { return nil }

// AfterGroup implements State.
func (Plain) AfterGroup() []Event { return nil }

// Publish implements State.
func (Plain) Publish(bool) {}

// Withdraw implements State.
func (Plain) Withdraw() {}

// Idle implements State.
func (Plain) Idle() bool { return true }

// PlainCommand is the part of a Command that only decides. It is not compensated if its caller has left.
type PlainCommand[S State] struct{}

// Applied implements Command.
func (PlainCommand[S]) Applied(S) {}

// Undone implements Command.
func (PlainCommand[S]) Undone(S) {}

// Finished implements Command.
func (PlainCommand[S]) Finished(*Actor[S], error, eventlog.Position) {}

// Compensation implements Command.
func (PlainCommand[S]) Compensation() *Compensation[S] { return nil }

// Pauses between attempts.
const (
	firstPause = 50 * time.Microsecond
	maxPause   = 5 * time.Millisecond
)

// retryBudget is a retry budget: pauses double, each drawn from the upper half so that colliding writers
// separate, within a limit on the total time.
type retryBudget struct {
	end   time.Time
	pause time.Duration
}

func newRetryBudget(within time.Duration) retryBudget {
	return retryBudget{end: time.Now().Add(within), pause: firstPause}
}

// left reports whether the limit leaves time for a pause.
func (p *retryBudget) left(pause time.Duration) bool { return !time.Now().Add(pause).After(p.end) }

// wait pauses before the next attempt. It returns false immediately if the limit would be exceeded or ctx has ended.
func (p *retryBudget) wait(ctx context.Context) bool {
	pause := delay.Jittered(p.pause)
	p.pause = min(2*p.pause, maxPause)
	return p.left(pause) && delay.For(ctx, pause) == nil
}
