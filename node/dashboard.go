package node

import (
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"time"

	"letterhead/adminapi"
	"letterhead/commands"
	"letterhead/dashboard"
	"letterhead/dashboard/site"
	"letterhead/domain/account"
	"letterhead/domain/billing"
	"letterhead/domain/signin"
	"letterhead/internal/apikey"
	"letterhead/internal/runs"
	"letterhead/projections/sessions"
	"letterhead/readapi"
	"letterhead/readapi/lookup"
)

// Dashboard returns what makes the pages for customers, for readapi.Config.Dashboard.
func (n *Node) Dashboard(people dashboard.Sessions) func(api http.Handler) (http.Handler, error) {
	return func(api http.Handler) (http.Handler, error) { return n.dashboard(people, api) }
}

func (n *Node) dashboard(people dashboard.Sessions, api http.Handler) (http.Handler, error) {
	auditor, err := n.auditor()
	if err != nil {
		return nil, err
	}
	d, err := dashboard.New(dashboard.Config{
		BaseURL: n.Config.BaseURL, Plans: n.Plans, Logger: n.logger, Now: n.clock.Now,
		Visitor: n.visitor,
	}, dashboard.Deps{
		Sessions: people, API: ownAPI{api}, Operations: customers{n}, Writer: n.AccountWriter, Quotas: n.quotaWriter, Accounts: n.Accounts, Names: n.Names,
		Keys: n.Keys, Usage: n.usage, Ledger: n.Ledger, Audit: auditor,
	})
	if err != nil {
		return nil, err
	}
	return d.Handler(), nil
}

// visitor returns the identity by which limits count the client of a request.
func (n *Node) visitor(r *http.Request) string { return readapi.Visitor(r, n.Config.TrustedProxies) }

// People returns the sign-ins of customers.
func (n *Node) People() dashboard.Sessions { return people{n} }

// ownAPI sends requests to the API of this process.
type ownAPI struct{ handler http.Handler }

// LookUp implements dashboard.API.
func (a ownAPI) LookUp(ctx context.Context, in dashboard.LookUp) (dashboard.Response, error) {
	ctx = readapi.SignedIn(ctx, readapi.Caller{
		Caller: lookup.Caller{AccountID: in.AccountID, Plan: in.Plan}, Kind: apikey.Secret, Suspended: in.Status == string(account.Suspended),
	})
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, "/v1/brands/"+url.PathEscape(in.Identifier), http.NoBody)
	if err != nil {
		return dashboard.Response{}, err
	}
	r.RemoteAddr = in.From
	r.Header.Set("Idempotency-Key", in.Once)
	w := site.NewAnswer()
	a.handler.ServeHTTP(w, r)
	return dashboard.Response{Status: w.Status, Header: w.Header(), Body: w.Body.Bytes()}, ctx.Err()
}

// customers are the use cases of customers.
type customers struct{ *Node }

// IssueKey implements dashboard.Operations.
func (c customers) IssueKey(ctx context.Context, by commands.Request, accountID string, kind apikey.Kind, name string, terms account.KeyTerms) (dashboard.IssuedKey, error) {
	issued, err := c.Node.IssueKey(ctx, by, accountID, NewKey{Kind: kind, Name: name, Terms: terms})
	return dashboard.IssuedKey(issued), err
}

// Offers implements dashboard.Operations. Without a key of the payment processor nothing is sold.
func (c customers) Offers() (*billing.Catalog, error) {
	if c.Config.StripeKey == "" {
		return billing.ParseCatalog(nil)
	}
	return c.Catalog()
}

// Checkout implements dashboard.Operations. The payment page leads back to the dashboard unless the file of plans and
// packs names other pages.
func (c customers) Checkout(ctx context.Context, accountID, customer string, offer billing.Offer) (string, error) {
	catalog, err := c.Offers()
	if err != nil {
		return "", err
	}
	back := c.Config.BaseURL + "/dashboard/credits?payment="
	checkout := readapi.Checkout(offer, accountID, catalog, c.Config.BaseURL)
	checkout.SuccessURL, checkout.CancelURL = cmp.Or(catalog.SuccessURL, back+"made"), cmp.Or(catalog.CancelURL, back+"cancelled")
	checkout.Customer = customer
	session, err := c.Stripe.Checkout(ctx, checkout)
	if err != nil {
		return "", fmt.Errorf("%w: %w", dashboard.ErrNoPaymentPage, err)
	}
	return session.URL, nil
}

// Subscriber implements dashboard.Operations. Without a key of the payment processor it has no page for a customer.
func (c customers) Subscriber(ctx context.Context, accountID string) (string, error) {
	if c.Config.StripeKey == "" {
		return "", nil
	}
	return c.Inbox.SubscriberOf(ctx, billing.Stripe, accountID)
}

// Portal implements dashboard.Operations.
func (c customers) Portal(ctx context.Context, customer string) (string, error) {
	address, err := c.Stripe.Portal(ctx, customer, c.Config.BaseURL+"/dashboard/credits")
	if err != nil {
		return "", fmt.Errorf("%w: %w", dashboard.ErrNoPaymentPage, err)
	}
	return address, nil
}

// NoticesOf implements dashboard.Operations.
func (c customers) NoticesOf(ctx context.Context, accountID string) (dashboard.Notices, error) {
	n, err := c.Node.NoticesOf(ctx, accountID)
	return dashboard.Notices{LowBalance: n.LowBalance, Webhook: n.Webhook, Email: n.Email, NoMail: !c.Config.SMTP.IsSet(), Latest: n.Notices}, err
}

// WebhookKey implements dashboard.Operations. It makes no key: receivers reject what a new one signs in place of one that
// was lost.
func (c customers) WebhookKey() string {
	key, err := c.keyOfWebhooks()
	if err != nil {
		return ""
	}
	return key.Public()
}

// SetNotices implements dashboard.Operations.
func (c customers) SetNotices(ctx context.Context, in commands.SetNotices) (commands.Done, error) {
	done, err := c.Node.SetNotices(ctx, in)
	if errors.Is(err, adminapi.ErrNoNoticesKey) {
		err = fmt.Errorf("%w: %w", dashboard.ErrNoWebhooks, err)
	}
	return done, err
}

// people are the sign-ins of customers.
type people struct{ node *Node }

// links are the reasons why a link is rejected.
var links = map[error]error{
	signin.ErrUnknownLink: dashboard.ErrLinkUnknown, signin.ErrLinkExpired: dashboard.ErrLinkExpired, signin.ErrLinkUsed: dashboard.ErrLinkUsed, signin.ErrTooManySessions: dashboard.ErrTooManySessions,
}

// Enter implements dashboard.Sessions.
func (p people) Enter(ctx context.Context, accountID, token string) (session string, expires time.Time, err error) {
	session, begun, err := p.node.Enter(ctx, p.by(accountID), accountID, token)
	for reason, known := range links {
		if errors.Is(err, reason) {
			err = fmt.Errorf("%w: %w", known, err)
		}
	}
	return session, begun.ExpiresAt, err
}

// MailsLinks implements dashboard.Sessions.
func (p people) MailsLinks() bool { return p.node.mailer != nil }

// MailLink implements dashboard.Sessions.
func (p people) MailLink(ctx context.Context, address, client string) error {
	if !p.MailsLinks() {
		return dashboard.ErrNoMail
	}
	return p.node.mailLink(ctx, address, client)
}

// Session implements dashboard.Sessions.
func (p people) Session(ctx context.Context, token string) (dashboard.Session, error) {
	s, err := p.node.Sessions.ByHash(ctx, sha256.Sum256([]byte(token)), p.node.clock.Now())
	if errors.Is(err, sessions.ErrNotFound) {
		err = dashboard.ErrNoSession
	}
	if err != nil {
		return dashboard.Session{}, err
	}
	return dashboard.Session{ID: s.ID, AccountID: s.AccountID, Person: s.Person, Expires: s.ExpiresAt}, nil
}

// SignOut implements dashboard.Sessions.
func (p people) SignOut(ctx context.Context, s dashboard.Session) error {
	return p.node.SignOut(ctx, p.by(s.AccountID), s.AccountID, s.ID)
}

// SignOutEverywhere implements dashboard.Sessions.
func (p people) SignOutEverywhere(ctx context.Context, s dashboard.Session) error {
	_, err := p.node.SignOutEverywhere(ctx, p.by(s.AccountID), s.AccountID, s.Person)
	return err
}

// by returns the metadata of the events that a person causes.
func (p people) by(accountID string) commands.Request {
	id := runs.RequestID(p.node.runID)
	return commands.Request{ID: id, Actor: "account:" + accountID, CorrelationID: id}
}
