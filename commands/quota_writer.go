package commands

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"

	"github.com/google/uuid"

	"letterhead/commands/streamwriter"
	"letterhead/domain/account"
	"letterhead/domain/usage"
	"letterhead/eventschemas"
	"letterhead/internal/eventlog"
)

// QuotaWriter counts requests that cost no credit against the plan's monthly allowance. It is safe for concurrent use.
type QuotaWriter struct {
	months *streamwriter.Actors[*quotaState]
	logos  allotments
	shared bool
}

type quotaActor = streamwriter.Actor[*quotaState]

// NewQuotaWriter returns a quota writer for a log. Snapshots may be nil: then every month is folded from
// its beginning. With Shared set, Searches reads the stream's tail first.
func NewQuotaWriter(cfg streamwriter.Config, log eventlog.Log, snapshots streamwriter.Snapshots) (*QuotaWriter, error) {
	months, err := streamwriter.New(cfg, quotaStreams(), log, snapshots)
	if err != nil {
		return nil, fmt.Errorf("quota writer: %w", err)
	}
	return &QuotaWriter{months: months, shared: cfg.Shared}, nil
}

// quotaStreams describes the streams of accounts' months.
func quotaStreams() streamwriter.Kind[*quotaState] {
	return streamwriter.Kind[*quotaState]{
		Label:         "usage",
		FoldVersion:   usage.FoldVersion,
		Open:          openQuota(tickRequests()),
		Identify:      usageDecision,
		Encoder:       eventschemas.Encoder{},
		Decode:        eventschemas.Decode,
		EventID:       eventschemas.EventID,
		Final:         func(err error) bool { return errors.Is(err, account.ErrInvalid) },
		NeedsOperator: func(error) bool { return false }, // counts are never compensated
	}
}

// tickRequests gives every tick an id that no other quota writer uses, because two that count at the
// same revision must not append the same event.
func tickRequests() func() Request {
	writer := uuid.NewString()
	var ticks atomic.Uint64
	return func() Request {
		return Request{ID: fmt.Sprintf("%s-%d", writer, ticks.Add(1)), Actor: actorQuotaWriter}
	}
}

const quotaKeySeparator = "/"

func quotaKey(accountID string, m usage.Month) string {
	return accountID + quotaKeySeparator + m.String()
}

func openQuota(requests func() Request) func(string) (string, *quotaState, error) {
	return func(key string) (string, *quotaState, error) {
		accountID, text, _ := strings.Cut(key, quotaKeySeparator)
		if err := checkAccountID(accountID); err != nil {
			return "", nil, err
		}
		month, err := usage.ParseMonth(text)
		if err != nil {
			return "", nil, &account.InvalidError{Field: "month", Reason: "must be of the form YYYY-MM"}
		}
		return usage.Stream(accountID, month), newQuotaState(accountID, month, requests), nil
	}
}

// Drain rejects new counts with ErrBusy, finishes the queued ones, and ends; see AccountWriter.Drain.
func (d *QuotaWriter) Drain(ctx context.Context) error { return d.months.Drain(ctx) }
