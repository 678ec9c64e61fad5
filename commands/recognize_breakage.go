package commands

import (
	"context"
	"fmt"
	"time"

	"letterhead/domain/account"
	"letterhead/eventschemas"
	"letterhead/internal/eventlog"
)

// RecognizeBreakage is the command to remove the remaining credits of a closed account.
type RecognizeBreakage struct {
	Request   Request
	AccountID string
	Policy    string // why the credits will not be used
}

// RecognizedBreakage is the result of RecognizeBreakage.
type RecognizedBreakage struct {
	Done
	Credits int64 // removed by the request; 0 if none remained
}

// maxBreakageEvents limits the events in which a repeated request looks for what it did before. A closed account gets
// few.
const maxBreakageEvents = 256

// RecognizeBreakage removes all remaining credits of a closed account, whose money is revenue from then on. It is a
// repeat if no credits remain; the same request again, after ErrUnknownOutcome, returns the credits that it removed.
// Errors: account.ErrNotClosed, account.ErrOpenHolds, account.ErrInvalid, ErrInvalidRequest, and the errors of
// AccountWriter.
func (d *AccountWriter) RecognizeBreakage(ctx context.Context, in RecognizeBreakage) (RecognizedBreakage, error) {
	var credits int64 // of the last decision, if the append was tried again
	done, err := d.decide(ctx, in.Request, in.AccountID, func(s *accountState, _ time.Time) (account.Outcome, error) {
		out, err := s.RecognizeBreakage(in.Policy)
		credits = 0
		for _, ev := range out.Events {
			if breakage, ok := ev.(eventschemas.BreakageRecognized); ok {
				credits = breakage.Credits
			}
		}
		return out, err
	})
	if err != nil {
		return RecognizedBreakage{}, err
	}
	if done.Repeated {
		credits, err = d.breakageOf(ctx, in.Request, in.AccountID)
	}
	return RecognizedBreakage{Done: done, Credits: credits}, err
}

// breakageOf returns the credits that a request removed from an account; 0 if it removed none.
func (d *AccountWriter) breakageOf(ctx context.Context, request Request, accountID string) (int64, error) {
	stream := account.Stream(accountID)
	last, err := d.log.ReadStream(ctx, stream, eventlog.End, eventlog.Backward, maxBreakageEvents)
	if err != nil {
		return 0, err
	}
	for _, rec := range last {
		if rec.Metadata.RequestID != request.ID || rec.Type != (eventschemas.BreakageRecognized{}).EventType() {
			continue
		}
		ev, err := eventschemas.Decode(rec.Type, rec.SchemaVersion, rec.Data)
		if err != nil {
			return 0, fmt.Errorf("revision %d of %s: %w", rec.Revision, stream, err)
		}
		if breakage, ok := ev.(eventschemas.BreakageRecognized); ok {
			return breakage.Credits, nil
		}
	}
	return 0, nil
}
