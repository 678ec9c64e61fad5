package adminapi

import (
	"errors"
	"net/http"
	"slices"
	"time"

	"letterhead/domain/books"
	"letterhead/internal/eventlog"
)

// maxListed limits the charges that are found for a request: some 20 MB.
const maxListed = 50_000

// maxReversals limits the charges that a request reverses, so that it ends in time.
const maxReversals = 1_000

// ErrTooMany means that more than can be listed was found.
var ErrTooMany = errors.New("too many to be listed")

// UndeliveredCharge is a charge whose answer may not have been delivered, with the state of the process that made it.
type UndeliveredCharge struct {
	Position        eventlog.Position `json:"position"`
	AccountID       string            `json:"account_id"`
	Revision        uint64            `json:"revision"`
	At              time.Time         `json:"at"`
	Credits         int64             `json:"credits"`
	Domain          string            `json:"domain"`
	RequestID       string            `json:"request_id"`
	ChargeID        string            `json:"charge_id"`
	ReversibleUntil time.Time         `json:"reversible_until"`
	Node            string            `json:"node"`            // whose process ended
	LastAlive       time.Time         `json:"node_last_alive"` // as it last recorded
	GoneBy          time.Time         `json:"node_gone_by"`    // the latest moment of its end
}

// Reversals is what became of charges that were to be reversed.
type Reversals struct {
	Reversed int   `json:"reversed"`
	Credits  int64 `json:"credits"`
	TooOld   int   `json:"too_old"`
}

// listUndelivered answers GET /admin/ledger/undelivered. It reads the ledger from since on, so few run at a time.
func (x *exchange) listUndelivered() error {
	q := x.query("since", "account", "limit", "cursor")
	since, _ := q.span("since")
	limit, last := q.limit(), after[eventlog.Position](q)
	if q.err != nil {
		return q.err
	}
	charges, err := x.undelivered(q.text("account"), since)
	if err != nil {
		return err
	}
	if last != nil {
		charges = slices.DeleteFunc(charges, func(c UndeliveredCharge) bool { return c.Position <= *last })
	}
	more := len(charges) > limit
	charges = charges[:min(len(charges), limit)]
	out := map[string]any{"charges": append([]UndeliveredCharge{}, charges...)}
	if more {
		next, err := encodeCursor("", &charges[limit-1].Position)
		if err != nil {
			return err
		}
		out["next_cursor"] = next
	}
	return x.answer(http.StatusOK, out)
}

func (x *exchange) undelivered(accountID string, since time.Time) ([]UndeliveredCharge, error) {
	if since.IsZero() {
		return nil, invalid("Send since: the time of the earliest charge, such as 2026-11-30 or 2026-11-30T15:04:05Z.")
	}
	if accountID != "" {
		if err := x.api.Operations.AccountExists(x.ctx, accountID); err != nil {
			return nil, x.explain(accountID, err)
		}
	}
	if !x.api.reports.TryAcquire(1) {
		return nil, errReportRuns
	}
	defer x.api.reports.Release(1)
	return x.api.Operations.UndeliveredCharges(x.ctx, accountID, since, maxListed)
}

// reverseUndelivered answers POST /admin/ledger/undelivered/reverse.
func (x *exchange) reverseUndelivered() error {
	var in struct {
		Since   string `json:"since"`
		Account string `json:"account"`
	}
	if err := x.decode(&in); err != nil {
		return err
	}
	var since time.Time
	if in.Since != "" {
		var err error
		if since, _, err = books.ParseSpan(in.Since); err != nil {
			return invalid("The field since: %s.", err)
		}
	}
	charges, err := x.undelivered(in.Account, since)
	if err != nil {
		return err
	}
	now, listed := x.api.Now(), len(charges)
	charges = slices.DeleteFunc(charges, func(c UndeliveredCharge) bool { return c.ReversibleUntil.Before(now) })
	old, remaining := listed-len(charges), max(len(charges)-maxReversals, 0)
	done, failed, err := x.api.Operations.ReverseCharges(x.ctx, x.by(), charges[:len(charges)-remaining])
	if err != nil {
		return err
	}
	done.TooOld += old
	reasons := []string{}
	for _, err := range failed {
		reasons = append(reasons, sentence(err)+".")
	}
	return x.answer(http.StatusOK, struct {
		Reversals
		Failed    []string `json:"failed"`
		Remaining int      `json:"remaining"`
	}{done, reasons, remaining})
}
