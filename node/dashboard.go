package node

import (
	"context"
	"crypto/sha256"
	"errors"
	"net/http"
	"net/url"
	"time"

	"letterhead/commands"
	"letterhead/console"
	"letterhead/dashboard"
	"letterhead/dashboard/audit"
	"letterhead/dashboard/site"
	"letterhead/domain/account"
	"letterhead/domain/signin"
	"letterhead/internal/apikey"
	"letterhead/internal/config"
	"letterhead/internal/delay"
	"letterhead/internal/disk"
	"letterhead/internal/figures"
	"letterhead/internal/runs"
	"letterhead/internal/web"
	"letterhead/readapi"
	"letterhead/readapi/lookup"
)

// Dashboard returns what makes the pages for customers, for readapi.Config.Dashboard.
func (n *Node) Dashboard(people dashboard.Sessions) func(api http.Handler) (http.Handler, error) {
	return func(api http.Handler) (http.Handler, error) {
		return dashboard.New(dashboard.Config{
			BaseURL: n.Config.BaseURL, Service: n.service(), Plans: n.Plans, Logger: n.logger, Now: n.Stores.clock.Now,
			Visitor: visitor(n.Config),
		}, dashboard.Deps{
			Sessions: people, API: ownAPI{api}, Operations: n.Operations, Writer: n.Writers.Accounts,
			Quotas: n.Writers.Quotas, Accounts: n.Models.Accounts, Names: n.Stores.Names, Keys: n.Models.Keys,
			Usage: n.Models.Usage, Ledger: n.Models.Ledger, Audit: n.auditor(),
		})
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

// service returns how the pages present this service.
func (n *Node) service() site.Service {
	return site.Service{Name: n.Config.Name, Accent: n.Config.Accent}
}

// Console returns the pages for operators, for adminapi.Config.Pages.
func (n *Node) Console(api http.Handler) (http.Handler, error) {
	// The pages need not wait until every node follows.
	signIn := func(ctx context.Context, link string) (token string, expires time.Time, err error) {
		token, issued, err := n.Operations.Tokens.Enter(ctx, link)
		if token != "" && errors.Is(err, commands.ErrNotSeen) {
			n.logger.Warn("an operator has signed in, and not every node was seen to follow",
				"token", issued.ID, "error", err)
			err = nil
		}
		return token, issued.ExpiresAt, err
	}
	return console.New(console.Config{
		BaseURL: n.Config.BaseURL, Service: n.service(), SignIn: signIn, API: api, Audit: n.auditor(), Figures: n.figures,
		Space: func() (disk.Space, error) { return disk.At(n.Config.Data) }, Logger: n.logger, Now: n.Stores.clock.Now,
		NewID: func() string { return runs.RequestID(n.run.id) }, Visitor: visitor(n.Config),
	})
}

// newAuditor returns what replays accounts, for customers and operators together: its memory is limited.
func (n *Node) newAuditor() *audit.Auditor {
	limits := audit.DefaultLimits
	if n.options.Parts.Replays != nil {
		limits = *n.options.Parts.Replays
	}
	a := audit.New(audit.Sources{Log: n.Stores.Log, Accounts: n.Models.Accounts,
		Names: n.Stores.Names, Keys: n.Models.Keys, Ledger: n.Models.Ledger, Counts: n.Models.Usage, Folded: n.Operations.Reads.Folded,
		Logger: n.logger, Now: n.Stores.clock.Now, Limits: limits})
	n.life.closing(a.Close)
	return a
}

// noteFigures returns the part that notes the figures of this process, which the console of any node adds up.
func noteFigures(_ context.Context, n *Node) ([]part, error) {
	return []part{{"figures of the process", func(ctx context.Context) error {
		for {
			if err := n.processes.Note(ctx, n.Config.Node, console.Count(n.metrics)); err != nil {
				n.logger.Debug("the figures of this process are noted later", "error", err)
			}
			if delay.For(ctx, figures.Every) != nil {
				return nil
			}
		}
	}}}, nil
}

// figures returns the figures of all processes, and the number of these.
func (n *Node) figures(ctx context.Context) (figures.Figures, int, error) {
	if n.processes != nil {
		return n.processes.Sum(ctx)
	}
	return console.Count(n.metrics), 1, nil
}
