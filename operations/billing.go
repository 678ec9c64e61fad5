package operations

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"letterhead/commands"
	"letterhead/domain/account"
	domain "letterhead/domain/billing"
	"letterhead/eventschemas"
	"letterhead/internal/disk"
	"letterhead/internal/stripeapi"
	"letterhead/projections/inbox"
	"letterhead/projections/payments"
)

// Errors of operations on payment processors.
var (
	// ErrLinked means that a payment is linked to another account.
	ErrLinked = errors.New("already, and a link is final")
	// ErrNotSold means that the catalog lacks a pack or a price.
	ErrNotSold = errors.New("LETTERHEAD_BILLING_FILE does not sell")
	// ErrNoPage means that the payment processor rejected a checkout session, or could not be reached.
	ErrNoPage = errors.New("the payment processor did not create a page to pay on")
)

// Link is a link of a customer or a payment of a payment processor to an account.
type Link struct {
	AccountID string `json:"account"`
	Processor string `json:"processor"`
	Customer  string `json:"customer,omitempty"` // this or a payment
	PaymentID string `json:"payment_id,omitempty"`
}

// Billing has the use cases of payments through a processor.
type Billing struct {
	Reads    *Reads
	Commands *commands.Billing
	Writer   *commands.AccountWriter
	Stripe   *stripeapi.Client
	Payments *payments.Model
	Inbox    *inbox.Model
	BaseURL  string
	File     string // of plans and packs; "" if nothing is sold
	Sells    bool   // customers can buy on the dashboard, because there is a key of the payment processor
}

// Catalog reads the file of plans and packs. Without one nothing is sold.
func (o *Billing) Catalog() (*domain.Catalog, error) {
	if o.File == "" {
		return domain.ParseCatalog(nil)
	}
	catalog, err := readCatalog(o.File)
	if err != nil {
		return nil, fmt.Errorf("LETTERHEAD_BILLING_FILE %s: %w", o.File, err)
	}
	return catalog, nil
}

// Offers returns the packs and plans that customers can buy on the dashboard.
func (o *Billing) Offers() (*domain.Catalog, error) {
	if !o.Sells {
		return domain.ParseCatalog(nil)
	}
	return o.Catalog()
}

// Pay creates a page on which an account pays for an offer, and returns its URL. customer comes from Subscriber, or is
// empty. The page leads back to the dashboard unless the file of plans and packs names other pages. Errors: ErrNoPage,
// and as Offers.
func (o *Billing) Pay(ctx context.Context, accountID, customer string, offer domain.Offer) (string, error) {
	catalog, err := o.Offers()
	if err != nil {
		return "", err
	}
	back := o.BaseURL + "/dashboard/credits?payment="
	checkout := commands.Checkout(offer, accountID, catalog, o.BaseURL)
	checkout.SuccessURL = cmp.Or(catalog.SuccessURL, back+"made")
	checkout.CancelURL = cmp.Or(catalog.CancelURL, back+"cancelled")
	checkout.Customer = customer
	session, err := o.Stripe.Checkout(ctx, checkout)
	if err != nil {
		return "", fmt.Errorf("%w: %w", ErrNoPage, err)
	}
	return session.URL, nil
}

// Subscriber returns the customer of the payment processor with a subscription for an account that has not ended; empty
// if there is none, or if nothing is sold on the dashboard. Errors: as the read model.
func (o *Billing) Subscriber(ctx context.Context, accountID string) (customer string, err error) {
	if !o.Sells {
		return "", nil
	}
	return o.Inbox.SubscriberOf(ctx, domain.Stripe, accountID)
}

// Portal creates a page on which a customer changes or ends subscriptions, and returns its URL. Errors: ErrNoPage.
func (o *Billing) Portal(ctx context.Context, customer string) (string, error) {
	page, err := o.Stripe.Portal(ctx, customer, o.BaseURL+"/dashboard/credits")
	if err != nil {
		return "", fmt.Errorf("%w: %w", ErrNoPage, err)
	}
	return page, nil
}

func readCatalog(name string) (_ *domain.Catalog, err error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	text, err := io.ReadAll(io.LimitReader(f, domain.MaxCatalogBytes+1))
	if err != nil {
		return nil, err
	}
	return domain.ParseCatalog(text)
}

// Checkout creates a page on which an account pays for a pack, or for a price if pack is empty. Errors:
// account.ErrNotFound, account.ErrClosed, ErrNotSold, stripeapi.ErrNoKey, ErrNoPage, and as Catalog and
// commands.AccountWriter.Standing.
func (o *Billing) Checkout(ctx context.Context, accountID, pack, price string) (stripeapi.Session, error) {
	shut, err := closed(o.Writer, accountID)(ctx)
	if err != nil {
		return stripeapi.Session{}, err
	}
	if shut { // the payment could not be granted
		return stripeapi.Session{}, account.ErrClosed
	}
	catalog, err := o.Catalog()
	if err != nil {
		return stripeapi.Session{}, err
	}
	offer, ok := catalog.Offer(price)
	if pack != "" {
		offer, ok = catalog.Pack(pack)
	}
	if !ok {
		return stripeapi.Session{}, fmt.Errorf("%w %s%s; it sells %s", ErrNotSold, pack, price, offers(catalog))
	}
	session, err := o.Stripe.Checkout(ctx, commands.Checkout(offer, accountID, catalog, o.BaseURL))
	if err != nil && !errors.Is(err, stripeapi.ErrNoKey) {
		err = fmt.Errorf("%w: %w", ErrNoPage, err)
	}
	return session, err
}

// offers lists the packs and prices of a catalog.
func offers(c *domain.Catalog) string {
	var all []string
	for _, p := range c.Packs {
		all = append(all, fmt.Sprintf("the pack %s (%s)", p.Name, p.Price))
	}
	for _, p := range c.Plans {
		all = append(all, fmt.Sprintf("the price %s (%s)", p.Price, p.Plan))
	}
	if len(all) == 0 {
		return "nothing"
	}
	return strings.Join(all, ", ")
}

// Link links a customer of a payment processor to an account, or a payment that was granted by hand. Errors:
// account.ErrNotFound, payments.ErrNotFound if the account has no such payment, ErrLinked, and the errors of
// commands.Billing.Record, the log and the read model.
func (o *Billing) Link(ctx context.Context, by commands.Request, in Link) error {
	if err := o.Reads.AccountExists(ctx, in.AccountID); err != nil {
		return err
	}
	report := eventschemas.BillingReported{Kind: domain.KindCustomer, Customer: in.Customer}
	if in.PaymentID != "" {
		if err := o.Reads.CatchUp(ctx, payments.Name, inbox.Name); err != nil {
			return err
		}
		p, err := o.Payments.Get(ctx, in.AccountID, in.PaymentID)
		if err != nil {
			return err
		}
		linked, err := o.Inbox.AccountOfPayment(ctx, in.Processor, p.ID)
		if err != nil {
			return err
		}
		if linked != "" && linked != in.AccountID {
			return fmt.Errorf("payment %s is linked to account %s %w", p.ID, linked, ErrLinked)
		}
		report = linkedPayment(p)
	}
	report.Processor, report.EventID = in.Processor, "link-"+by.ID
	report.Type, report.AccountID = domain.LinkedByOperator, in.AccountID
	return o.Commands.Record(ctx, by, report)
}

// linkedPayment returns the report whose grant is the one that the ledger has, so that it is a repeat.
func linkedPayment(p *payments.Payment) eventschemas.BillingReported {
	r := eventschemas.BillingReported{Kind: domain.KindPayment, PaymentID: p.ID, GrantKind: account.KindTopup,
		Credits: p.Credits, Tax: p.Tax}
	if p.Currency != "" {
		r.Money = &eventschemas.Money{Minor: p.Money, Currency: p.Currency}
	}
	return r
}

// SetUp creates the prices at Stripe that a file of plans and packs lacks, and writes their ids into the file; a copy with
// the suffix .before keeps what it was. Then it creates the webhook endpoint of this service, unless there is one. It
// calls done with a line for each of them. A repeat creates nothing twice. Errors: those of the file, stripeapi.ErrNoKey,
// and the errors of Stripe's library.
func (o *Billing) SetUp(ctx context.Context, file string, done func(format string, args ...any) error) error {
	if !strings.HasPrefix(o.BaseURL, "https://") {
		return fmt.Errorf("LETTERHEAD_BASE_URL %s: Stripe sends events to an https URL only", o.BaseURL)
	}
	text, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	draft, err := domain.ParseDraft(text)
	if err != nil {
		return fmt.Errorf("%s: %w", file, err)
	}
	if len(draft.Missing) > 0 {
		if err := disk.WriteText(file+".before", string(text)); err != nil {
			return err
		}
	}
	for _, m := range draft.Missing {
		id, made, err := o.Stripe.MakePrice(ctx, stripeapi.Price{Key: m.Key, Name: m.Name, Amount: m.Amount,
			Currency: m.Currency, Every: m.Every})
		if err != nil {
			return err
		}
		m.SetID(id)
		how := "was there"
		if made {
			how = "is created"
		}
		if err := done("the price %s (%s) %s\n", id, m.Name, how); err != nil {
			return err
		}
	}
	if len(draft.Missing) > 0 {
		if text, err = draft.Text(); err == nil {
			err = os.WriteFile(file, text, 0o600) // it keeps its owner and its mode
		}
		if err != nil {
			return err
		}
		if err := done("the ids of the prices are in %s: restart the servers that read it\n", file); err != nil {
			return err
		}
	}
	url := o.BaseURL + "/billing/stripe"
	if all, err := o.Stripe.Endpoints(ctx, url); err != nil || len(all) > 0 {
		if err == nil {
			err = done("the webhook endpoint %s was there: its secret is in Stripe's dashboard, and letterhead doctor checks it\n",
				url)
		}
		return err
	}
	secret, err := o.Stripe.MakeEndpoint(ctx, url,
		stripeapi.Endpoint{APIVersion: domain.StripeVersion, Types: domain.EndpointTypes()})
	if err != nil {
		return err
	}
	return done("the webhook endpoint %s is created; this is the secret that signs its events:\n"+
		"LETTERHEAD_STRIPE_WEBHOOK_SECRET=%s\n", url, secret)
}

// CheckEndpoint asks Stripe for the webhook endpoint of this service, and fails if there is none that suffices.
func (o *Billing) CheckEndpoint(ctx context.Context) (detail string, err error) {
	url := o.BaseURL + "/billing/stripe"
	endpoints, err := o.Stripe.Endpoints(ctx, url)
	switch {
	case errors.Is(err, stripeapi.ErrNotAllowed):
		return "not checked: LETTERHEAD_STRIPE_KEY may not read webhook endpoints", nil
	case err != nil:
		return "", err
	case len(endpoints) == 0:
		return "", fmt.Errorf("no webhook endpoint of Stripe has the address %s: make one, as docs/billing.md says", url)
	}
	for _, e := range endpoints {
		if err = domain.CheckEndpoint(e.APIVersion, e.Types); err == nil && !e.Enabled {
			err = errors.New("it is disabled: enable it in Stripe")
		}
		if err == nil {
			return url + " sends events of the API version " + e.APIVersion, nil
		}
	}
	return "", fmt.Errorf("webhook endpoint %s: %w", url, err)
}
