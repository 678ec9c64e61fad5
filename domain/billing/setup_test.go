package billing_test

import (
	"strings"
	"testing"

	"letterhead/domain/billing"
	"letterhead/internal/testmust"
)

const draftText = `
# What we sell.
plans:
  - {plan: starter, credits: 1000, amount: 9.00 EUR, every: month} # small companies
  - {price: price_growth, plan: growth, credits: 10000}
packs:
  - name: small
    price:
    credits: 500
    amount: 4900 JPY
`

func TestParseDraft_EntriesWithoutPrice_GetTheIDsThatAreSet(t *testing.T) {
	d := testmust.Get(billing.ParseDraft([]byte(draftText)))(t)
	if len(d.Missing) != 2 {
		t.Fatalf("%d prices are missing, want 2", len(d.Missing))
	}
	plan, pack := *d.Missing[0], *d.Missing[1]
	if plan.Key != "letterhead-starter-1000-900-eur-month" || plan.Name != "starter: 1000 credits" || plan.Amount != 900 || plan.Currency != "eur" || plan.Every != "month" {
		t.Errorf("the plan's price is %+v", plan)
	}
	if pack.Key != "letterhead-small-500-4900-jpy" || pack.Amount != 4900 || pack.Currency != "jpy" || pack.Every != "" {
		t.Errorf("the pack's price is %+v", pack)
	}
	for i, m := range d.Missing {
		m.SetID([]string{"price_1", "price_2"}[i])
	}
	text := testmust.Get(d.Text())(t)
	for _, kept := range []string{"# What we sell.", "# small companies", "price_growth"} {
		if !strings.Contains(string(text), kept) {
			t.Errorf("the file lacks %q:\n%s", kept, text)
		}
	}
	c := testmust.Get(billing.ParseCatalog(text))(t)
	if c.Plans[0].Price != "price_1" || c.Plans[0].Amount != "9.00 EUR" || c.Packs[0].Price != "price_2" {
		t.Errorf("the file is %+v", c)
	}
	if again := testmust.Get(billing.ParseDraft(text))(t); len(again.Missing) != 0 {
		t.Errorf("the finished file lacks %d prices", len(again.Missing))
	}
}

func TestParseDraft_WrongFile_IsNamed(t *testing.T) {
	for text, want := range map[string]string{
		"":                               "empty",
		"[":                              "line",
		"packs: [{name: n, credits: 1}]": "packs[0]: it needs a price, or an amount",
		"packs: [{name: n, credits: 1, amount: 5 euros}]":                                                                           `"5 euros" is not one like 49.00 EUR`,
		"packs: [{name: n, credits: 1, amount: 0 EUR}]":                                                                             "49.00 EUR",
		"packs: [{name: n, credits: 1, amount: -5 EUR}]":                                                                            "49.00 EUR",
		"packs: [{name: n, credits: 1, amount: 5 eur}]":                                                                             "49.00 EUR",
		"packs: [{name: n, credits: 1, amount: 5.001 EUR}]":                                                                         "49.00 EUR",
		"packs: [{name: n, credits: 1, amount: 5.50 MGA}]":                                                                          "49.00 EUR",
		"packs: [{name: n, credits: x, amount: 5 EUR}]":                                                                             "line 1",
		"packs: [{name: n, credits: 0, amount: 5 EUR}]":                                                                             "0 credits",
		"packs: [{name: n, credits: 1, amount: 5 EUR}, {name: n, credits: 2, amount: 6 EUR}]":                                       "pack n is in the file twice",
		"plans: [{plan: growth, credits: 1, amount: 5 EUR}]":                                                                        "month or year",
		"plans: [{plan: growth, credits: 1, amount: 5 EUR, every: week}]":                                                           "month or year",
		"plans: [{plan: platinum, credits: 1, amount: 5 EUR, every: year}]":                                                         `no plan "platinum"`,
		"plans: [{plan: growth, credits: 1, amount: 5 EUR, every: month}, {plan: growth, credits: 1, amount: 5 EUR, every: month}]": "is in the file twice",
		"- a": "must be YAML",
		"packs: [{name: n, credits: 1, amount: 5 EUR}]\n---\nmore: packs": "second YAML document",
		strings.Repeat("#", billing.MaxCatalogBytes+1):                    "more than",
	} {
		if _, err := billing.ParseDraft([]byte(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.90q: %v, want %q", text, err, want)
		}
	}
}

func FuzzParseDraft(f *testing.F) {
	f.Add([]byte(draftText))
	f.Add([]byte("packs: [{name: n, credits: 1, amount: 5 EUR}]"))
	f.Add([]byte("a: &a {packs: [*a]}"))
	f.Fuzz(func(t *testing.T, text []byte) {
		d, err := billing.ParseDraft(text)
		if err != nil {
			return
		}
		for _, m := range d.Missing {
			if m.Amount <= 0 || m.Key == "" {
				t.Errorf("%q: %+v", text, m)
			}
		}
	})
}
