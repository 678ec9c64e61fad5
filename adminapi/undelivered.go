package adminapi

import (
	"net/http"
	"slices"
	"time"

	"letterhead/domain/books"
	"letterhead/operations"
)

// maxListed limits the charges that are found for a request: some 20 MB.
const maxListed = 50_000

// maxListedLocally limits them for the command line: some 400 MB.
const maxListedLocally = 1_000_000

// maxReversals limits the charges that a request reverses, so that it ends in time.
const maxReversals = 1_000

// listUndelivered answers GET /admin/ledger/undelivered. It reads the ledger from since on, so few run at a time.
func (x *exchange) listUndelivered() error {
	q := x.query("since", "account", "limit", "cursor")
	since, _ := q.span("since")
	limit, last := q.limit(), after[operations.UndeliveredCharge](q)
	if q.err != nil {
		return q.err
	}
	charges, err := x.undelivered(q.text("account"), since)
	if err != nil {
		return err
	}
	if last != nil {
		charges = slices.DeleteFunc(charges,
			func(c operations.UndeliveredCharge) bool { return c.Position <= last.Position })
	}
	return x.reply(page("charges", q, charges, limit, asItIs))
}

func (x *exchange) undelivered(accountID string, since time.Time) ([]operations.UndeliveredCharge, error) {
	if since.IsZero() {
		return nil, invalid("Send since: the time of the earliest charge, such as 2026-11-30 or 2026-11-30T15:04:05Z.")
	}
	if accountID != "" {
		if err := x.api.Operations.Reads.AccountExists(x.ctx, accountID); err != nil {
			return nil, x.explain(accountID, err)
		}
	}
	end, err := x.startReport()
	if err != nil {
		return nil, err
	}
	defer end()
	most := maxListed
	if x.local {
		most = maxListedLocally
	}
	return x.api.Operations.Charges.Undelivered(x.ctx, accountID, since, most)
}

func (x *exchange) reverseUndelivered(in struct {
	Since   string `json:"since"`
	Account string `json:"account"`
}) error {
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
	now, listed, most := x.api.Now(), len(charges), maxReversals
	if x.local {
		most = listed
	}
	charges = slices.DeleteFunc(charges,
		func(c operations.UndeliveredCharge) bool { return c.ReversibleUntil.Before(now) })
	old, remaining := listed-len(charges), max(len(charges)-most, 0)
	done, failed, err := x.api.Operations.Charges.Reverse(x.ctx, x.by(), charges[:len(charges)-remaining])
	if err != nil {
		return err
	}
	done.TooOld += old
	reasons := []string{}
	for _, err := range failed {
		reasons = append(reasons, sentence(err)+".")
	}
	return x.answer(http.StatusOK, struct {
		operations.Reversals
		Failed    []string `json:"failed"`
		Remaining int      `json:"remaining"`
	}{done, reasons, remaining})
}
