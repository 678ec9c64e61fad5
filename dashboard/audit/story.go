package audit

import (
	"cmp"
	"context"
	"net/http"
	"strings"
	"time"
	"unicode/utf8"

	"letterhead/dashboard/site"
	"letterhead/domain/account"
	"letterhead/eventschemas"
	"letterhead/internal/accountnames"
	"letterhead/internal/web"
	"letterhead/projections/keys"
	"letterhead/projections/ledger"
)

// maxRequestEntries limits the entries of one request; a batch has at most a few hundred.
const maxRequestEntries = 1000

// ErrNoEntries means that the ledger has no entries of a request.
var ErrNoEntries = web.NewProblem(http.StatusNotFound, "The ledger has no entries of this request",
	"A request has some if credits were held or charged. Its id is in the X-Request-Id of the answer.", nil)

// Story is what a request did to an account, and why.
type Story struct {
	ID      string
	Metered bool // it held or charged credits
	Charged int64
	Entries []Line
	Domains []string
	Key     *StoryKey // that was charged; nil if it is not known
	Behind  error     // why the latest entries may be missing; nil if they are not
	Crawls  []Crawl   // of the domains, from the first entry to the last; set by who may read them
}

// StoryKey is the key with which a request was sent.
type StoryKey struct {
	keys.Listed
	Name string // empty if it has none
}

// Crawl is what a crawl did while a request waited for it.
type Crawl struct {
	Domain, Type, Outcome, Detail string
	At                            time.Time
}

// Story returns the story of a request of an account. all includes entries that customers do not see. Errors:
// ErrNoEntries, and those of the stores.
func (a *Auditor) Story(ctx context.Context, accountID, requestID string, all bool) (*Story, error) {
	s := &Story{ID: requestID, Behind: a.fresh(ctx, ledger.Name)}
	var entries []ledger.Entry
	err := a.readLedger(ctx, func() error {
		if requestID == "" || !utf8.ValidString(requestID) || strings.Contains(requestID, "\x00") {
			return nil // no request has such an id
		}
		for e, err := range a.Ledger.Entries(ctx, accountID,
			ledger.Filter{RequestID: requestID, ForCustomer: !all, Limit: maxRequestEntries}) {
			if err != nil {
				return err
			}
			entries = append(entries, e)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	if len(entries) == 0 {
		return nil, ErrNoEntries
	}
	seen := map[string]bool{}
	for i := range entries {
		e := &entries[i]
		s.Charged += e.Charged()
		s.Metered = s.Metered || e.Charged() != 0 || e.HoldID != ""
		if e.Domain != "" && !seen[e.Domain] {
			seen[e.Domain] = true
			s.Domains = append(s.Domains, e.Domain)
		}
		if s.Key == nil && e.KeyID != "" {
			if s.Key, err = a.keyOf(ctx, accountID, e.KeyID); err != nil {
				return nil, err
			}
		}
	}
	s.Entries, err = Lines(ctx, a.Names, entries)
	return s, err
}

// keyOf returns a key of an account, or nil if there is none.
func (a *Auditor) keyOf(ctx context.Context, accountID, id string) (*StoryKey, error) {
	k, found, err := a.Keys.Get(ctx, id)
	if err != nil || !found || k.AccountID != accountID {
		return nil, err
	}
	names, err := a.Names.Names(ctx, id)
	return &StoryKey{k, names[id]}, err
}

// Title is the question that the story answers, to the customer or to an operator.
func (s *Story) Title(operator bool) string {
	who := "I"
	if operator {
		who = "it"
	}
	switch {
	case s.Charged > 0:
		return "Why was " + who + " charged?"
	case s.Metered:
		return "Why was " + who + " not charged?"
	}
	return "What this request did"
}

// Line is an entry of the ledger in words.
type Line struct {
	ledger.Entry
	What   string
	Detail string // empty if What says everything
}

// TitleOfKey returns the name of a key, or else its end.
func TitleOfKey(name, last4 string) string {
	if name != "" {
		return name
	}
	return "…" + last4
}

// Lines describes entries. Errors: those of the store of names.
func Lines(ctx context.Context, named *accountnames.Table, entries []ledger.Entry) ([]Line, error) {
	var ids []string
	for i := range entries {
		if entries[i].KeyID != "" {
			ids = append(ids, entries[i].KeyID)
		}
	}
	keyNames, err := named.Names(ctx, ids...)
	if err != nil {
		return nil, err
	}
	all := make([]Line, len(entries))
	for i := range entries {
		all[i] = describe(&entries[i], keyNames[entries[i].KeyID])
	}
	return all, nil
}

// grants are the names of the kinds of grants.
var grants = map[string]string{
	account.KindFree: "Free credits", account.KindSubscription: "Credits of the subscription",
	account.KindTopup: "Credits bought", account.KindAdjustment: "Credits granted by the operator",
}

// describe describes an entry; keyName is the name of its key, if it has one.
func describe(e *ledger.Entry, keyName string) Line {
	l := Line{Entry: *e}
	detail := func(parts ...string) {
		for _, part := range parts {
			if part != "" && l.Detail != "" {
				l.Detail += ", "
			}
			l.Detail += part
		}
	}
	money := ""
	if e.Currency != "" {
		money = site.Money(max(e.Money, -e.Money), e.Currency)
	}
	switch e.Type {
	case eventschemas.CreditsCharged{}.EventType():
		l.What = "Look-up of " + e.Domain
		if keyName != "" {
			detail("key " + keyName)
		}
	case eventschemas.CreditsHeld{}.EventType():
		l.What = "Held for the look-up of " + e.Domain
		detail(site.Credits(e.Held))
	case eventschemas.HoldReleased{}.EventType():
		l.What = "Hold released"
		detail(site.Credits(-e.Held))
	case eventschemas.ChargeReversed{}.EventType():
		if l.What = "Charge returned"; e.Reason == account.ReasonClientGone {
			detail("the client had left before the answer")
		} else {
			detail("by the operator")
		}
	case eventschemas.ChargeKept{}.EventType():
		l.What = "Answer sent again"
		detail("without another charge")
	case eventschemas.CreditsGranted{}.EventType():
		l.What = cmp.Or(grants[e.Kind], "Credits granted")
		detail(money, e.PaymentID, e.Reason)
	case eventschemas.PaymentRefunded{}.EventType():
		l.What = "Payment refunded"
		detail(money, e.PaymentID)
	case eventschemas.RefundReversed{}.EventType():
		l.What = "Refund reversed"
		detail(money, e.PaymentID)
	case eventschemas.BreakageRecognized{}.EventType():
		l.What = "Credits removed after closing"
	case eventschemas.KeyIssued{}.EventType():
		l.What = "Key issued"
		detail(keyName, e.Kind)
	case eventschemas.KeyRevoked{}.EventType():
		l.What = "Key revoked"
		detail(keyName)
	case eventschemas.AccountOpened{}.EventType():
		l.What = "Account opened"
		detail("plan " + e.Plan)
	case eventschemas.PlanChanged{}.EventType():
		l.What = "Plan changed to " + e.Plan
	case eventschemas.AccountSuspended{}.EventType():
		l.What = "Account suspended"
		detail(e.Reason)
	case eventschemas.AccountReinstated{}.EventType():
		l.What = "Account reinstated"
	case eventschemas.AccountClosed{}.EventType():
		l.What = "Account closed"
		detail(e.Reason)
	default:
		l.What = e.Type
	}
	return l
}
