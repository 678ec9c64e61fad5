package projectionstest

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/google/uuid"

	"letterhead/domain/account"
	"letterhead/domain/billing"
	"letterhead/domain/books"
	"letterhead/domain/brand"
	"letterhead/domain/notices"
	"letterhead/domain/operator"
	"letterhead/domain/signin"
	"letterhead/eventschemas"
	"letterhead/internal/eventlog"
)

// Group is the events of one append.
type Group struct {
	Stream string
	Events []eventschemas.Event
	At     time.Time
	// RequestID and Actor are metadata of all events.
	RequestID, Actor string
}

// World generates a plausible log: the same seed gives the same groups. Its events follow the rules of the domain as
// far as folds depend on them: charges follow grants, and only existing charges are reversed and only requested
// crawls end. Time advances in seconds, past the ends of months.
type World struct {
	rng      *rand.Rand
	now      time.Time
	step     time.Duration
	month    time.Time // the first that has not ended in the books
	accounts []*life
	brands   []*site
	n        int

	checkpoints uint64
	tokens      int
	notices     int
	signIns     int
	reports     int
}

type life struct {
	id      string
	charges []eventschemas.CreditsCharged // the latest, which may be reversed
	at      []time.Time
	holds   []eventschemas.CreditsHeld
	keys    []string
	payment string                       // the latest
	refund  eventschemas.PaymentRefunded // the latest; empty if it was reversed
}

type site struct {
	domain  string
	known   bool
	running string
}

// NewWorld returns a world with these numbers of accounts and brands. Its clock advances by about step with each group.
func NewWorld(seed uint64, accounts, brands int, step time.Duration) *World {
	w := &World{
		rng:      rand.New(rand.NewPCG(seed, 7)),
		now:      time.Date(2026, 10, 30, 12, 0, 0, 0, time.UTC),
		step:     step,
		accounts: make([]*life, accounts),
		brands:   make([]*site, brands),
	}
	w.month = books.MonthOf(w.now)
	for i := range w.accounts {
		w.accounts[i] = &life{id: w.uuid()}
	}
	for i := range w.brands {
		w.brands[i] = &site{domain: fmt.Sprintf("brand-%d-example.com", i)}
	}
	return w
}

func (w *World) uuid() string {
	var id uuid.UUID
	for i := range id {
		id[i] = byte(w.rng.Uint32())
	}
	id[6], id[8] = id[6]&0x0f|0x40, id[8]&0x3f|0x80
	return id.String()
}

func (w *World) hash() string {
	sum := sha256.Sum256([]byte(w.uuid()))
	return hex.EncodeToString(sum[:])
}

// checkpointEvery is the number of groups from one checkpoint to the next.
const checkpointEvery = 150

// checkpoint returns a checkpoint of the ledger.
func (w *World) checkpoint() Group {
	w.checkpoints++
	return Group{Stream: eventschemas.CheckpointsStream, At: w.now.Truncate(time.Microsecond), Actor: "system:checkpoint", Events: []eventschemas.Event{
		eventschemas.CheckpointBegun{},
		eventschemas.LedgerCheckpointed{Accounts: 1, Root: strings.Repeat("0", 64), Position: uint64(w.n), Note: fmt.Sprintf("brands.example.com/ledger\n%d\n", w.checkpoints)},
	}}
}

// tokenEvery is the number of groups from one token of an operator to the next.
const tokenEvery = 47

// token returns the issue of a token, which revokes the one before. Every other one belongs to an operator who signs
// in.
func (w *World) token() Group {
	w.tokens++
	n := w.tokens
	id := func(n int) string { return fmt.Sprintf("00000000-0000-4000-8000-%012d", n) }
	at := w.now.Truncate(time.Microsecond)
	issued := eventschemas.OperatorTokenIssued{TokenID: id(n), Hash: fmt.Sprintf("%064x", n), Last4: "0000", Scope: "support"}
	var events []eventschemas.Event
	if n%2 == 0 {
		ends := at.Add(operator.SessionLifetime)
		issued.ExpiresAt = &ends
		events = append(events, eventschemas.OperatorLinkIssued{LinkID: id(n), Hash: fmt.Sprintf("%064x", n+1<<20), Scope: issued.Scope, ExpiresAt: at.Add(operator.LinkLifetime)})
	}
	events = append(events, issued)
	if n > 1 {
		events = append(events, eventschemas.OperatorTokenRevoked{TokenID: id(n - 1)})
	}
	return Group{Stream: eventschemas.OperatorsStream, At: at, Actor: "operator:cli", Events: events}
}

// noticeEvery is the number of groups from one event on a stream of notices to the next.
const noticeEvery = 29

// notice returns settings of notices that many balances cross, or what became of a notice of a charge that may have
// raised one.
func (w *World) notice() Group {
	w.notices++
	a := w.accounts[w.notices%len(w.accounts)]
	id := notices.ID(a.id, notices.LowBalance, uint64(w.notices%200))
	return Group{Stream: notices.Stream(a.id), At: w.now.Truncate(time.Microsecond), Actor: "operator:cli", Events: [][]eventschemas.Event{
		{eventschemas.NoticesSet{LowBalance: int64(40 + w.notices%7), Webhook: true, Email: w.notices%8 == 0}},
		{eventschemas.NoticeAttempted{NoticeID: id, Destination: notices.Webhook, Attempt: 1}, eventschemas.NoticeSettled{NoticeID: id, Destination: notices.Webhook, Attempt: 1, Outcome: notices.Failed, Reason: "timeout"}},
		{eventschemas.NoticeReopened{NoticeID: id, Destination: notices.Email}},
		{eventschemas.PaymentFailed{PaymentID: fmt.Sprint("pi_", w.notices%9), Attempt: int64(w.notices), FailedAt: w.now.Truncate(time.Microsecond), Money: &eventschemas.Money{Minor: 4900, Currency: "EUR"}}},
	}[w.notices%4]}
}

// signInEvery is the number of groups from one event on a stream of sign-ins to the next.
const signInEvery = 13

// signIn returns the use of a link, or what ends sessions of the same people.
func (w *World) signIn() Group {
	w.signIns++
	n := w.signIns
	a := w.accounts[n%min(len(w.accounts), 7)] // few, so that they have several sessions
	at := w.now.Truncate(time.Microsecond)
	id := func(kind, n int) string { return fmt.Sprintf("%08d-0000-4000-8000-%012d", kind, n) }
	person := [...]string{signin.Owner, "p2"}[n/3%2]
	in := []eventschemas.Event{
		eventschemas.SignInLinkIssued{LinkID: id(1, n), Hash: fmt.Sprintf("%064x", n), Person: person, ExpiresAt: at.Add(signin.LinkLifetime)},
		eventschemas.SignedIn{SessionID: id(2, n), LinkID: id(1, n), Hash: fmt.Sprintf("%064x", n), Person: person, ExpiresAt: at.Add(signin.SessionLifetime)},
	}
	g := Group{Stream: signin.Stream(a.id), At: at, Actor: "account:" + a.id, Events: in}
	switch n % 19 {
	case 5, 11:
		g.Events = []eventschemas.Event{eventschemas.SignedOut{SessionID: id(2, n-3)}}
	case 13:
		g.Events = []eventschemas.Event{eventschemas.SignedOutEverywhere{Person: person}}
	case 17:
		g.Events = []eventschemas.Event{eventschemas.SignedOutEverywhere{}}
	}
	return g
}

// reportEvery is the number of groups from one event on a stream of a payment processor's report to the next.
const reportEvery = 7

// report returns a report of a payment processor, or what becomes of an earlier one.
func (w *World) report() Group {
	w.reports++
	n := w.reports
	at := w.now.Truncate(time.Microsecond)
	r := eventschemas.BillingReported{Processor: billing.Stripe, EventID: fmt.Sprint("evt_", n), Type: "test", CreatedAt: at, PaymentID: fmt.Sprint("pi_", n/4)}
	switch n % 4 {
	case 0:
		r.Kind, r.Subject, r.State, r.Money = billing.KindRefund, fmt.Sprint("re_", n), "succeeded", &eventschemas.Money{Minor: 5, Currency: "EUR"}
	case 1:
		r.Kind, r.GrantKind, r.Credits, r.Customer = billing.KindPayment, account.KindTopup, 10, fmt.Sprint("cus_", n)
	default: // the last refund or payment
		r.EventID = fmt.Sprint("evt_", n/4*4+n%2)
		next := []eventschemas.Event{eventschemas.BillingSettled{Outcome: [...]string{billing.Inbox, billing.Applied, billing.Dismissed}[n/4%3], Reason: "test"}, eventschemas.BillingReopened{}}
		return Group{Stream: billing.Stream(r.Processor, r.EventID), At: at, Actor: "system:billing", Events: next}
	}
	return Group{Stream: billing.Stream(r.Processor, r.EventID), At: at, Actor: "system:stripe", Events: []eventschemas.Event{r}}
}

// Next returns the next group. On average, 79 of 100 events are on account streams, 15 on usage streams and 6 on brand
// streams. The books of each month end with the first group of a later one.
func (w *World) Next() Group {
	if w.n++; w.n%checkpointEvery == 0 { // not w.rng, so that the worlds of existing tests stay the same
		return w.checkpoint()
	}
	if w.n%tokenEvery == 0 {
		return w.token()
	}
	if w.n%noticeEvery == 0 {
		return w.notice()
	}
	if w.n%signInEvery == 0 {
		return w.signIn()
	}
	if w.n%reportEvery == 0 {
		return w.report()
	}
	w.now = w.now.Add(time.Duration(w.rng.Int64N(int64(2*w.step) + 1)))
	at := w.now.Truncate(time.Microsecond)
	if w.month.Before(books.MonthOf(at)) {
		return w.monthEnd(at)
	}
	switch p := w.rng.IntN(100); {
	case p < 72:
		return w.accountGroup(at)
	case p < 91:
		return w.usageGroup(at)
	default:
		return w.brandGroup(at)
	}
}

func (w *World) monthEnd(at time.Time) Group {
	month := w.month.Format(books.MonthLayout)
	w.month = w.month.AddDate(0, 1, 0)
	return Group{Stream: eventschemas.BooksStream, At: at, Actor: "operator:world", Events: []eventschemas.Event{
		eventschemas.PeriodEnded{Month: month}, eventschemas.PeriodClosed{Month: month, Digest: w.hash(), Totals: []eventschemas.PeriodTotal{}},
	}}
}

func (w *World) accountGroup(at time.Time) Group {
	a := w.accounts[w.rng.IntN(len(w.accounts))]
	g := Group{Stream: account.Stream(a.id), At: at, RequestID: "req_" + w.uuid(), Actor: "account:" + a.id}
	if a.keys == nil {
		g.Actor = "operator:world"
		g.Events = []eventschemas.Event{
			eventschemas.AccountOpened{AccountID: a.id, Holder: "holder-" + a.id[:8], Plan: "free"},
			eventschemas.CreditsGranted{GrantID: "free-" + a.id[:8], Kind: "free", Credits: 50},
			w.issue(a),
		}
		return g
	}
	for range 1 + w.rng.IntN(2) {
		g.Events = append(g.Events, w.accountEvent(a, at, g.RequestID))
	}
	return g
}

func (w *World) issue(a *life) eventschemas.KeyIssued {
	id := w.uuid()
	a.keys = append(a.keys, id)
	issued := eventschemas.KeyIssued{KeyID: id, Hash: w.hash(), Last4: id[:4], Kind: [...]string{"secret", "publishable"}[w.rng.IntN(2)]}
	if issued.Kind == "publishable" {
		expires := w.now.Truncate(time.Microsecond).AddDate(0, 0, w.rng.IntN(90))
		issued.ExpiresAt, issued.Scopes, issued.Origins = &expires, account.KeyScopes[w.rng.IntN(3):], []string{"https://*.acme.com", "https://acme.com"}[w.rng.IntN(3):]
	}
	return issued
}

func (w *World) accountEvent(a *life, at time.Time, request string) eventschemas.Event {
	switch p := w.rng.IntN(200); {
	case p < 4 && len(a.charges) > 0 && at.Sub(a.at[0]) < account.ReversalWindow:
		c := a.charges[0]
		a.charges, a.at = a.charges[1:], a.at[1:]
		return eventschemas.ChargeReversed{ChargeID: c.ChargeID, Credits: c.Credits, RequestID: c.RequestID, Reason: account.ReasonClientGone}
	case p < 5 && len(a.charges) > 0:
		return eventschemas.ChargeKept{ChargeID: a.charges[0].ChargeID, RequestID: request}
	case p < 12:
		h := eventschemas.CreditsHeld{HoldID: w.uuid(), Credits: 1, Deadline: at.Add(time.Minute), RequestID: request, Domain: w.domain()}
		a.holds = append(a.holds, h)
		return h
	case p < 16 && len(a.holds) > 0:
		h := a.holds[0]
		a.holds = a.holds[1:]
		return eventschemas.HoldReleased{HoldID: h.HoldID, Credits: h.Credits, Cause: "handed_back"}
	case p < 20:
		a.payment = "pay-" + w.uuid()
		return eventschemas.CreditsGranted{
			GrantID: w.uuid(), Kind: "topup", Credits: 1000, PaymentID: a.payment,
			Money: &eventschemas.Money{Minor: 4900, Currency: "EUR"},
		}
	case p < 21:
		other := "pay-" + w.uuid() // for an account without a payment
		a.refund = eventschemas.PaymentRefunded{
			RefundID: w.uuid(), PaymentID: cmp.Or(a.payment, other), Credits: 100, Money: &eventschemas.Money{Minor: 490, Currency: "EUR"},
		}
		return a.refund
	case p < 22:
		if a.payment != "" && at.Nanosecond()/1000%2 == 0 { // not w.rng, so that the worlds of existing tests stay the same
			return eventschemas.PaymentFeeRecorded{FeeID: "fee of " + request, PaymentID: a.payment, Money: eventschemas.Money{Minor: 145, Currency: "EUR"}}
		}
		return eventschemas.PlanChanged{From: "free", To: [...]string{"starter", "growth"}[w.rng.IntN(2)]}
	case p < 23:
		return w.issue(a)
	case p < 24:
		return eventschemas.KeyRevoked{KeyID: a.keys[w.rng.IntN(len(a.keys))]}
	case p < 25:
		return eventschemas.AccountSuspended{Reason: "payment"}
	case p < 26:
		if at.Nanosecond()/1000%2 == 0 {
			return eventschemas.BreakageRecognized{Credits: 1, Policy: "terms"}
		}
		return eventschemas.AccountReinstated{}
	case p < 27 && a.refund.RefundID != "":
		r := a.refund
		a.refund = eventschemas.PaymentRefunded{}
		return eventschemas.RefundReversed(r)
	default:
		return w.charge(a, at, request)
	}
}

func (w *World) charge(a *life, at time.Time, request string) eventschemas.Event {
	domain := w.domain()
	c := eventschemas.CreditsCharged{
		ChargeID: w.uuid(), Credits: 1, RequestID: request, BrandID: brand.ID(domain).String(), Domain: domain, RecordRevision: 2,
	}
	if sum := sha256.Sum256([]byte(c.ChargeID)); sum[0]%4 != 0 { // not w.rng, so that the worlds of existing tests stay the same
		c.KeyID, c.IdempotencyKeyHash, c.RequestHash = "key-"+domain, hex.EncodeToString(sum[:]), hex.EncodeToString(sum[:])
	}
	if len(a.holds) > 0 && w.rng.IntN(2) == 0 {
		c.HoldID = a.holds[0].HoldID
		a.holds = a.holds[1:]
	}
	const kept = 8
	if len(a.charges) == kept {
		a.charges, a.at = a.charges[1:], a.at[1:]
	}
	a.charges, a.at = append(a.charges, c), append(a.at, at)
	return c
}

func (w *World) domain() string { return w.brands[w.rng.IntN(len(w.brands))].domain }

func (w *World) usageGroup(at time.Time) Group {
	month := at.Format("2006-01")
	if w.rng.IntN(5) > 0 {
		id := w.accounts[w.rng.IntN(len(w.accounts))].id
		return Group{
			Stream: "usage-" + id + "-" + at.Format("200601"), At: at, Actor: "account:" + id,
			Events: []eventschemas.Event{eventschemas.UsageTicked{Entries: []eventschemas.UsageEntry{
				{AccountID: id, Month: month, Searches: 1 + w.rng.Int64N(9)},
			}}},
		}
	}
	var tick eventschemas.UsageTicked
	for range 1 + w.rng.IntN(8) {
		a := w.accounts[w.rng.IntN(len(w.accounts))]
		entry := eventschemas.UsageEntry{AccountID: a.id, Month: month, Logos: w.rng.Int64N(50)}
		if len(a.keys) > 0 {
			entry.KeysUsed = []eventschemas.KeyUsed{{KeyID: a.keys[w.rng.IntN(len(a.keys))], At: at.Add(-time.Duration(w.rng.Int64N(int64(time.Second))))}}
		}
		tick.Entries = append(tick.Entries, entry)
	}
	return Group{Stream: "usage-node-1", At: at, Actor: "system:usage", Events: []eventschemas.Event{tick}}
}

func (w *World) brandGroup(at time.Time) Group {
	s := w.brands[w.rng.IntN(len(w.brands))]
	g := Group{Stream: brand.Stream(s.domain), At: at, Actor: "system:crawler", RequestID: "req_" + w.uuid()}
	switch {
	case !s.known && s.running == "" && w.rng.IntN(2) == 0:
		s.known = true
		g.Events = []eventschemas.Event{eventschemas.BrandImported{
			BrandID: brand.ID(s.domain).String(), Domain: s.domain, Source: "world 1", Record: w.Record(s.domain), Evidence: evidence(),
		}}
	case s.running == "":
		s.running = w.uuid()
		if !s.known {
			g.Events = append(g.Events, eventschemas.BrandDiscovered{BrandID: brand.ID(s.domain).String(), Domain: s.domain})
			s.known = true
		}
		g.Events = append(g.Events, eventschemas.CrawlRequested{
			CrawlID: s.running, Domain: s.domain, Cause: brand.CauseLookup, Priority: brand.PriorityLive, AllowedMS: 8500,
		})
	default:
		g.Events = []eventschemas.Event{w.outcome(s)}
		s.running = ""
	}
	return g
}

func (w *World) outcome(s *site) eventschemas.Event {
	switch p := w.rng.IntN(40); {
	case p < 15:
		ev := eventschemas.CrawlSucceeded{
			CrawlID: s.running, Record: w.Record(s.domain), Evidence: evidence(), FinalURL: "https://www." + s.domain + "/", ETag: `"1"`,
		}
		if p < 6 {
			icon := fmt.Sprintf("%064x", w.rng.IntN(3))
			ev.ByConvention = &eventschemas.IconsByConvention{Assets: []string{icon}, Linked: []string{"linked.example"}}
		}
		return ev
	case p < 24:
		return eventschemas.CrawlConfirmed{CrawlID: s.running, ETag: `"1"`}
	case p < 36:
		return eventschemas.CrawlFailed{CrawlID: s.running, Outcome: brand.FetchFailed, RememberSeconds: 3600, Detail: "connection refused"}
	case p < 37:
		return eventschemas.FieldOverridden{Field: "name", Value: eventschemas.JSONText(`"By hand"`)}
	case p < 38:
		return eventschemas.OverrideRemoved{Field: "name"}
	case p < 39:
		return eventschemas.BrandClaimed{}
	default:
		return eventschemas.BrandWithdrawn{Reason: "owner"}
	}
}

// Record generates a record with a logo in two themes.
func (w *World) Record(domain string) eventschemas.Record {
	text := func(s string) *string { return &s }
	number := func(n int) *int { return &n }
	logo := func(kind, theme string) eventschemas.Logo {
		return eventschemas.Logo{Type: kind, Theme: text(theme), Tags: []string{}, Formats: []eventschemas.Asset{
			{ID: w.hash(), Format: "svg", Background: text("transparent"), Size: 2311},
			{ID: w.hash(), Format: "png", Background: text("transparent"), Width: number(512), Height: number(512), Size: 20311},
		}}
	}
	return eventschemas.Record{
		Name: text("Brand of " + domain), Description: text("They make <things> & \"stuff\" for people at " + domain),
		Links:   []eventschemas.Link{{Name: "github", URL: "https://github.com/" + domain}, {Name: "linkedin", URL: "https://www.linkedin.com/company/" + domain}},
		Logos:   []eventschemas.Logo{logo("icon", "dark"), logo("logo", "light")},
		Colors:  []eventschemas.Color{{Hex: "#1a2b3c", Type: "accent", Brightness: 40}, {Hex: "#ffffff", Type: "light", Brightness: 255}},
		Fonts:   []eventschemas.Font{{Name: "Inter", Type: "body", Origin: "google", OriginID: text("Inter"), Weights: []int{400, 700}}},
		Images:  []eventschemas.Image{},
		OGImage: text("https://www." + domain + "/og.png"), Company: eventschemas.EmptyCompany(),
		QualityScore: float64(w.rng.IntN(101)) / 100, Complete: w.rng.IntN(2) == 0,
	}
}

func evidence() []eventschemas.Evidence {
	return []eventschemas.Evidence{
		{Field: "description", Source: "https://example.com/", Method: "meta description", Confidence: 0.8},
		{Field: "logos", Source: "https://example.com/logo.svg", Method: "link rel=icon", Confidence: 0.9},
		{Field: "name", Source: "https://example.com/", Method: "og:site_name", Confidence: 0.9},
	}
}

// Proposed returns the events to append. salt distinguishes equal groups at different positions of the log.
func (g Group) Proposed(salt string) ([]eventlog.Proposed, error) {
	out := make([]eventlog.Proposed, len(g.Events))
	for i, ev := range g.Events {
		enc, err := eventschemas.Encode(ev)
		if err != nil {
			return nil, err
		}
		out[i] = eventlog.Proposed{
			ID: eventschemas.EventID(g.Stream, salt, enc.Type, fmt.Sprint(i)), Type: enc.Type, SchemaVersion: enc.SchemaVersion,
			OccurredAt: g.At, Data: enc.Data,
			Metadata: eventlog.Metadata{RequestID: g.RequestID, Actor: g.Actor},
		}
		if len(g.Stream) > 8 && g.Stream[:8] == account.StreamPrefix {
			out[i].Metadata.Hash = "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08"
		}
	}
	return out, nil
}
