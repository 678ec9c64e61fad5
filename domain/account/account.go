package account

import (
	"strings"
	"time"

	"letterhead/domain/plan"
	"letterhead/eventschemas"
)

// Limits.
const (
	// MaxCredits bounds every amount and the balance, on both sides of zero. It is the largest integer that
	// every JSON reader keeps exactly.
	MaxCredits int64 = 1<<53 - 1
	// MaxOpenHolds bounds the holds that are open at a time: the largest plan starts 300 crawls a minute and
	// a hold lives some 70 s at most.
	MaxOpenHolds = 4096
	// MaxKeys bounds the keys that are valid at a time.
	MaxKeys = 256
	// MaxReleases bounds the overdue holds that one decision releases, so that its events fit one append.
	MaxReleases = 128
	// MaxIdempotencyKeys bounds the idempotency keys that the fold remembers. With the longest domain a key takes
	// some 680 bytes of a snapshot, so that a full one, recent charges and open holds included, stays below
	// the 16 MiB that the store of snapshots takes. A key still counts for IdempotencyWindow after the fold has
	// forgotten it: decisions then take Older, which an index of the log gives.
	MaxIdempotencyKeys = 1 << 14
	// MaxRecentCharges bounds the charges that are remembered for HoldMemory, some 200 bytes each: 15 minutes
	// at four a second, or a few seconds of the busiest account. The oldest is forgotten first.
	MaxRecentCharges = 4096
	// MaxKeyItems bounds the charges that stand under one idempotency key: a batch asks for 100 domains, and
	// one decision that keeps all of them must fit one append.
	MaxKeyItems = 128
	// MaxKeptCharges bounds the charges that are known to be kept, some 120 bytes each. Past it no charge that
	// is as old as the first one forgotten is handed back, for it may be kept.
	MaxKeptCharges = 4096
	// MaxTextBytes bounds ids and reasons.
	MaxTextBytes = 512

	// HoldMemory is how long a hold is known after it ended, and a charge after it was made. A capture or a
	// repeat comes within the request, which is over in seconds.
	HoldMemory = 15 * time.Minute
	// HandBackWindow is how long a charge can be handed back because its client has gone, which comes within
	// seconds or, after an outage of the log, some ten minutes. It is less than HoldMemory, in which a repeat
	// keeps the charge: by a minute, because clocks of nodes differ.
	HandBackWindow = HoldMemory - time.Minute
	// IdempotencyWindow is how long a charged answer is given again for its key.
	IdempotencyWindow = 24 * time.Hour
	// ReversalWindow is how long an operator can hand a charge back.
	ReversalWindow = 24 * time.Hour
)

// StreamPrefix stands before the account id in the name of its stream.
const StreamPrefix = "account-"

// Stream is the name of an account's stream.
func Stream(id string) string { return StreamPrefix + id }

// Status of an account.
type Status string

// The statuses. An account without events has none.
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
	payments   map[string]payment  // by payment id, for ever
	grants     map[string]int64    // credits of grants without a payment, by grant id, for ever
	refunds    map[string]refund   // by refund id, for ever
	keys       map[string]key      // by key id, for ever
	charged    map[string]keyed    // charges with an idempotency key that stand, by key hash
	chargeKey  map[string]string   // key hash by charge id, for what stands in charged
	families   map[string][]string // the key hashes in charged of one idempotency key, in the order of the stream
	kept       map[string]struct{} // charges that are not handed back because a client has gone, by charge id
	reversed   map[reversalKey]struct{}
	recent     []recentCharge    // the latest charges, one after the other; the first recentGone are forgotten
	recentAt   map[string]uint64 // number of the latest charge by charge id, for what stands in recent
	recentGone int

	// What is forgotten with time, oldest first. An entry that no longer matches its map is skipped.
	endedOrder    []remembered
	chargedOrder  []remembered
	keptOrder     []remembered
	reversedOrder []reversal

	most      bounds
	tentative bool
	journal   journal
}

// bounds are how many charges the fold remembers: MaxIdempotencyKeys and MaxKeptCharges, or fewer in tests.
type bounds struct{ keys, kept int }

// core is what is copied whole when a tentative group begins.
type core struct {
	status    Status
	holder    string
	plan      plan.ID
	balance   int64
	held      int64  // sum of what is left of the open holds
	month     int    // months since year 0, UTC, of the last charge
	lookups   int64  // in that month
	charges   uint64 // folded, counted from any start: it numbers what stands in recent
	validKeys int
	revisions uint64 // events folded
	lastAt    time.Time
	head      eventschemas.Hash
	keysPast  uint64    // idempotency keys that were charged below this revision may be forgotten
	keysAt    time.Time // when the last of these was charged; zero when none is forgotten
	keptPast  time.Time // charges up to then may be kept though kept has forgotten them; zero for none
	earliest  time.Time // no open hold has a deadline before it; zero when none is open
}

type hold struct {
	credits   int64 // as placed
	left      int64
	deadline  time.Time
	requestID string
	domain    string
	captures  []capture
}

// ending is a hold that has ended.
type ending struct {
	hold
	revision uint64
	at       time.Time
}

// capture is a charge that named the hold.
type capture struct {
	chargeID string
	credits  int64
	revision uint64
	at       time.Time
}

type payment struct {
	granted, refunded int64
}

type refund struct {
	paymentID string
	credits   int64
}

type key struct {
	hash    string
	last4   string
	kind    string
	revoked bool
}

// keyed is a charge that came with an idempotency key.
type keyed struct {
	requestHash    string
	chargeID       string
	credits        int64
	brandID        string
	domain         string
	recordRevision uint64
	revision       uint64
	at             time.Time
}

// recentCharge is a charge of less than HoldMemory ago, among the latest MaxRecentCharges.
type recentCharge struct {
	number         uint64
	chargeID       string
	credits        int64
	brandID        string
	domain         string
	recordRevision uint64
	revision       uint64
	at             time.Time
}

// remembered is an entry to forget later. Revision is that of the event, which tells a key's later charge
// from its first.
type remembered struct {
	id       string
	revision uint64
	at       time.Time
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
		keys:      map[string]key{},
		charged:   map[string]keyed{},
		chargeKey: map[string]string{},
		families:  map[string][]string{},
		kept:      map[string]struct{}{},
		reversed:  map[reversalKey]struct{}{},
		recentAt:  map[string]uint64{},
		most:      bounds{keys: MaxIdempotencyKeys, kept: MaxKeptCharges},
	}
}

// ID is the account's id.
func (a *Account) ID() string { return a.id }

// Status is empty for an account that was never opened.
func (a *Account) Status() Status { return a.core.status }

// Holder is the opaque id of the account's holder in the side table of personal data.
func (a *Account) Holder() string { return a.core.holder }

// Plan is the plan in force.
func (a *Account) Plan() plan.ID { return a.core.plan }

// Balance is grants − charges + reversals − refunds; negative only after a refund of spent credits.
func (a *Account) Balance() int64 { return a.core.balance }

// Remaining is the balance, never below zero.
func (a *Account) Remaining() int64 { return max(a.core.balance, 0) }

// Held is the sum of what is left of the open holds.
func (a *Account) Held() int64 { return a.core.held }

// Unheld is balance less open holds: what reservations are taken from.
func (a *Account) Unheld() int64 { return a.core.balance - a.core.held }

// OpenHolds is how many holds are open.
func (a *Account) OpenHolds() int { return len(a.open) }

// Lookups is the number of charges in the month (UTC) of now less those of them that were reversed, as far
// as the stream was folded; never below zero. A reversal in the first ReversalWindow of a month counts only
// while its charge is remembered (HoldMemory, MaxRecentCharges), because its event does not say when it was
// charged: in those hours a late reversal of this month's charge leaves the number one too high.
func (a *Account) Lookups(now time.Time) int64 {
	if monthOf(now) != a.core.month {
		return 0
	}
	return max(a.core.lookups, 0)
}

// Revisions is how many events were folded; the next one gets this revision.
func (a *Account) Revisions() uint64 { return a.core.revisions }

// LastAt is when the last event occurred.
func (a *Account) LastAt() time.Time { return a.core.lastAt }

// Head is the hash of the last event, zero before the first.
func (a *Account) Head() eventschemas.Hash { return a.core.head }

// Remembered is how many entries the state holds, a measure of what a snapshot costs.
func (a *Account) Remembered() int {
	return len(a.open) + len(a.ended) + len(a.payments) + len(a.grants) + len(a.refunds) + len(a.keys) +
		len(a.charged) + len(a.kept) + len(a.reversed) + len(a.recent) - a.recentGone
}

// Spendable is what can be spent while reserved credits are set aside in memory: never below zero, but the
// balance itself when that is negative. It is the figure that goes with a refusal for want of credits.
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

// Outcome is what a decision leads to.
type Outcome struct {
	Events   []eventschemas.Event // none for a repeat
	Repeated bool                 // what the command asks for is already so
}

func repeated() Outcome { return Outcome{Repeated: true} }

func decided(events ...eventschemas.Event) Outcome { return Outcome{Events: events} }

// exists refuses what an account that was never opened cannot do.
func (a *Account) exists() error {
	if a.core.status == "" {
		return ErrNotFound
	}
	return nil
}

// notClosed refuses what a closed account cannot do.
func (a *Account) notClosed() error {
	if err := a.exists(); err != nil {
		return err
	}
	if a.core.status == Closed {
		return ErrClosed
	}
	return nil
}

// maySpend refuses what only an active account can do.
func (a *Account) maySpend() error {
	if err := a.notClosed(); err != nil {
		return err
	}
	if a.core.status == Suspended {
		return ErrSuspended
	}
	return nil
}

// text checks an id or a reason.
func text(field, value string, required bool) error {
	switch {
	case required && value == "":
		return &InvalidError{Field: field, Reason: "is missing"}
	case len(value) > MaxTextBytes:
		return &InvalidError{Field: field, Reason: "is too long"}
	case strings.ContainsRune(value, 0):
		return &InvalidError{Field: field, Reason: "holds a NUL"}
	default:
		return nil
	}
}

// amount checks a number of credits.
func amount(credits int64) error {
	if credits < 1 || credits > MaxCredits {
		return &InvalidError{Field: "credits", Reason: "must be from 1 to the largest amount"}
	}
	return nil
}

// firstError returns the first error there is.
func firstError(errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}
