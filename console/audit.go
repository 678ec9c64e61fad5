package console

import (
	"encoding/json"
	"net/http"
	"net/url"
	"time"

	"letterhead/adminapi"
	"letterhead/dashboard/audit"
	"letterhead/domain/statement"
	"letterhead/internal/web"
)

// behind is shown on pages whose read models may be behind.
const behind = "The tables that this page reads may be behind. What happened in the last moments may be missing."

// auditedAccount returns the account in the path, and the address of its page. The API has checked that the operator may
// read it.
func (x *exchange) auditedAccount() (a adminapi.Account, page string, err error) {
	err = x.get("/admin/accounts/"+url.PathEscape(x.Request.PathValue("id")), nil, &a)
	return a, "/accounts/" + url.PathEscape(a.Account.ID), err
}

// showReplay answers GET /accounts/{id}/replay: the account after an event, recomputed from the first one.
func (x *exchange) showReplay() error {
	a, page, err := x.auditedAccount()
	if err != nil {
		return err
	}
	r, err := x.Audit.Replay(x.Ctx, a.Account.ID, x.Request.URL.Query().Get("at"))
	if err != nil {
		return err
	}
	if r.Stopped != nil {
		r.Uncompared = "The ledger cannot be read now."
		x.Logger.WarnContext(x.Ctx, "compare a replay with the ledger", "request_id", x.ID, "account", a.Account.ID,
			"error", r.Stopped)
	}
	shown := audit.ReplayPage{Replay: r, Name: a.Account.Name, URL: page + "/replay", Requests: page + "/requests",
		Statements: page + "/statements", Operator: true}
	v := view{Title: shown.Title(), Section: "Accounts", Refresh: r.Refresh, Page: shown}
	if r.Behind != nil {
		v.Notice = behind
	}
	return x.show(audit.Status(r.AtProblem), "replay", v)
}

// maxStoryBrands limits the brands whose crawls a story has. A batch may have charged for some hundred.
const maxStoryBrands = 10

// showStory answers GET /accounts/{id}/requests/{request_id}: what the request did, and why.
func (x *exchange) showStory() error {
	a, page, err := x.auditedAccount()
	if err != nil {
		return err
	}
	s, err := x.Audit.Story(x.Ctx, a.Account.ID, x.Request.PathValue("request_id"), true)
	if err != nil {
		return err
	}
	first, last := s.Entries[0].At, s.Entries[len(s.Entries)-1].At
	for _, domain := range s.Domains[:min(len(s.Domains), maxStoryBrands)] {
		var past adminapi.BrandHistory
		unknown, err := x.unknown(x.get("/admin/brands/"+url.PathEscape(domain)+"/history", nil, &past))
		if err != nil {
			return err
		} else if unknown {
			continue
		}
		s.Crawls = append(s.Crawls, meanwhile(domain, past.Changes, first, last)...)
	}
	v := view{Title: s.Title(true), Section: "Accounts",
		Page: audit.StoryPage{Story: s, Ledger: page, Brands: "/brands", Operator: true}}
	if s.Behind != nil {
		v.Notice = behind
	}
	return x.show(http.StatusOK, "story", v)
}

// meanwhile returns the events of a brand in a period, the oldest first.
func meanwhile(domain string, changes []adminapi.BrandChange, first, last time.Time) (crawls []audit.Crawl) {
	for i := len(changes) - 1; i >= 0; i-- {
		if c := &changes[i]; !c.At.Before(first) && !c.At.After(last) {
			crawls = append(crawls,
				audit.Crawl{Domain: domain, Type: c.Type, Outcome: c.Outcome, Detail: c.Detail, At: c.At})
		}
	}
	return crawls
}

// showStatement answers GET /accounts/{id}/statements/{month}, with ?format=csv and ?format=json as a file.
func (x *exchange) showStatement() error {
	format := x.Request.URL.Query().Get("format")
	query := ""
	if format != "" {
		query = "?format=" + url.QueryEscape(format)
	}
	w, err := x.send(http.MethodGet, "/admin/accounts/"+url.PathEscape(x.Request.PathValue("id"))+"/statements/"+
		url.PathEscape(x.Request.PathValue("month"))+query,
		nil)
	if err != nil {
		return err
	}
	var s statement.Statement
	if format == "" {
		if err := json.Unmarshal(w.Body.Bytes(), &s); err != nil {
			return err
		}
		page, err := x.statements.Render(&s)
		if err != nil {
			return err
		}
		x.Header().Set("Content-Security-Policy", x.statements.Policy)
		web.SendPage(x, http.StatusOK, "text/html; charset=utf-8", page)
		return nil
	}
	// The API has accepted the month and the format.
	x.Header().Set("Content-Disposition",
		`attachment; filename="statement-`+x.Request.PathValue("month")+"."+format+`"`)
	web.SendPage(x, http.StatusOK, w.Header().Get("Content-Type"), w.Body.Bytes())
	return nil
}

func (x *exchange) downloadProof() error {
	return x.pass("/admin/accounts/" + url.PathEscape(x.Request.PathValue("id")) +
		"/proofs/" + url.PathEscape(x.Request.PathValue("month")))
}

// pass answers with a file of the API, while it is made.
func (x *exchange) pass(path string) error {
	w := &passing{Answer: web.NewAnswer(), to: x}
	err := x.sendTo(w, w.Answer, http.MethodGet, path, nil)
	if w.begun { // what follows would be a part of the file
		return nil
	}
	return err
}
