package billing_test

import (
	"strings"
	"testing"

	"letterhead/domain/billing"
	"letterhead/internal/testmust"
)

const catalogText = `
success_url: https://example.com/thanks
cancel_url: https://example.com/prices
plans:
  - {price: price_starter, plan: starter, credits: 1000}
  - {price: price_growth, plan: growth, credits: 10000}
  - {price: price_growth_year, plan: growth, credits: 120000}
packs:
  - {price: price_small, name: small, credits: 500}
`

func catalog(t testing.TB) *billing.Catalog {
	t.Helper()
	c := testmust.Get(billing.ParseCatalog([]byte(catalogText)))(t)
	return c
}

func TestParseCatalog_PricesStandForPlansAndPacks(t *testing.T) {
	c := catalog(t)
	if o, ok := c.Offer("price_growth_year"); !ok || o != (billing.Offer{Price: "price_growth_year", Plan: "growth", Credits: 120000}) {
		t.Errorf("the yearly price gives %+v, %t", o, ok)
	}
	if o, ok := c.Pack("small"); !ok || o != (billing.Offer{Price: "price_small", Credits: 500}) {
		t.Errorf("the pack gives %+v, %t", o, ok)
	}
	if _, ok := c.Pack("large"); ok {
		t.Error("there is a pack that is not in the file")
	}
	for _, empty := range []string{"", "# nothing\n", "{}"} {
		if c, err := billing.ParseCatalog([]byte(empty)); err != nil || len(c.Plans)+len(c.Packs) != 0 {
			t.Errorf("the file %q: %+v, %v", empty, c, err)
		}
	}
}

func TestParseCatalog_PaymentPage_TakesWhatCostsNothingByDefault(t *testing.T) {
	for text, want := range map[string]billing.Page{
		"":                                    {TaxIDs: true, PromotionCodes: true},
		"payment_page:":                       {TaxIDs: true, PromotionCodes: true},
		"payment_page: {promotion_codes: no}": {TaxIDs: true},
		"payment_page: {automatic_tax: true, tax_ids: false, address: true, invoices: true}": {AutomaticTax: true, Address: true, PromotionCodes: true, Invoices: true},
	} {
		c, err := billing.ParseCatalog([]byte(text))
		if err != nil || c.Page != want {
			t.Errorf("%q: %+v, %v, want %+v", text, c.Page, err, want)
		}
	}
}

func TestParseCatalog_WrongFile_IsNamed(t *testing.T) {
	for text, want := range map[string]string{
		catalogText + "  - {price: price_growth, name: large, credits: 1}": "price price_growth is in the file twice",
		catalogText + "  - {price: price_other, name: small, credits: 1}":  "pack small is in the file twice",
		"plans: [{price: p, plan: platinum, credits: 1}]":                  `no plan "platinum"`,
		"packs: [{price: p, name: n, credits: 0}]":                         "0 credits",
		"packs: [{price: p, name: n, credits: -1}]":                        "-1 credits",
		"packs: [{price: p, name: n, credits: 9007199254740992}]":          "9007199254740992 credits",
		"packs: [{name: n, credits: 1}]":                                   `price ""`,
		"packs: [{price: p, credits: 1}]":                                  `name ""`,
		"packs: [{price: p, name: n, credits: 1, colour: red}]":            "colour",
		"success_url: ftp://example.com":                                   "success_url",
		"payment_page: {automatic_tax: maybe}":                             "must be YAML",
		"payment_page: {vat: true}":                                        "vat",
		"- a":                                                              "must be YAML",
		"packs: []\n---\npacks: []":                                        "second YAML document",
		strings.Repeat("#", billing.MaxCatalogBytes+1):                     "more than",
	} {
		if _, err := billing.ParseCatalog([]byte(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("the file %.60q: %v, want an error with %q", text, err, want)
		}
	}
}

func FuzzParseCatalog(f *testing.F) {
	f.Add([]byte(catalogText))
	f.Add([]byte("plans: &a [*a]"))
	f.Fuzz(func(t *testing.T, text []byte) {
		c, err := billing.ParseCatalog(text)
		if err != nil {
			return
		}
		for _, p := range c.Plans {
			if o, ok := c.Offer(p.Price); !ok || o.Plan != p.Plan {
				t.Errorf("price %q gives %+v", p.Price, o)
			}
		}
	})
}
