package dashboard

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"letterhead/dashboard/site"
	"letterhead/domain/account"
	"letterhead/domain/books"
	"letterhead/domain/brand"
	"letterhead/eventschemas"
	"letterhead/projections/ledger"
)

const (
	// ledgerPage is the number of entries on a page.
	ledgerPage = 50
	// maxRequestEntries limits the entries of one request; a batch has at most a few hundred.
	maxRequestEntries = 1000
	// maxFilter limits what is typed into a field of the filter, in bytes.
	maxFilter = 300
	// maxCursorDigits limits the cursor, a revision.
	maxCursorDigits = 18
)

// line is an entry as it is listed.
type line struct {
	ledger.Entry
	What   string
	Detail string // empty if What says everything
}

// kind is a type of entries with its name in the filter.
type kind struct{ Type, Name string }

// kinds are all types of entries that customers see.
var kinds = []kind{
	{eventschemas.CreditsCharged{}.EventType(), "Look-ups charged"},
	{eventschemas.ChargeReversed{}.EventType(), "Charges returned"},
	{eventschemas.CreditsGranted{}.EventType(), "Credits granted"},
	{eventschemas.PaymentRefunded{}.EventType(), "Payments refunded"},
	{eventschemas.RefundReversed{}.EventType(), "Refunds reversed"},
	{eventschemas.BreakageRecognized{}.EventType(), "Credits removed after closing"},
	{eventschemas.CreditsHeld{}.EventType(), "Credits held"},
	{eventschemas.HoldReleased{}.EventType(), "Holds released"},
	{eventschemas.ChargeKept{}.EventType(), "Answers sent again"},
	{eventschemas.KeyIssued{}.EventType(), "Keys issued"},
	{eventschemas.KeyRevoked{}.EventType(), "Keys revoked"},
	{eventschemas.AccountOpened{}.EventType(), "Account opened"},
	{eventschemas.PlanChanged{}.EventType(), "Plan changed"},
	{eventschemas.AccountSuspended{}.EventType(), "Account suspended"},
	{eventschemas.AccountReinstated{}.EventType(), "Account reinstated"},
	{eventschemas.AccountClosed{}.EventType(), "Account closed"},
}

// allKinds is the value of the filter that selects all types; an empty one selects those that change the balance.
const allKinds = "all"

// ledgerView is the data of the ledger.
type ledgerView struct {
	Filter     ledgerFilter
	Kinds      []kind
	Lines      []line
	Older      string // query of the next page; empty on the last one
	Unsearched bool   // the page has fewer entries than there is room for, because older ones were not searched
	Newest     string // query of the first page; empty on that one
	Rejects    bool   // the filter is wrong, so nothing was read
}

// ledgerFilter is the filter as it was filled in. The problems are sentences for its fields.
type ledgerFilter struct {
	Type, From, To, RequestID, Domain, Before      string
	TypeProblem, FromProblem, ToProblem            string
	RequestIDProblem, DomainProblem, BeforeProblem string
}

// parse returns the filter of the read model, and false if a field is wrong.
func (f *ledgerFilter) parse(q url.Values) (out ledger.Filter, ok bool) {
	out.ForCustomer = true
	for _, field := range []struct {
		name    string
		value   *string
		problem *string
		read    func(value string) (problem string)
	}{
		{"type", &f.Type, &f.TypeProblem, func(v string) string {
			if out.Type = v; v == allKinds {
				out.Type = ""
			} else if !isKind(v) {
				return "There are no entries of this kind. Choose one of the list."
			}
			return ""
		}},
		{"from", &f.From, &f.FromProblem, func(v string) (problem string) {
			out.From, _, problem = parseDay(v)
			return problem
		}},
		{"to", &f.To, &f.ToProblem, func(v string) (problem string) {
			if _, out.Until, problem = parseDay(v); problem == "" && !out.From.Before(out.Until) {
				return "This day is before the first one."
			}
			return problem
		}},
		{"request_id", &f.RequestID, &f.RequestIDProblem, func(v string) string { out.RequestID = v; return "" }},
		{"domain", &f.Domain, &f.DomainProblem, func(v string) string {
			id, err := brand.ParseIdentifier(v)
			if out.Domain = id.Domain; err != nil {
				return err.Error()
			}
			if id.Kind != brand.Domain {
				return "Entries have domains, not ids of brands. Enter a domain like acme.com."
			}
			return ""
		}},
		{"before", &f.Before, &f.BeforeProblem, func(v string) string {
			var err error
			if out.BeforeRevision, err = strconv.ParseUint(v, 10, 63); err != nil || out.BeforeRevision == 0 || len(v) > maxCursorDigits {
				return "The URL of this page is not one that the dashboard made."
			}
			return ""
		}},
	} {
		if *field.value = strings.TrimSpace(q.Get(field.name)); *field.value == "" {
			continue
		}
		switch {
		case !isText(*field.value):
			*field.value, *field.problem = "", "What was sent is not UTF-8 text."
		case len(*field.value) > maxFilter:
			*field.problem = fmt.Sprintf("This is longer than %d bytes.", maxFilter)
		default:
			*field.problem = field.read(*field.value)
		}
	}
	out.Credits = f.Type == "" && f.RequestID == ""
	return out, f.TypeProblem+f.FromProblem+f.ToProblem+f.RequestIDProblem+f.DomainProblem+f.BeforeProblem == ""
}

func isKind(v string) bool {
	for _, k := range kinds {
		if k.Type == v {
			return true
		}
	}
	return false
}

// parseDay returns the beginning and the end of a day.
func parseDay(text string) (start, end time.Time, problem string) {
	if _, err := time.Parse(time.DateOnly, text); err == nil {
		if start, end, err = books.ParseSpan(text); err == nil {
			return start, end, ""
		}
	}
	return start, end, fmt.Sprintf("%q is not a day since 1970, like 2026-11-30.", text)
}

// query returns the filter as the query of a URL that begins before a revision, or with the newest entry.
func (f *ledgerFilter) query(before uint64) string {
	q := url.Values{}
	for name, value := range map[string]string{"type": f.Type, "from": f.From, "to": f.To, "request_id": f.RequestID, "domain": f.Domain} {
		if value != "" {
			q.Set(name, value)
		}
	}
	if before > 0 {
		q.Set("before", strconv.FormatUint(before, 10))
	}
	return "?" + q.Encode()
}

// readLedger calls read when it is this request's turn.
func (x *exchange) readLedger(read func(ctx context.Context) error) error {
	if err := x.ledgers.Acquire(x.ctx, 1); err != nil {
		return err
	}
	defer x.ledgers.Release(1)
	return read(x.ctx)
}

// showLedger answers GET /dashboard/ledger, the newest entries first.
func (x *exchange) showLedger() error {
	v := ledgerView{Kinds: kinds}
	filter, ok := v.Filter.parse(x.r.URL.Query())
	if !ok {
		v.Rejects = true
		return x.show(http.StatusUnprocessableEntity, "ledger", view{Title: "Ledger", Section: "Ledger", Page: v})
	}
	notice := x.fresh(ledger.Name)
	err := x.readLedger(func(ctx context.Context) error {
		latest, next, err := x.Ledger.Latest(ctx, x.session.AccountID, filter, ledgerPage)
		if err != nil {
			return err
		}
		if next > 0 {
			v.Older, v.Unsearched = v.Filter.query(next), len(latest) < ledgerPage
		}
		v.Lines, err = x.lines(latest)
		return err
	})
	if err != nil {
		return err
	}
	if v.Filter.Before != "" {
		v.Newest = v.Filter.query(0)
	}
	return x.show(http.StatusOK, "ledger", view{Title: "Ledger", Section: "Ledger", Notice: notice, Page: v})
}

// requestView is the data of the page that explains what a request cost.
type requestView struct {
	ID      string
	Title   string
	Metered bool // it held or charged credits
	Charged int64
	Entries []line
	Domains []string
	Key     *keyRow // that was charged; nil if it is not known
}

// showRequest answers GET /dashboard/ledger/{request_id}.
func (x *exchange) showRequest() error {
	v := requestView{ID: x.r.PathValue("request_id")}
	notice := x.fresh(ledger.Name)
	var entries []ledger.Entry
	err := x.readLedger(func(ctx context.Context) error {
		if !isText(v.ID) || v.ID == "" {
			return nil // no request has such an id
		}
		for e, err := range x.Ledger.Entries(ctx, x.session.AccountID, ledger.Filter{RequestID: v.ID, ForCustomer: true, Limit: maxRequestEntries}) {
			if err != nil {
				return err
			}
			entries = append(entries, e)
		}
		return nil
	})
	if err != nil {
		return err
	}
	if len(entries) == 0 {
		return &problem{http.StatusNotFound, "The ledger has no entries of this request",
			"A request has some if credits were held or charged. Its id is in the X-Request-Id of the answer.", nil}
	}
	seen := map[string]bool{}
	for i := range entries {
		e := &entries[i]
		v.Charged += e.Charged()
		v.Metered = v.Metered || e.Charged() != 0 || e.HoldID != ""
		if e.Domain != "" && !seen[e.Domain] {
			seen[e.Domain] = true
			v.Domains = append(v.Domains, e.Domain)
		}
		if v.Key == nil && e.KeyID != "" {
			if v.Key, err = x.keyOf(e.KeyID); err != nil {
				return err
			}
		}
	}
	switch {
	case v.Charged > 0:
		v.Title = "Why was I charged?"
	case v.Metered:
		v.Title = "Why was I not charged?"
	default:
		v.Title = "What this request did"
	}
	if v.Entries, err = x.lines(entries); err != nil {
		return err
	}
	return x.show(http.StatusOK, "request", view{Title: v.Title, Section: "Ledger", Notice: notice, Page: v})
}

// keyOf returns a key of the account, or nil if there is none.
func (x *exchange) keyOf(id string) (*keyRow, error) {
	k, found, err := x.Keys.Get(x.ctx, id)
	if err != nil || !found || k.AccountID != x.session.AccountID {
		return nil, err
	}
	names, err := x.Names.Names(x.ctx, id)
	return &keyRow{k, names[id], k.State(x.Now())}, err
}

// lines describes entries.
func (x *exchange) lines(entries []ledger.Entry) ([]line, error) {
	var ids []string
	for i := range entries {
		if entries[i].KeyID != "" {
			ids = append(ids, entries[i].KeyID)
		}
	}
	keyNames, err := x.Names.Names(x.ctx, ids...)
	if err != nil {
		return nil, err
	}
	all := make([]line, len(entries))
	for i := range entries {
		all[i] = describe(&entries[i], keyNames[entries[i].KeyID])
	}
	return all, nil
}

// grants are the names of the kinds of grants.
var grants = map[string]string{
	account.KindFree: "Free credits", account.KindSubscription: "Credits of the subscription", account.KindTopup: "Credits bought", account.KindAdjustment: "Credits granted by the operator",
}

// describe describes an entry; keyName is the name of its key, if it has one.
func describe(e *ledger.Entry, keyName string) line {
	l := line{Entry: *e}
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
		money = books.Grouped(string(books.AppendAmount(nil, max(e.Money, -e.Money), e.Currency))) + " " + e.Currency
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
		if l.What = grants[e.Kind]; l.What == "" {
			l.What = "Credits granted"
		}
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
