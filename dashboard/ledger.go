package dashboard

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"letterhead/dashboard/audit"
	"letterhead/domain/books"
	"letterhead/domain/brand"
	"letterhead/eventschemas"
	"letterhead/internal/web"
	"letterhead/projections/ledger"
)

const (
	// ledgerPage is the number of entries on a page.
	ledgerPage = 50
	// maxFilter limits what is typed into a field of the filter, in bytes.
	maxFilter = 300
	// maxCursorDigits limits the cursor, a revision.
	maxCursorDigits = 18
)

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
	{eventschemas.KeyLimitSet{}.EventType(), "Limits of keys"},
	{eventschemas.AccountOpened{}.EventType(), "Account opened"},
	{eventschemas.PlanChanged{}.EventType(), "Plan changed"},
	{eventschemas.AccountSuspended{}.EventType(), "Account suspended"},
	{eventschemas.AccountReinstated{}.EventType(), "Account reinstated"},
	{eventschemas.AccountClosed{}.EventType(), "Account closed"},
}

// allKinds is the value of the filter that selects all types; an empty one selects those that change the balance.
const allKinds = "all"

type ledgerView struct {
	Filter     ledgerFilter
	Kinds      []kind
	Lines      []ledger.Line
	Older      string // query of the next page; empty on the last one
	Unsearched bool   // the page has fewer entries than there is room for, because older ones were not searched
	Newest     string // query of the first page; empty on that one
	Rejects    bool   // the filter is wrong, so nothing was read
}

// ledgerFilter is the filter as it was filled in, and sentences about fields that are wrong, by the names of the fields.
type ledgerFilter struct{ Values, Problems map[string]string }

// parse returns the filter of the read model, and false if a field is wrong.
func (f *ledgerFilter) parse(q url.Values) (out ledger.Filter, ok bool) {
	f.Values, f.Problems = map[string]string{}, map[string]string{}
	out.ForCustomer, ok = true, true
	for _, field := range []struct {
		name string
		read func(value string) (problem string)
	}{
		{"type", func(v string) string {
			if out.Type = v; v == allKinds {
				out.Type = ""
			} else if !slices.ContainsFunc(kinds, func(k kind) bool { return k.Type == v }) {
				return "There are no entries of this kind. Choose one of the list."
			}
			return ""
		}},
		{"from", func(v string) (problem string) {
			out.From, _, problem = parseDay(v)
			return problem
		}},
		{"to", func(v string) (problem string) {
			if _, out.Until, problem = parseDay(v); problem == "" && !out.From.Before(out.Until) {
				return "This day is before the first one."
			}
			return problem
		}},
		{"request_id", func(v string) string { out.RequestID = v; return "" }},
		{"domain", func(v string) string {
			id, err := brand.ParseIdentifier(v)
			if err != nil && !partOfDomain.MatchString(v) {
				return err.Error()
			}
			if out.Domain, out.DomainPart = brand.WholeOrPart(v); err == nil && id.Kind != brand.Domain {
				return "Entries have domains, not ids of brands. Enter a domain like acme.com."
			}
			return ""
		}},
		{"before", func(v string) (problem string) {
			var err error
			out.BeforeRevision, err = strconv.ParseUint(v, 10, 63)
			if err != nil || out.BeforeRevision == 0 || len(v) > maxCursorDigits {
				return "The URL of this page is not one that the dashboard made."
			}
			return ""
		}},
	} {
		value, problem := strings.TrimSpace(q.Get(field.name)), ""
		switch {
		case value == "":
		case !web.IsText(value):
			value, problem = "", "What was sent is not UTF-8 text."
		case len(value) > maxFilter:
			problem = fmt.Sprintf("This is longer than %d bytes.", maxFilter)
		default:
			problem = field.read(value)
		}
		f.Values[field.name], f.Problems[field.name] = value, problem
		ok = ok && problem == ""
	}
	out.Credits = f.Values["type"] == "" && f.Values["request_id"] == ""
	return out, ok
}

// partOfDomain matches what may be a part of a domain.
var partOfDomain = regexp.MustCompile("^[A-Za-z0-9.-]+$")

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
	for name, value := range f.Values {
		if value != "" && name != "before" {
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
	if err := x.ledgers.Acquire(x.Ctx, 1); err != nil {
		return err
	}
	defer x.ledgers.Release(1)
	return read(x.Ctx)
}

// showLedger answers GET /dashboard/ledger, the newest entries first.
func (x *exchange) showLedger() error {
	v := ledgerView{Kinds: kinds}
	filter, ok := v.Filter.parse(x.Request.URL.Query())
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
		v.Lines, err = ledger.Lines(ctx, x.Names, latest)
		return err
	})
	if err != nil {
		return err
	}
	if v.Filter.Values["before"] != "" {
		v.Newest = v.Filter.query(0)
	}
	return x.show(http.StatusOK, "ledger", view{Title: "Ledger", Section: "Ledger", Notice: notice, Page: v})
}

func (x *exchange) showRequest() error {
	story, err := x.Audit.Story(x.Ctx, x.session.AccountID, x.Request.PathValue("request_id"), false)
	if err != nil {
		return err
	}
	return x.show(http.StatusOK, "request", view{Title: story.Title(false), Section: "Ledger",
		Notice: x.noticeOf(story.Behind), Page: audit.StoryPage{Story: story, Ledger: x.base + "/dashboard/ledger"}})
}

// showUsage answers GET /dashboard/usage.
func (x *exchange) showUsage() error {
	used, err := x.Audit.Usage(x.Ctx, x.session.AccountID, x.account.OpenedAt, x.Request.URL.Query().Get("period"))
	if err != nil {
		return err
	}
	page := audit.UsagePage{Usage: used, Static: x.static, URL: x.base + "/dashboard/usage",
		Status: string(x.account.Status)}
	return x.show(audit.Status(used.Problem), "usage", view{Title: "Usage", Section: "Usage", Notice: x.noticeOf(used.Behind), Page: page})
}

// showReplay answers GET /dashboard/replay: the account after an event, recomputed from the first one.
func (x *exchange) showReplay() error {
	r, err := x.Audit.Replay(x.Ctx, x.session.AccountID, x.Request.URL.Query().Get("at"))
	if err != nil {
		return err
	}
	if r.Stopped != nil {
		r.Uncompared = problemOf(r.Stopped).Title + "."
	}
	pages := x.base + "/dashboard"
	page := audit.ReplayPage{Replay: r, Name: x.name, URL: pages + "/replay", Requests: pages + "/ledger",
		Statements: pages + "/statements"}
	return x.show(audit.Status(r.AtProblem), "replay", view{Title: page.Title(), Section: "Replay", Notice: x.noticeOf(r.Behind),
		Refresh: r.Refresh, Page: page})
}
