package account

import (
	"fmt"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"letterhead/domain/plan"
	words "letterhead/domain/text"
	"letterhead/eventschemas"
)

const (
	// MaxCredits limits every amount and the absolute value of the balance. It is the largest integer
	// that every JSON reader represents exactly.
	MaxCredits int64 = 1<<53 - 1
	// MaxMoney limits an amount of money, in minor units, for the same reason.
	MaxMoney int64 = 1<<53 - 1
	// MaxOpenHolds limits the number of open holds: the largest plan starts 300 crawls a minute and a
	// hold lives about 70 s at most.
	MaxOpenHolds = 4096
	// MaxKeys limits the keys that are neither revoked nor expired.
	MaxKeys = 256
	// MaxReleases limits the overdue holds that one decision releases, so that its events fit into one append.
	MaxReleases = 128
	// MaxIdempotencyKeys limits the idempotency keys that the fold remembers. With the longest domain
	// a key takes about 680 bytes of a snapshot, so a full snapshot, including recent charges and open
	// holds, stays below the snapshot store's limit of 16 MiB. A forgotten key remains valid for
	// IdempotencyWindow: decisions then need Older, which comes from an index of the log.
	MaxIdempotencyKeys = 1 << 14
	// MaxRecentCharges limits the charges that are remembered for HoldMemory, about 200 bytes each: 15 minutes at four
	// a second, or a few seconds of the busiest account. The oldest is forgotten first.
	MaxRecentCharges = 4096
	// MaxKeyItems limits the charges under one idempotency key: a batch asks for 100 domains, and one
	// decision that keeps all of them must fit into one append.
	MaxKeyItems = 128
	// MaxKeptCharges limits the charges that are marked as kept, about 120 bytes each. When it is exceeded, charges as
	// old as the first forgotten mark can no longer be reversed, because they may have been kept.
	MaxKeptCharges = 4096
	// MaxTextBytes limits ids and reasons.
	MaxTextBytes = 512

	// HoldMemory is how long an ended hold and a charge are remembered. A capture or a repeat arrives
	// within the request, which ends in seconds.
	HoldMemory = 15 * time.Minute
	// UndeliveredWindow is how long a charge can be reversed because its client disconnected. This happens within
	// seconds or, after an outage of the log, about ten minutes. It is one minute shorter than HoldMemory, during which
	// a repeat keeps the charge, because the clocks of nodes differ.
	UndeliveredWindow = HoldMemory - time.Minute
	// IdempotencyWindow is how long a charged answer is repeated for its key.
	IdempotencyWindow = 24 * time.Hour
	// ReversalWindow is how long an operator can reverse a charge.
	ReversalWindow = 24 * time.Hour
)

// StreamPrefix precedes the account id in the name of its stream.
const StreamPrefix = "account-"

// Stream returns the name of an account's stream.
func Stream(id string) string { return StreamPrefix + id }

// Status is the status of an account.
type Status string

// An account without events has none of these statuses.
const (
	Active    Status = "active"
	Suspended Status = "suspended"
	Closed    Status = "closed"
)

// Account is the fold of one account stream.
type Account struct {
	id     string
	stream string
	core   core

	open       map[string]hold     // holds that have not ended, by hold id
	ended      map[string]ending   // holds that ended less than HoldMemory ago
	payments   map[string]payment  // by payment id, forever
	grants     map[string]int64    // credits of grants without a payment, by grant id, forever
	refunds    map[string]refund   // by refund id, forever
	fees       map[string]fee      // by fee id, forever
	keys       map[string]key      // by key id, forever
	notes      map[string]struct{} // ids, forever
	charged    map[string]keyed    // unreversed charges with an idempotency key, by key hash
	chargeKey  map[string]string   // key hash by charge id, for the entries of charged
	keyGroups  map[string][]string // the key hashes in charged of one idempotency key, in stream order
	kept       map[string]struct{} // charges that can no longer be reversed because a client disconnected, by charge id
	reversed   map[reversalKey]struct{}
	recent     []recentCharge    // the latest charges in order; the first recentGone are forgotten
	recentAt   map[string]uint64 // number of the latest charge by charge id, for the entries of recent
	recentGone int

	// Entries that expire, oldest first. An entry that no longer matches its map is skipped.
	endedOrder    []remembered
	chargedOrder  []remembered
	keptOrder     []remembered
	reversedOrder []reversal

	most      bounds
	tentative bool
	journal   journal
}

// bounds limits the charges that the fold remembers: MaxIdempotencyKeys and MaxKeptCharges, or less in tests.
type bounds struct{ keys, kept int }

// core is copied as a whole when a tentative group begins.
type core struct {
	status    Status
	holder    string
	plan      plan.ID
	balance   int64
	held      int64  // sum of the remainders of the open holds
	month     int    // months since year 0, UTC, of the last charge
	lookups   int64  // in that month
	charges   uint64 // charges folded since an arbitrary start; numbers the entries of recent
	validKeys int    // keys that are not revoked
	limits    KeyLimits
	revisions uint64 // events folded
	lastAt    time.Time
	head      eventschemas.Hash
	keysPast  uint64    // idempotency keys charged below this revision may be forgotten
	keysAt    time.Time // when the last of these was charged; zero when none is forgotten
	keptPast  time.Time // charges up to this time may be kept although kept has forgotten them; zero for none
	earliest  time.Time // lower bound of the deadlines of open holds; zero when none is open
}

// The types below with tags are also the entries of a snapshot. Their times are in UTC.

type hold struct {
	Credits   int64     `json:"credits"` // as placed
	Left      int64     `json:"left"`
	Deadline  time.Time `json:"deadline"`
	RequestID string    `json:"request"`
	Domain    string    `json:"domain"`
	KeyID     string    `json:"key,omitempty"` // of a key with a limit
	Captures  []capture `json:"captures,omitempty"`
}

// ending is a hold that has ended.
type ending struct {
	hold
	At       time.Time `json:"ended_at,omitzero"`
	Revision uint64    `json:"revision,omitempty"` // of the event that ended it
}

// capture is a charge that named the hold.
type capture struct {
	ChargeID string    `json:"charge"`
	Credits  int64     `json:"credits"`
	Revision uint64    `json:"revision"`
	At       time.Time `json:"at"`
}

type payment struct {
	granted, refunded int64              // credits
	paid              eventschemas.Money // zero if the grant had no money
	tax               int64              // the part of paid that is tax
	returned          int64              // minor units, at most paid
}

type refund struct {
	paymentID string
	credits   int64
	money     eventschemas.Money // zero if the event had none
	returned  int64              // what counts of it, in minor units of the payment's money: see Returned
	reversed  bool
	rest      bool // it left no credits of the payment
	restMoney bool // it left no money of the payment
}

// fee is a fee of the payment processor.
type fee struct {
	PaymentID string `json:"payment"`
	eventschemas.Money
}

// keyed is a charge that came with an idempotency key.
type keyed struct {
	RequestHash string `json:"request_hash"`
	ChargeFact
}

// recentCharge is a charge of less than HoldMemory ago, among the latest MaxRecentCharges.
type recentCharge struct {
	number uint64
	ChargeFact
}

// remembered is an entry that expires. The event's revision distinguishes a key's later charge from its first.
type remembered struct {
	ID       string    `json:"charge"` // the name in a snapshot, which only has kept charges of them
	Revision uint64    `json:"revision"`
	At       time.Time `json:"at"`
}

// New returns the account before its first event.
func New(id string) *Account {
	return &Account{
		id:        id,
		stream:    Stream(id),
		open:      map[string]hold{},
		ended:     map[string]ending{},
		payments:  map[string]payment{},
		grants:    map[string]int64{},
		refunds:   map[string]refund{},
		fees:      map[string]fee{},
		keys:      map[string]key{},
		notes:     map[string]struct{}{},
		charged:   map[string]keyed{},
		chargeKey: map[string]string{},
		keyGroups: map[string][]string{},
		kept:      map[string]struct{}{},
		reversed:  map[reversalKey]struct{}{},
		recentAt:  map[string]uint64{},
		most:      bounds{keys: MaxIdempotencyKeys, kept: MaxKeptCharges},
	}
}

// ID returns the account's id.
func (a *Account) ID() string { return a.id }

// Status returns the account's status, empty for an account that was never opened.
func (a *Account) Status() Status { return a.core.status }

// Holder returns the opaque id of the account's holder in the side table of personal data.
func (a *Account) Holder() string { return a.core.holder }

// Plan returns the current plan.
func (a *Account) Plan() plan.ID { return a.core.plan }

// Balance returns grants − charges + reversals − refunds + reversed refunds − breakage. It is negative only after a
// refund of spent credits.
func (a *Account) Balance() int64 { return a.core.balance }

// Remaining returns the balance, or zero if it is negative.
func (a *Account) Remaining() int64 { return max(a.core.balance, 0) }

// Held returns the sum of the remainders of the open holds.
func (a *Account) Held() int64 { return a.core.held }

// Unheld returns the balance minus open holds; reservations are taken from it.
func (a *Account) Unheld() int64 { return a.core.balance - a.core.held }

// OpenHolds returns the number of open holds.
func (a *Account) OpenHolds() int { return len(a.open) }

// Lookups returns the number of charges in the month (UTC) of now, without reversed ones, according to the folded
// events; never below zero. A reversal in the first ReversalWindow of a month counts only while its charge is
// remembered (HoldMemory, MaxRecentCharges), because its event does not contain the time of the charge: in those hours
// a late reversal of this month's charge leaves the number one too high.
func (a *Account) Lookups(now time.Time) int64 {
	if monthOf(now) != a.core.month {
		return 0
	}
	return max(a.core.lookups, 0)
}

// Revisions returns the number of folded events; the next event gets this revision.
func (a *Account) Revisions() uint64 { return a.core.revisions }

// LastAt returns when the last event occurred.
func (a *Account) LastAt() time.Time { return a.core.lastAt }

// Head returns the hash of the last event, zero before the first.
func (a *Account) Head() eventschemas.Hash { return a.core.head }

// Remembered returns the number of entries in the state, a measure of the snapshot's size.
func (a *Account) Remembered() int {
	return len(a.open) + len(a.ended) + len(a.payments) + len(a.grants) + len(a.refunds) + len(a.fees) +
		len(a.keys) + len(a.notes) + len(a.core.limits) +
		len(a.charged) + len(a.kept) + len(a.reversed) + len(a.recent) - a.recentGone
}

// Spendable returns the credits that can be spent, given the credits that are reserved in memory: never below zero,
// except that a negative balance is returned unchanged. InsufficientCreditsError carries this figure.
func (a *Account) Spendable(reserved int64) int64 {
	if a.core.balance < 0 {
		return a.core.balance
	}
	return max(a.Unheld()-reserved, 0)
}

func monthOf(t time.Time) int {
	t = t.UTC()
	return t.Year()*12 + int(t.Month()) - 1
}

// Outcome is the result of a decision.
type Outcome struct {
	Events   []eventschemas.Event // none for a repeat
	Repeated bool                 // the requested state already exists
	// TookNothing is set by SettlePayment if the claim to settle has money to take, and nothing was left of the
	// payment.
	TookNothing bool
	// Short is set by SettlePayment: the minor units of that claim that were not left of the payment.
	Short int64
}

func repeated() Outcome { return Outcome{Repeated: true} }

func decided(events ...eventschemas.Event) Outcome { return Outcome{Events: events} }

// exists returns ErrNotFound for an account that was never opened.
func (a *Account) exists() error {
	if a.core.status == "" {
		return ErrNotFound
	}
	return nil
}

// notClosed returns an error unless the account is open and not closed.
func (a *Account) notClosed() error {
	if err := a.exists(); err != nil {
		return err
	}
	if a.core.status == Closed {
		return ErrClosed
	}
	return nil
}

// maySpend returns an error unless the account is active.
func (a *Account) maySpend() error {
	if err := a.notClosed(); err != nil {
		return err
	}
	if a.core.status == Suspended {
		return ErrSuspended
	}
	return nil
}

// text validates an id or a reason.
func text(field, value string, required bool) error {
	switch {
	case required && value == "":
		return &InvalidError{Field: field, Reason: "is missing"}
	case len(value) > MaxTextBytes:
		return &InvalidError{Field: field, Reason: "is too long"}
	case strings.ContainsRune(value, 0):
		return &InvalidError{Field: field, Reason: "contains a NUL"}
	default:
		return nil
	}
}

// kept rejects an operator's text that events, which are permanent, must not contain. Commands call it only when there
// is something to record, so that repeating an old command still succeeds.
func kept(field, value string) error {
	if err := words.CheckKept(field, value); err != nil {
		return &InvalidError{Field: field, Reason: words.HoldsEmail, cause: err}
	}
	return nil
}

// newID validates an id that is not recorded yet, because lists print ids in columns. Ids of earlier releases stay
// valid.
func newID(field, value string) error {
	switch {
	case strings.ContainsFunc(value, func(c rune) bool { return !unicode.IsPrint(c) }) || !utf8.ValidString(value):
		return &InvalidError{Field: field, Reason: "contains a control or invisible character"}
	case strings.TrimSpace(value) != value:
		return &InvalidError{Field: field, Reason: "begins or ends with a space"}
	}
	return nil
}

// amount validates a number of credits.
func amount(credits int64) error {
	if credits < 1 || credits > MaxCredits {
		return &InvalidError{Field: "credits", Reason: fmt.Sprintf("must be from 1 to %d", MaxCredits)}
	}
	return nil
}

// firstError returns the first non-nil error.
func firstError(errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}
