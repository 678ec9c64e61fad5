package adminapi

import (
	"encoding/json"
	"time"

	"letterhead/commands"
	"letterhead/domain/account"
	"letterhead/eventschemas"
	"letterhead/operations"
	"letterhead/projections"
	"letterhead/projections/accounts"
	"letterhead/projections/actions"
	"letterhead/projections/brands"
	"letterhead/projections/engine"
	"letterhead/projections/failures"
	"letterhead/projections/inbox"
	"letterhead/projections/ledger"
	"letterhead/projections/payments"
)

// Parts of answers, for the clients in this program.
type (
	Outstanding     = accounts.Outstanding
	Brand           = brands.Listed
	BrandHistory    = brands.Past
	BrandChange     = brands.Change
	Failure         = failures.Failure
	ReadModel       = engine.Status
	Rebuild         = operations.Rebuild
	TableComparison = projections.TableComparison
	Token           = operations.Token
	Month           = operations.Month
	MonthTotals     = operations.MonthTotals
	Summed          = operations.Summed
	NewAccount      = operations.NewAccount
	IssuedKey       = operations.Key
	SignInEmail     = commands.Email
)

// EntryTypes returns the types of entries of the ledger.
func EntryTypes() []string { return ledger.Types() }

// Change is a change of an account that was made, with its credits then.
type Change struct {
	Account  string                        `json:"account"`
	Balance  int64                         `json:"balance"`
	Charges  int                           `json:"charges,omitempty"` // that were reversed, of a request
	Repeated bool                          `json:"repeated"`          // it was made before; nothing was changed
	Refund   *eventschemas.PaymentRefunded `json:"refund,omitempty"`
}

func changeOf(accountID string, done commands.Done) Change {
	return Change{Account: accountID, Balance: done.Balance, Repeated: done.Repeated}
}

// Fee is a fee of the payment processor that was recorded. Money is in minor units.
type Fee struct {
	Account   string `json:"account"`
	PaymentID string `json:"payment_id"`
	FeeID     string `json:"fee_id"`
	Money     int64  `json:"money"`
	Currency  string `json:"currency"`
	Repeated  bool   `json:"repeated"`
}

// Payment is a payment with the name of its account.
type Payment struct {
	payments.Payment
	AccountName string `json:"account_name,omitempty"`
}

// Report is a report of a payment processor with the name of its account.
type Report struct {
	inbox.Report
	AccountName string `json:"account_name,omitempty"`
}

// LedgerEntry is an entry of the ledger in words, with the name of the operator who caused it, for those who may list
// tokens.
type LedgerEntry struct {
	ledger.Line
	ActorName string `json:"actor_name,omitempty"`
}

// Account is an account, as it is or as it was.
type Account struct {
	Account operations.Account
	Credits struct{ Balance, Remaining, Available int64 }
	Lookups Count
	// Of the present.
	OpenHolds int64 `json:"open_holds"`
	Spent     *struct {
		Month   string
		Credits int64
	} // nil before the first charge
	LastUsedAt time.Time `json:"last_used_at"`
	// Of the past.
	AsOf            time.Time `json:"as_of"`
	Provisional     bool
	Revision        uint64
	Searches, Logos *Count
	Lots            []Lot
	OpenedAt        time.Time `json:"opened_at"`
}

// Held returns the credits that running requests hold.
func (a Account) Held() int64 { return max(a.Credits.Remaining, 0) - max(a.Credits.Available, 0) }

// Count is the use of a month.
type Count struct {
	Month string
	Count int64
}

// Key is a key as the API lists it.
type Key struct {
	ID         string    `json:"id"`
	Kind       string    `json:"kind"`
	Last4      string    `json:"last4"`
	Name       string    `json:"name"`
	State      string    `json:"state"`
	IssuedAt   time.Time `json:"issued_at"`
	LastUsedAt time.Time `json:"last_used_at,omitzero"`
	RevokedAt  time.Time `json:"revoked_at,omitzero"`
	account.KeyTerms
	Limit       *account.KeyLimit `json:"limit,omitempty"` // at present
	Provisional bool              `json:"provisional,omitempty"`
}

// Action is an action in words, with the name of its operator, for those who may list tokens, and that of the account
// that it is about.
type Action struct {
	actions.Action
	What        string `json:"what"`
	ActorName   string `json:"actor_name,omitempty"`
	AccountName string `json:"account_name,omitempty"`
}

// ReportEvent is an event of a report's stream, as it is stored.
type ReportEvent struct {
	At    time.Time       `json:"at"`
	Event string          `json:"event"`
	Actor string          `json:"actor"`
	Data  json.RawMessage `json:"data"`
}
