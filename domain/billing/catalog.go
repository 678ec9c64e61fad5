package billing

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/url"
	"slices"

	"go.yaml.in/yaml/v3"

	"letterhead/domain/account"
	"letterhead/domain/plan"
)

// MaxCatalogBytes limits the file of plans and packs.
const MaxCatalogBytes = 1 << 20

var (
	errTooLong      = fmt.Errorf("it has more than %d bytes", MaxCatalogBytes)
	errTwoDocuments = errors.New("it has a second YAML document (after ---)")
)

// Catalog is what the prices of a payment processor stand for.
type Catalog struct {
	// SuccessURL and CancelURL are the pages after a checkout.
	SuccessURL string           `yaml:"success_url"`
	CancelURL  string           `yaml:"cancel_url"`
	Page       Page             `yaml:"payment_page"`
	Plans      []PlanPrice      `yaml:"plans"`
	Packs      []PackPrice      `yaml:"packs"`
	offers     map[string]Offer // by price
}

// Page is what a payment page does. What costs nothing, and demands nothing of customers, is on by default.
type Page struct {
	AutomaticTax   bool `yaml:"automatic_tax"`   // adds the tax of the customer's country, as set up at the processor
	TaxIDs         bool `yaml:"tax_ids"`         // takes the tax id of a new customer
	Address        bool `yaml:"address"`         // always asks for a billing address
	PromotionCodes bool `yaml:"promotion_codes"` // takes promotion codes
	Invoices       bool `yaml:"invoices"`        // makes invoices for packs; subscriptions always have them
}

// PlanPrice is the price of a subscription, and the credits of each paid period. A plan may have several prices.
type PlanPrice struct {
	Price   string  `yaml:"price"`
	Plan    plan.ID `yaml:"plan"`
	Credits int64   `yaml:"credits"`
	Amount  string  `yaml:"amount"` // such as 49.00 EUR; empty if the file does not say
	Every   string  `yaml:"every"`  // month or year; empty if the file does not say
}

// PackPrice is the price of a pack of credits.
type PackPrice struct {
	Price   string `yaml:"price"`
	Name    string `yaml:"name"`
	Credits int64  `yaml:"credits"`
	Amount  string `yaml:"amount"` // as in PlanPrice
}

// Offer is what a price gives.
type Offer struct {
	Price   string
	Plan    plan.ID // empty for a pack
	Credits int64
}

// ParseCatalog reads the YAML file of plans and packs. Errors name the price or the field that is wrong.
func ParseCatalog(text []byte) (*Catalog, error) {
	if len(text) > MaxCatalogBytes {
		return nil, errTooLong
	}
	c := &Catalog{Page: Page{TaxIDs: true, PromotionCodes: true}}
	documents := yaml.NewDecoder(bytes.NewReader(text))
	documents.KnownFields(true)
	if err := documents.Decode(c); err != nil && !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("it must be YAML with success_url, cancel_url, payment_page, plans and packs: %w", err)
	}
	if err := documents.Decode(new(yaml.Node)); !errors.Is(err, io.EOF) {
		return nil, errTwoDocuments
	}
	return c, c.check()
}

func (c *Catalog) check() error {
	for name, text := range map[string]string{"success_url": c.SuccessURL, "cancel_url": c.CancelURL} {
		u, err := url.Parse(text)
		if text != "" && (err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "") {
			return fmt.Errorf("%s: %q is not an http or https URL", name, text)
		}
	}
	c.offers = map[string]Offer{}
	add := func(what string, o Offer, amount string) error {
		if _, err := ParseMoney(amount); amount != "" && err != nil {
			return fmt.Errorf("%s: %w", what, err)
		}
		switch _, twice := c.offers[o.Price]; {
		case o.Price == "" || !isID(o.Price):
			return fmt.Errorf("%s: price %q is not the id of a price (letterhead billing setup makes prices)", what, o.Price)
		case twice:
			return fmt.Errorf("%s: the price %s is in the file twice", what, o.Price)
		case o.Credits < 0 || o.Credits == 0 && o.Plan == "" || o.Credits > account.MaxCredits:
			return fmt.Errorf("%s: %d credits are not from 1 to %d", what, o.Credits, account.MaxCredits)
		}
		c.offers[o.Price] = o
		return nil
	}
	for i, p := range c.Plans {
		what := fmt.Sprintf("plans[%d]", i)
		if _, err := plan.Default().Get(p.Plan); err != nil {
			return fmt.Errorf("%s: %w", what, err)
		}
		if p.Every != "" && p.Every != "month" && p.Every != "year" || p.Every == "" && p.Amount != "" {
			return fmt.Errorf("%s: every %q is not month or year", what, p.Every)
		}
		if err := add(what, Offer{Price: p.Price, Plan: p.Plan, Credits: p.Credits}, p.Amount); err != nil {
			return err
		}
	}
	for i, p := range c.Packs {
		what := fmt.Sprintf("packs[%d]", i)
		if p.Name == "" || !isID(p.Name) {
			return fmt.Errorf("%s: name %q is not a word", what, p.Name)
		}
		if slices.ContainsFunc(c.Packs[:i], func(other PackPrice) bool { return other.Name == p.Name }) {
			return fmt.Errorf("%s: the pack %s is in the file twice", what, p.Name)
		}
		if err := add(what, Offer{Price: p.Price, Credits: p.Credits}, p.Amount); err != nil {
			return err
		}
	}
	return nil
}

// Priced reports whether an entry has an amount.
func (c *Catalog) Priced() bool {
	return slices.ContainsFunc(c.Packs, func(p PackPrice) bool { return p.Amount != "" }) ||
		slices.ContainsFunc(c.Plans, func(p PlanPrice) bool { return p.Amount != "" })
}

// Offer returns what a price gives.
func (c *Catalog) Offer(price string) (Offer, bool) {
	o, ok := c.offers[price]
	return o, ok
}

// Pack returns the offer of a pack.
func (c *Catalog) Pack(name string) (Offer, bool) {
	for _, p := range c.Packs {
		if p.Name == name {
			return c.Offer(p.Price)
		}
	}
	return Offer{}, false
}
