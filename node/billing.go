package node

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"letterhead/adminapi"
	"letterhead/commands"
	"letterhead/domain/account"
	domain "letterhead/domain/billing"
	"letterhead/eventschemas"
	"letterhead/internal/stripeapi"
	"letterhead/projections/inbox"
	"letterhead/projections/payments"
	"letterhead/readapi"
	"letterhead/workers/billing"
)

// Catalog reads the file of plans and packs. Without one nothing is sold.
func (n *Node) Catalog() (*domain.Catalog, error) {
	if n.Config.BillingFile == "" {
		return domain.ParseCatalog(nil)
	}
	catalog, err := readCatalog(n.Config.BillingFile)
	if err != nil {
		return nil, fmt.Errorf("LETTERHEAD_BILLING_FILE %s: %w", n.Config.BillingFile, err)
	}
	return catalog, nil
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

// openBilling starts the part that applies the events of payment processors.
func (n *Node) openBilling(context.Context) ([]part, error) {
	catalog, err := n.Catalog()
	if err != nil {
		return nil, err
	}
	worker, err := billing.New(billing.Config{Catalog: catalog, Logger: n.logger, Registerer: n.metrics}, n.roles.Log("billing"), n.AccountWriter, n.Notices, n.Billing)
	if err != nil {
		return nil, err
	}
	return []part{n.led("billing", worker.Run)}, nil
}

// Checkout creates a page on which an account pays for a pack, or for a price if pack is empty. Errors: account.ErrNotFound,
// account.ErrClosed, adminapi.ErrNotSold, stripeapi.ErrNoKey, adminapi.ErrNoPage, and those of Catalog and
// commands.AccountWriter.Standing.
func (n *Node) Checkout(ctx context.Context, accountID, pack, price string) (adminapi.CheckoutSession, error) {
	closed, err := n.closed(accountID)(ctx)
	if err != nil {
		return adminapi.CheckoutSession{}, err
	}
	if closed { // the payment could not be granted
		return adminapi.CheckoutSession{}, account.ErrClosed
	}
	catalog, err := n.Catalog()
	if err != nil {
		return adminapi.CheckoutSession{}, err
	}
	offer, ok := catalog.Offer(price)
	if pack != "" {
		offer, ok = catalog.Pack(pack)
	}
	if !ok {
		return adminapi.CheckoutSession{}, fmt.Errorf("%w %s%s; it sells %s", adminapi.ErrNotSold, pack, price, offers(catalog))
	}
	session, err := n.Stripe.Checkout(ctx, readapi.Checkout(offer, accountID, catalog, n.Config.BaseURL))
	if err != nil && !errors.Is(err, stripeapi.ErrNoKey) {
		err = fmt.Errorf("%w: %w", adminapi.ErrNoPage, err)
	}
	return adminapi.CheckoutSession{ID: session.ID, URL: session.URL}, err
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

// LinkBilling links a customer of a payment processor to an account, or a payment that was granted by hand. Errors:
// account.ErrNotFound, payments.ErrNotFound if the account has no such payment, adminapi.ErrLinked, and those of
// commands.Billing.Record, the log and the read model.
func (n *Node) LinkBilling(ctx context.Context, by commands.Request, in adminapi.Link) error {
	if err := n.AccountExists(ctx, in.AccountID); err != nil {
		return err
	}
	report := eventschemas.BillingReported{Kind: domain.KindCustomer, Customer: in.Customer}
	if in.PaymentID != "" {
		if err := n.CatchUp(ctx, payments.Name, inbox.Name); err != nil {
			return err
		}
		p, err := n.Payments.Get(ctx, in.AccountID, in.PaymentID)
		if err != nil {
			return err
		}
		linked, err := n.Inbox.AccountOfPayment(ctx, in.Processor, p.ID)
		if err != nil {
			return err
		}
		if linked != "" && linked != in.AccountID {
			return fmt.Errorf("payment %s is linked to account %s %w", p.ID, linked, adminapi.ErrLinked)
		}
		report = linkedPayment(p)
	}
	report.Processor, report.EventID = in.Processor, "link-"+by.ID
	report.Type, report.AccountID = domain.LinkedByOperator, in.AccountID
	return n.Billing.Record(ctx, by, report)
}

// linkedPayment returns the report whose grant is the one that the ledger has, so that it is a repeat.
func linkedPayment(p *payments.Payment) eventschemas.BillingReported {
	r := eventschemas.BillingReported{Kind: domain.KindPayment, PaymentID: p.ID, GrantKind: account.KindTopup, Credits: p.Credits, Tax: p.Tax}
	if p.Currency != "" {
		r.Money = &eventschemas.Money{Minor: p.Money, Currency: p.Currency}
	}
	return r
}
