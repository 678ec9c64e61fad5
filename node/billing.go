package node

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	domain "letterhead/domain/billing"
	"letterhead/internal/stripeapi"
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
	worker, err := billing.New(billing.Config{Catalog: catalog, Logger: n.logger, Registerer: n.metrics}, n.roles.Log("billing"), n.AccountWriter, n.Billing)
	if err != nil {
		return nil, err
	}
	return []part{n.led("billing", worker.Run)}, nil
}

// OpenReports folds the events of payment processors.
func (n *Node) OpenReports(ctx context.Context) (*domain.State, error) {
	return billing.Read(ctx, n.Log)
}

// Checkout creates a page on which an account pays for an offer.
func (n *Node) Checkout(ctx context.Context, offer domain.Offer, accountID string) (stripeapi.Session, error) {
	catalog, err := n.Catalog()
	if err != nil {
		return stripeapi.Session{}, err
	}
	return n.Stripe.Checkout(ctx, readapi.Checkout(offer, accountID, catalog, n.Config.BaseURL))
}
