package commands

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"

	"letterhead/eventschemas"
	"letterhead/internal/eventlog"
)

// ErrChainBroken: an event's hash is not what the chain says. The error is a *ChainError. It is an
// eventlog.ErrCorrupt as well: nothing is decided on such a stream.
var ErrChainBroken = errors.New("hash chain is broken")

// ChainError says where the chain breaks.
type ChainError struct {
	Stream   string
	Revision uint64
	Reason   string
}

func (e *ChainError) Error() string {
	return fmt.Sprintf("%s at revision %d of %s: %s", ErrChainBroken, e.Revision, e.Stream, e.Reason)
}

// Is makes errors.Is true for ErrChainBroken and eventlog.ErrCorrupt.
func (e *ChainError) Is(target error) bool {
	return target == ErrChainBroken || target == eventlog.ErrCorrupt
}

// verifyPage is how many events VerifyChain holds in memory at a time.
const verifyPage = 2048

// VerifyChain reads a stream from its beginning and checks every link of its hash chain. It returns how many
// events hold, also beside an error. A stream without events holds.
//
// Errors: *ChainError, those of eventlog.Log.ReadStream.
func VerifyChain(ctx context.Context, log eventlog.Log, stream string) (events int, err error) {
	err = eachEvent(ctx, log, stream, func(*eventlog.Recorded, eventschemas.Hash) error {
		events++
		return nil
	}, nil)
	return events, err
}

// nextHead checks one stored event against the chain and returns its hash.
func nextHead(head eventschemas.Hash, stream string, revision uint64, rec *eventlog.Recorded) (eventschemas.Hash, error) {
	if rec.Revision != revision {
		return head, &ChainError{Stream: stream, Revision: revision, Reason: fmt.Sprintf("found revision %d in its place", rec.Revision)}
	}
	next := chainLink(stream, revision, &rec.Proposed).Next(head)
	if hexOf(next) != rec.Metadata.Hash {
		return head, &ChainError{Stream: stream, Revision: revision, Reason: "its hash is not that of its content"}
	}
	return next, nil
}

// chainLink is what the chain covers of an event.
func chainLink(stream string, revision uint64, ev *eventlog.Proposed) eventschemas.ChainLink {
	return eventschemas.ChainLink{
		Stream:        stream,
		Revision:      revision,
		EventID:       ev.ID,
		Type:          ev.Type,
		SchemaVersion: ev.SchemaVersion,
		OccurredAt:    ev.OccurredAt,
		Actor:         ev.Metadata.Actor,
		RequestID:     ev.Metadata.RequestID,
		Data:          ev.Data,
	}
}

// hexOf is a hash as metadata carries it.
func hexOf(h eventschemas.Hash) string { return hex.EncodeToString(h[:]) }
