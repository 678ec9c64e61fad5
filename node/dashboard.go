package node

import (
	"context"
	"crypto/sha256"
	"net/http"
	"net/url"
	"time"

	"letterhead/commands"
	"letterhead/dashboard"
	"letterhead/domain/account"
	"letterhead/domain/signin"
	"letterhead/internal/apikey"
	"letterhead/internal/config"
	"letterhead/internal/runs"
	"letterhead/internal/web"
	"letterhead/readapi"
	"letterhead/readapi/lookup"
)

// Dashboard returns what makes the pages for customers, for readapi.Config.Dashboard.
func (n *Node) Dashboard(people dashboard.Sessions) func(api http.Handler) (http.Handler, error) {
	return func(api http.Handler) (http.Handler, error) {
		auditor, err := n.auditor()
		if err != nil {
			return nil, err
		}
		d, err := dashboard.New(dashboard.Config{
			BaseURL: n.Config.BaseURL, Plans: n.Plans, Logger: n.logger, Now: n.Stores.clock.Now,
			Visitor: visitor(n.Config),
		}, dashboard.Deps{
			Sessions: people, API: ownAPI{api}, Operations: n.Operations, Writer: n.Writers.Accounts,
			Quotas: n.Writers.Quotas, Accounts: n.Models.Accounts, Names: n.Stores.Names, Keys: n.Models.Keys,
			Usage: n.Models.Usage, Ledger: n.Models.Ledger, Audit: auditor,
		})
		if err != nil {
			return nil, err
		}
		return d.Handler(), nil
	}
}

// visitor returns a function that returns the identity by which limits count the client of a request.
func visitor(cfg config.Config) func(*http.Request) string {
	return func(r *http.Request) string { return readapi.Visitor(r, cfg.TrustedProxies) }
}

// People returns the sign-ins of customers.
func (n *Node) People() dashboard.Sessions { return people{n} }

// ownAPI sends requests to the API of this process.
type ownAPI struct{ handler http.Handler }

func (a ownAPI) LookUp(ctx context.Context, in dashboard.LookUp) (*web.Answer, error) {
	ctx = readapi.SignedIn(ctx, readapi.Caller{
		Caller: lookup.Caller{AccountID: in.AccountID, Plan: in.Plan}, Kind: apikey.Secret,
		Suspended: in.Status == string(account.Suspended),
	})
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, "/v1/brands/"+url.PathEscape(in.Identifier), http.NoBody)
	if err != nil {
		return nil, err
	}
	r.RemoteAddr = in.From
	r.Header.Set("Idempotency-Key", in.Once)
	w := web.NewAnswer()
	a.handler.ServeHTTP(w, r)
	return w, ctx.Err()
}

// people are the sign-ins of customers.
type people struct{ node *Node }

func (p people) Enter(ctx context.Context, accountID, token string) (session string, expires time.Time, err error) {
	session, begun, err := p.node.Operations.SignIns.Enter(ctx, p.by(accountID), accountID, token)
	return session, begun.ExpiresAt, err
}

func (p people) MailsLinks() bool { return p.node.mail != nil }

func (p people) MailLink(ctx context.Context, address, client string) error {
	if !p.MailsLinks() {
		return dashboard.ErrNoMail
	}
	return p.node.mail.Send(ctx, address, client)
}

func (p people) Session(ctx context.Context, token string) (*signin.Session, error) {
	return p.node.Models.Sessions.ByHash(ctx, sha256.Sum256([]byte(token)), p.node.Stores.clock.Now())
}

func (p people) SignOut(ctx context.Context, s signin.Session) error {
	return p.node.Operations.SignIns.SignOut(ctx, p.by(s.AccountID), s.AccountID, s.ID)
}

func (p people) SignOutEverywhere(ctx context.Context, s signin.Session) error {
	_, err := p.node.Operations.SignIns.SignOutEverywhere(ctx, p.by(s.AccountID), s.AccountID, s.Person)
	return err
}

// by returns the metadata of the events that a person causes.
func (p people) by(accountID string) commands.Request {
	id := runs.RequestID(p.node.run.id)
	return commands.Request{ID: id, Actor: "account:" + accountID, CorrelationID: id}
}
