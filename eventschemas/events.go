package eventschemas

import "time"

// Event is one event as a Go value. EventType returns the wire name, which does not depend on the Go type's name.
type Event = interface{ EventType() string }

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
	// AccountNoted is a note of an operator about the account. It changes nothing. Customers do not see it, except in a
	// proof of the account.
	AccountNoted struct {
		NoteID string `json:"note_id,omitempty"`
		Text   string `json:"text"`
	}
	// CreditsHeld holds credits for work whose outcome is not known yet. Only an event ends the hold:
	// CreditsCharged captures it, or HoldReleased releases it. After Deadline any node may release it.
	CreditsHeld struct {
		HoldID    string    `json:"hold_id"`
		Credits   int64     `json:"credits"`
		Deadline  time.Time `json:"deadline"`
		RequestID string    `json:"request_id"`
		Domain    string    `json:"domain"`
		KeyID     string    `json:"key_id,omitempty"` // the request's API key, if it has a limit; empty in version 1
	}
	// CreditsCharged spends credits. With HoldID it captures that much of the hold; captures may be
	// partial, and Item distinguishes several captures of one hold.
	CreditsCharged struct {
		ChargeID       string `json:"charge_id"`
		Credits        int64  `json:"credits"`
		RequestID      string `json:"request_id"`
		BrandID        string `json:"brand_id"`
		Domain         string `json:"domain"`
		RecordRevision uint64 `json:"record_revision"` // revision of the brand stream in the answer
		HoldID         string `json:"hold_id,omitempty"`
		Item           string `json:"item,omitempty"`
		// 32 hex digits of the key's SHA-256, 32 of the item's
		IdempotencyKeyHash string `json:"idempotency_key_hash,omitempty"`
		RequestHash        string `json:"request_hash,omitempty"` // hex SHA-256
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
		// Note says why an operator reversed the charge; empty in version 1.
		Note string `json:"note,omitempty"`
		// KeyID is the API key of the charge if its limit gets the credits back; empty in version 1.
		KeyID string `json:"key_id,omitempty"`
	}
	// ChargeKept records that the answer of a charge was returned to a repeated request. From then on the
	// charge is not reversed if its first client disconnected.
	ChargeKept struct {
		ChargeID  string `json:"charge_id"`
		RequestID string `json:"request_id"` // the request that was answered from it
	}
	// PaymentRefunded removes the credits of a refunded payment. Only this event may make the balance negative.
	PaymentRefunded struct {
		RefundID  string `json:"refund_id"`
		PaymentID string `json:"payment_id"`
		Credits   int64  `json:"credits"`
		Money     *Money `json:"money,omitempty"`
	}
	// PaymentFeeRecorded records what the payment processor took from a payment, or from its refund or dispute. It
	// moves no credits. The currency is the one of the balance at the processor.
	PaymentFeeRecorded struct {
		FeeID     string `json:"fee_id"`
		PaymentID string `json:"payment_id"`
		Money     Money  `json:"money"` // not zero; below zero if the processor returned it
	}
	// BreakageRecognized removes all remaining credits of a closed account. Their money is revenue from then on.
	BreakageRecognized struct {
		Credits int64  `json:"credits"` // the balance before
		Policy  string `json:"policy"`  // why they will not be used
	}
	// RefundReversed returns the credits and the money of a refund to its payment, because the refund failed or the
	// dispute behind it was won.
	RefundReversed struct {
		RefundID  string `json:"refund_id"`
		PaymentID string `json:"payment_id"`
		Credits   int64  `json:"credits"`
		Money     *Money `json:"money,omitempty"` // what counted of the refund; see account.Returned
	}
	// KeyIssued makes an API key valid. Only its hash is ever stored.
	KeyIssued struct {
		KeyID     string     `json:"key_id"`
		Hash      string     `json:"hash"` // hex SHA-256 of the whole key
		Last4     string     `json:"last4"`
		Kind      string     `json:"kind"`                 // secret, publishable
		ExpiresAt *time.Time `json:"expires_at,omitempty"` // nil if it does not expire
		Scopes    []string   `json:"scopes,omitempty"`     // logos, search; none for everything
		Origins   []string   `json:"origins,omitempty"`    // none for all; domain/origin has their form
	}
	// KeyRevoked revokes a key forever.
	KeyRevoked struct {
		KeyID string `json:"key_id"`
	}
	// KeyLimitSet limits the credits that a key may spend. Without limit and period it removes the limit.
	KeyLimitSet struct {
		KeyID  string `json:"key_id"`
		Limit  int64  `json:"limit,omitempty"`  // credits
		Period string `json:"period,omitempty"` // total, day, month
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
// UsageTicked records how many requests arrived. It also reserves crawls of a day for requests without a key, under an id
// that is no account's.
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
		// ByConvention lists the icons that were found only by convention, including those that the record omits; nil
		// for none.
		ByConvention *IconsByConvention `json:"by_convention,omitempty"`
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
		// Reason is why an operator set the field; empty in version 1.
		Reason string `json:"reason,omitempty"`
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
	// LossAccepted records that an operator accepted the loss of events at the end of the log, as the first event
	// after the loss, or that the log differs from a signed checkpoint.
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

// BooksStream holds the ends of the months of the books.
const BooksStream = "books"

type (
	// PeriodEnded ends a month of the books. Events of the month that are appended later are booked in the
	// next month that has not ended.
	PeriodEnded struct {
		Month string `json:"month"` // YYYY-MM (UTC)
	}
	// PeriodClosed records the books of a month that has ended.
	PeriodClosed struct {
		Month string `json:"month"` // YYYY-MM (UTC)
		// Position is the position of PeriodEnded at the closing. It changes if the log is copied to another store.
		Position uint64 `json:"position"`
		// Digest is the hex SHA-256 of the month's journal (docs/books.md), and Transactions the number of its
		// transactions, without those that open it.
		Digest       string        `json:"digest"`
		Transactions uint64        `json:"transactions"`
		Totals       []PeriodTotal `json:"totals"` // sorted by ledger account, then commodity
	}
	// PeriodTotal is the change of a ledger account in a month, and the sum of all its postings up to the end.
	PeriodTotal struct {
		LedgerAccount string `json:"ledger_account"`
		Commodity     string `json:"commodity"` // ISO 4217, or CREDIT
		Change        int64  `json:"change"`    // minor units, or credits; debits are positive
		Balance       int64  `json:"balance"`
	}
)

// CheckpointsStream holds the checkpoints of the ledger: CheckpointBegun and LedgerCheckpointed in turns.
const CheckpointsStream = "checkpoints"

type (
	// CheckpointBegun marks the events of a checkpoint: all events of account streams that precede it in the log.
	CheckpointBegun struct{}
	// LedgerCheckpointed records the checkpoint of the CheckpointBegun before it, and has its time. Root is that of a
	// Merkle tree (RFC 6962) of the heads of all account streams; docs/proofs.md describes tree and log.
	LedgerCheckpointed struct {
		Accounts uint64 `json:"accounts"` // leaves of the tree
		Root     string `json:"root"`     // hex
		// Position is the position of CheckpointBegun at the time. A copy of the log to another store keeps it.
		Position uint64 `json:"position"`
		Note     string `json:"note"` // the signed checkpoint of the log that ends with this one
	}
)

// OperatorsStream holds the tokens of operators, and the links with which they sign in.
const OperatorsStream = "operators"

type (
	// OperatorTokenIssued makes a token of the admin API valid. Only its hash is ever stored; its name is not in
	// events.
	OperatorTokenIssued struct {
		TokenID   string     `json:"token_id"`
		Hash      string     `json:"hash"` // hex SHA-256 of the whole token
		Last4     string     `json:"last4"`
		Scope     string     `json:"scope"`                // read, support, finance, admin
		ExpiresAt *time.Time `json:"expires_at,omitempty"` // nil if it does not expire
	}
	// OperatorTokenRevoked revokes a token forever.
	OperatorTokenRevoked struct {
		TokenID string `json:"token_id"`
	}
	// OperatorLinkIssued makes a link valid with which an operator can sign in once. Signing in issues a token with the
	// id of the link.
	OperatorLinkIssued struct {
		LinkID    string    `json:"link_id"`
		Hash      string    `json:"hash"` // hex SHA-256 of the link's token
		Scope     string    `json:"scope"`
		ExpiresAt time.Time `json:"expires_at"`
	}
)

// SignInsPrefix precedes the account id in the names of the streams of sign-ins.
const SignInsPrefix = "signins-"

// A person is an opaque id. Only hashes of the texts of links and sessions are ever stored.
type (
	// SignInLinkIssued makes a link valid with which a person can sign in once.
	SignInLinkIssued struct {
		LinkID    string    `json:"link_id"`
		Hash      string    `json:"hash"` // hex SHA-256 of the link's token
		Person    string    `json:"person"`
		ExpiresAt time.Time `json:"expires_at"`
	}
	// SignedIn uses a link up and begins a session.
	SignedIn struct {
		SessionID string    `json:"session_id"`
		LinkID    string    `json:"link_id"`
		Hash      string    `json:"hash"` // hex SHA-256 of the session's token
		Person    string    `json:"person"`
		ExpiresAt time.Time `json:"expires_at"`
	}
	// SignedOut ends a session.
	SignedOut struct {
		SessionID string `json:"session_id"`
	}
	// SignedOutEverywhere ends all sessions, and all links that were not used, of a person; of all people of the
	// account if there is none.
	SignedOutEverywhere struct {
		Person string `json:"person,omitempty"`
	}
	// SignInEmailSet sets, or removes, the e-mail address to which links of a person are sent; of the account's owner
	// if none is named. The address is personal data and is not in the event.
	SignInEmailSet struct {
		Person string `json:"person,omitempty"`
		Email  bool   `json:"email"` // there is an address
	}
)

// CheckpointSize returns the number of checkpoints up to the LedgerCheckpointed with a revision.
func CheckpointSize(revision uint64) uint64 { return (revision + 1) / 2 }

// BillingPrefix precedes the processor and the id of its event, as in billing-stripe:evt_1, in the names of the streams
// of billing events. Each event of a processor has its stream.
const BillingPrefix = "billing-"

type (
	// BillingReported records an event of a payment processor, reduced to what accounts need. It never has names,
	// addresses or card data. Kind is payment, failure, link, refund, dispute, subscription or customer, and empty if
	// the event was not understood; Problem says why an operator must look at it.
	BillingReported struct {
		Processor string    `json:"processor"`
		EventID   string    `json:"event_id"`
		Type      string    `json:"event_type"` // as the processor calls it
		CreatedAt time.Time `json:"created_at"` // by the processor's clock
		Kind      string    `json:"kind,omitempty"`
		Subject   string    `json:"subject,omitempty"` // id of the refund, dispute or subscription
		State     string    `json:"state,omitempty"`   // of the subject, as the processor calls it
		AccountID string    `json:"account_id,omitempty"`
		Customer  string    `json:"customer,omitempty"`
		PaymentID string    `json:"payment_id,omitempty"`
		InvoiceID string    `json:"invoice_id,omitempty"` // of a link: the payment that PaymentID belongs to
		GrantKind string    `json:"grant_kind,omitempty"` // topup, subscription
		// The prices of a payment determine its credits unless they are given.
		Credits int64          `json:"credits,omitempty"`
		Prices  []BillingPrice `json:"prices,omitempty"`
		Money   *Money         `json:"money,omitempty"`
		Tax     int64          `json:"tax,omitempty"`     // the part of the money that is tax
		Attempt int64          `json:"attempt,omitempty"` // of a failure: which attempt to pay it was, from 1
		Problem string         `json:"problem,omitempty"`
	}
	// BillingPrice is a price of the processor and how often it was bought.
	BillingPrice struct {
		Price    string `json:"price"`
		Quantity int64  `json:"quantity"`
	}
	// BillingSettled records what became of the BillingReported in its stream.
	BillingSettled struct {
		Outcome   string `json:"outcome"` // applied, inbox, dismissed (by an operator)
		Reason    string `json:"reason,omitempty"`
		AccountID string `json:"account_id,omitempty"`
		Plan      string `json:"plan,omitempty"` // that the account's subscriptions give
	}
	// BillingReopened makes the processor's event be decided again, by order of an operator.
	BillingReopened struct{}
)

// NoticesPrefix precedes the account id in the names of the streams of notices.
const NoticesPrefix = "notices-"

type (
	// NoticesSet sets which notices an account's holder gets. The destinations are personal data, so they are not in
	// events but in the table of package accountnames.
	NoticesSet struct {
		LowBalance int64 `json:"low_balance"` // credits below which a balance is low; 0 for no notice of it
		Webhook    bool  `json:"webhook"`     // whether there is a URL
		Email      bool  `json:"email"`       // whether there is an address
	}
	// PaymentFailed records that a payment of the account was attempted and failed. It changes no credits.
	PaymentFailed struct {
		PaymentID string    `json:"payment_id"`
		Attempt   int64     `json:"attempt"`         // from 1; 0 if the processor does not count them
		FailedAt  time.Time `json:"failed_at"`       // by the processor's clock
		Money     *Money    `json:"money,omitempty"` // that was to be paid
	}
	// NoticeAttempted begins an attempt to deliver a notice. It precedes the request, so that only one node sends it.
	NoticeAttempted struct {
		NoticeID    string `json:"notice_id"`
		Destination string `json:"destination"` // webhook, email
		Attempt     int64  `json:"attempt"`     // from 1; again from 1 after NoticeReopened
	}
	// NoticeSettled records the outcome of an attempt, or that there will be no other one.
	NoticeSettled struct {
		NoticeID    string `json:"notice_id"`
		Destination string `json:"destination"`
		Attempt     int64  `json:"attempt"` // the last one; 0 if there was none
		Outcome     string `json:"outcome"` // delivered, failed (to be tried again), dead_lettered, outdated
		Reason      string `json:"reason,omitempty"`
	}
	// NoticeReopened makes a notice that was not delivered be attempted again, by order of an operator.
	NoticeReopened struct {
		NoticeID    string `json:"notice_id"`
		Destination string `json:"destination"`
	}
)

// The wire names. They are part of the stored data and never change.
func (AccountOpened) EventType() string        { return "AccountOpened" }
func (PlanChanged) EventType() string          { return "PlanChanged" }
func (AccountSuspended) EventType() string     { return "AccountSuspended" }
func (AccountNoted) EventType() string         { return "AccountNoted" }
func (AccountReinstated) EventType() string    { return "AccountReinstated" }
func (AccountClosed) EventType() string        { return "AccountClosed" }
func (CreditsGranted) EventType() string       { return "CreditsGranted" }
func (CreditsHeld) EventType() string          { return "CreditsHeld" }
func (CreditsCharged) EventType() string       { return "CreditsCharged" }
func (HoldReleased) EventType() string         { return "HoldReleased" }
func (ChargeReversed) EventType() string       { return "ChargeReversed" }
func (ChargeKept) EventType() string           { return "ChargeKept" }
func (PaymentRefunded) EventType() string      { return "PaymentRefunded" }
func (PaymentFeeRecorded) EventType() string   { return "PaymentFeeRecorded" }
func (BreakageRecognized) EventType() string   { return "BreakageRecognized" }
func (KeyIssued) EventType() string            { return "KeyIssued" }
func (KeyRevoked) EventType() string           { return "KeyRevoked" }
func (KeyLimitSet) EventType() string          { return "KeyLimitSet" }
func (UsageTicked) EventType() string          { return "UsageTicked" }
func (LogosAllotted) EventType() string        { return "LogosAllotted" }
func (BrandDiscovered) EventType() string      { return "BrandDiscovered" }
func (CrawlRequested) EventType() string       { return "CrawlRequested" }
func (CrawlSucceeded) EventType() string       { return "CrawlSucceeded" }
func (CrawlConfirmed) EventType() string       { return "CrawlConfirmed" }
func (CrawlFailed) EventType() string          { return "CrawlFailed" }
func (BrandImported) EventType() string        { return "BrandImported" }
func (FieldOverridden) EventType() string      { return "FieldOverridden" }
func (OverrideRemoved) EventType() string      { return "OverrideRemoved" }
func (BrandClaimed) EventType() string         { return "BrandClaimed" }
func (BrandWithdrawn) EventType() string       { return "BrandWithdrawn" }
func (LossAccepted) EventType() string         { return "LossAccepted" }
func (PeriodEnded) EventType() string          { return "PeriodEnded" }
func (PeriodClosed) EventType() string         { return "PeriodClosed" }
func (CheckpointBegun) EventType() string      { return "CheckpointBegun" }
func (LedgerCheckpointed) EventType() string   { return "LedgerCheckpointed" }
func (OperatorTokenIssued) EventType() string  { return "OperatorTokenIssued" }
func (OperatorTokenRevoked) EventType() string { return "OperatorTokenRevoked" }
func (OperatorLinkIssued) EventType() string   { return "OperatorLinkIssued" }
func (RefundReversed) EventType() string       { return "RefundReversed" }
func (BillingReported) EventType() string      { return "BillingReported" }
func (BillingSettled) EventType() string       { return "BillingSettled" }
func (BillingReopened) EventType() string      { return "BillingReopened" }
func (NoticesSet) EventType() string           { return "NoticesSet" }
func (NoticeAttempted) EventType() string      { return "NoticeAttempted" }
func (NoticeSettled) EventType() string        { return "NoticeSettled" }
func (PaymentFailed) EventType() string        { return "PaymentFailed" }
func (NoticeReopened) EventType() string       { return "NoticeReopened" }
func (SignInLinkIssued) EventType() string     { return "SignInLinkIssued" }
func (SignedIn) EventType() string             { return "SignedIn" }
func (SignedOut) EventType() string            { return "SignedOut" }
func (SignedOutEverywhere) EventType() string  { return "SignedOutEverywhere" }
func (SignInEmailSet) EventType() string       { return "SignInEmailSet" }
