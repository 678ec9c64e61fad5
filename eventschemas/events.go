package eventschemas

import "time"

// Event is one event as a Go value. EventType returns the wire name, which does not depend on the Go
// type's name.
type Event interface {
	EventType() string
}

// Money is an amount that was paid, in the currency's minor unit (cents for EUR, yen for JPY).
type Money struct {
	Minor    int64  `json:"minor"`
	Currency string `json:"currency"` // ISO 4217, upper case
}

// Account events, on stream account-<id>. The metadata of each carries the hash chain.
type (
	// AccountOpened creates an account. Holder is an opaque id in the table of package accountnames.
	AccountOpened struct {
		AccountID string `json:"account_id"`
		Holder    string `json:"holder"`
		Plan      string `json:"plan"`
	}
	// PlanChanged moves the account to another plan immediately.
	PlanChanged struct {
		From string `json:"from"`
		To   string `json:"to"`
	}
	// AccountSuspended blocks every request of the account until it is reinstated.
	AccountSuspended struct {
		Reason string `json:"reason"`
	}
	// AccountReinstated ends a suspension.
	AccountReinstated struct{}
	// AccountClosed ends the account; its holder's personal data may be erased.
	AccountClosed struct {
		Reason string `json:"reason"`
	}
	// CreditsGranted adds credits. PaymentID makes it idempotent: each payment grants credits only once.
	CreditsGranted struct {
		GrantID   string `json:"grant_id"`
		Kind      string `json:"kind"` // free, subscription, topup, adjustment
		Credits   int64  `json:"credits"`
		PaymentID string `json:"payment_id,omitempty"`
		Money     *Money `json:"money,omitempty"` // set if money was paid
		Tax       int64  `json:"tax,omitempty"`   // the part of the money that is tax, in minor units
		Reason    string `json:"reason,omitempty"`
	}
	// CreditsHeld holds credits for work whose outcome is not known yet. Only an event ends the hold:
	// CreditsCharged captures it, or HoldReleased releases it. After Deadline any node may release it.
	CreditsHeld struct {
		HoldID    string    `json:"hold_id"`
		Credits   int64     `json:"credits"`
		Deadline  time.Time `json:"deadline"`
		RequestID string    `json:"request_id"`
		Domain    string    `json:"domain"`
	}
	// CreditsCharged spends credits. With HoldID it captures that much of the hold; captures may be
	// partial, and Item distinguishes several captures of one hold.
	CreditsCharged struct {
		ChargeID           string `json:"charge_id"`
		Credits            int64  `json:"credits"`
		RequestID          string `json:"request_id"`
		BrandID            string `json:"brand_id"`
		Domain             string `json:"domain"`
		RecordRevision     uint64 `json:"record_revision"` // revision of the brand stream in the answer
		HoldID             string `json:"hold_id,omitempty"`
		Item               string `json:"item,omitempty"`
		IdempotencyKeyHash string `json:"idempotency_key_hash,omitempty"` // 32 hex digits of the key's SHA-256, 32 of the item's
		RequestHash        string `json:"request_hash,omitempty"`         // hex SHA-256
		// KeyID is the API key of the request; empty in version 1 and if no key was used.
		KeyID string `json:"key_id,omitempty"`
	}
	// HoldReleased releases the remainder of a hold.
	HoldReleased struct {
		HoldID  string `json:"hold_id"`
		Credits int64  `json:"credits"`
		Cause   string `json:"cause"` // handed_back, expired
	}
	// ChargeReversed returns the credits of a charge.
	ChargeReversed struct {
		ChargeID  string `json:"charge_id"`
		Credits   int64  `json:"credits"`
		RequestID string `json:"request_id"` // of the reversed charge
		Reason    string `json:"reason"`     // client_gone, operator
	}
	// ChargeKept records that the answer of a charge was returned to a repeated request. From then on the
	// charge is not reversed if its first client disconnected.
	ChargeKept struct {
		ChargeID  string `json:"charge_id"`
		RequestID string `json:"request_id"` // the request that was answered from it
	}
	// PaymentRefunded removes the credits of a refunded payment. Only this event may make the balance
	// negative.
	PaymentRefunded struct {
		RefundID  string `json:"refund_id"`
		PaymentID string `json:"payment_id"`
		Credits   int64  `json:"credits"`
		Money     *Money `json:"money,omitempty"`
	}
	// KeyIssued makes an API key valid. Only its hash is ever stored.
	KeyIssued struct {
		KeyID string `json:"key_id"`
		Hash  string `json:"hash"` // hex SHA-256 of the whole key
		Last4 string `json:"last4"`
		Kind  string `json:"kind"` // secret, publishable
	}
	// KeyRevoked revokes a key forever.
	KeyRevoked struct {
		KeyID string `json:"key_id"`
	}
)

// UsageTicked counts usage that costs no credits. On usage-<account>-<YYYYMM> it has one entry with
// searches and is durable before their answers are sent. On usage-node-<node> it aggregates the usage
// of all accounts for at most one second. Entries are sorted by account, then month.
type UsageTicked struct {
	Entries []UsageEntry `json:"entries"`
}

// LogosAllotted reserves logo requests of an account's monthly allowance, on usage-<account>-<YYYYMM>. It is
// durable before any of the requests is served with the rights of a key, and may cover future requests.
// UsageTicked records how many requests arrived.
type LogosAllotted struct {
	Requests int64 `json:"requests"`
}

// UsageEntry is the usage of one account in one month (UTC).
type UsageEntry struct {
	AccountID string    `json:"account_id"`
	Month     string    `json:"month"` // YYYY-MM
	Searches  int64     `json:"searches,omitempty"`
	Logos     int64     `json:"logos,omitempty"`
	KeysUsed  []KeyUsed `json:"keys_used,omitempty"` // sorted by key id
}

// KeyUsed records when a key was last used.
type KeyUsed struct {
	KeyID string    `json:"key_id"`
	At    time.Time `json:"at"`
}

// Brand events, on stream brand-<registrable domain>.
type (
	// BrandDiscovered precedes the first record that a crawl finds for a domain. In older streams it is the
	// first event of every domain that was looked up, and may occur again before the record.
	BrandDiscovered struct {
		BrandID string `json:"brand_id"`
		Domain  string `json:"domain"`
	}
	// CrawlRequested starts a crawl. AllowedMS limits the duration of the work. It is not a time because the
	// clocks of nodes differ.
	CrawlRequested struct {
		CrawlID   string `json:"crawl_id"`
		Domain    string `json:"domain"`
		Cause     string `json:"cause"` // lookup, refresh, schedule, logo, operator
		Priority  string `json:"lane"`  // live, refresh
		AllowedMS int64  `json:"allowed_ms"`
	}
	// CrawlSucceeded carries the whole record that a crawl found, with its evidence.
	CrawlSucceeded struct {
		CrawlID      string     `json:"crawl_id"`
		Record       Record     `json:"record"`
		Evidence     []Evidence `json:"evidence"` // sorted by field; truncated first if the event exceeds its limit
		FinalURL     string     `json:"final_url"`
		ETag         string     `json:"etag,omitempty"`
		LastModified string     `json:"last_modified,omitempty"`
	}
	// CrawlConfirmed records that a crawl found nothing new.
	CrawlConfirmed struct {
		CrawlID      string `json:"crawl_id"`
		ETag         string `json:"etag,omitempty"`
		LastModified string `json:"last_modified,omitempty"`
	}
	// CrawlFailed ends a crawl without a record. While the failure is remembered, only a paid refresh starts
	// another crawl.
	CrawlFailed struct {
		CrawlID         string `json:"crawl_id"`
		Outcome         string `json:"outcome"` // timeout, blocked, fetch_failed, dns, no_data
		RememberSeconds int64  `json:"remember_seconds"`
		Detail          string `json:"detail"` // one sentence for operators, without fetched content
	}
	// BrandImported adds a record from a data set. A later crawl should confirm it.
	BrandImported struct {
		BrandID  string     `json:"brand_id"`
		Domain   string     `json:"domain"`
		Source   string     `json:"source"` // name and version of the data set
		Record   Record     `json:"record"`
		Evidence []Evidence `json:"evidence"`
	}
	// FieldOverridden sets one field of the record, regardless of the results of crawls.
	FieldOverridden struct {
		Field string   `json:"field"` // JSON name of the field in Record
		Value JSONText `json:"value"`
	}
	// OverrideRemoved lets crawls determine the field again.
	OverrideRemoved struct {
		Field string `json:"field"`
	}
	// BrandClaimed marks the brand as claimed by its owner.
	BrandClaimed struct{}
	// BrandWithdrawn removes the brand at its owner's request. It is never crawled or returned again.
	BrandWithdrawn struct {
		Reason string `json:"reason"`
	}
)

// LogStream holds events about the log itself.
const LogStream = "log"

type (
	// LossAccepted records that an operator accepted the loss of events at the end of the log. It is
	// the first event after the loss.
	LossAccepted struct {
		Head        uint64        `json:"head"`          // position of the last event that the log held
		LastEventID string        `json:"last_event_id"` // of that event; empty when the log held none
		Witnesses   []LossWitness `json:"witnesses"`
		Reason      string        `json:"reason"`
	}
	// LossWitness is a component that remembered events that the log had lost.
	LossWitness struct {
		Name       string `json:"name"`       // such as "head marker" or "read model ledger"
		Remembered uint64 `json:"remembered"` // position; 0 if it remembers something else
		Detail     string `json:"detail"`
	}
)

// The wire names. They are part of the stored data and never change.
func (AccountOpened) EventType() string     { return "AccountOpened" }
func (PlanChanged) EventType() string       { return "PlanChanged" }
func (AccountSuspended) EventType() string  { return "AccountSuspended" }
func (AccountReinstated) EventType() string { return "AccountReinstated" }
func (AccountClosed) EventType() string     { return "AccountClosed" }
func (CreditsGranted) EventType() string    { return "CreditsGranted" }
func (CreditsHeld) EventType() string       { return "CreditsHeld" }
func (CreditsCharged) EventType() string    { return "CreditsCharged" }
func (HoldReleased) EventType() string      { return "HoldReleased" }
func (ChargeReversed) EventType() string    { return "ChargeReversed" }
func (ChargeKept) EventType() string        { return "ChargeKept" }
func (PaymentRefunded) EventType() string   { return "PaymentRefunded" }
func (KeyIssued) EventType() string         { return "KeyIssued" }
func (KeyRevoked) EventType() string        { return "KeyRevoked" }
func (UsageTicked) EventType() string       { return "UsageTicked" }
func (LogosAllotted) EventType() string     { return "LogosAllotted" }
func (BrandDiscovered) EventType() string   { return "BrandDiscovered" }
func (CrawlRequested) EventType() string    { return "CrawlRequested" }
func (CrawlSucceeded) EventType() string    { return "CrawlSucceeded" }
func (CrawlConfirmed) EventType() string    { return "CrawlConfirmed" }
func (CrawlFailed) EventType() string       { return "CrawlFailed" }
func (BrandImported) EventType() string     { return "BrandImported" }
func (FieldOverridden) EventType() string   { return "FieldOverridden" }
func (OverrideRemoved) EventType() string   { return "OverrideRemoved" }
func (BrandClaimed) EventType() string      { return "BrandClaimed" }
func (BrandWithdrawn) EventType() string    { return "BrandWithdrawn" }
func (LossAccepted) EventType() string      { return "LossAccepted" }
