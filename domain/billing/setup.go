package billing

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"letterhead/domain/books"
	"letterhead/eventschemas"
)

// Missing is a price of a file of plans and packs that Stripe does not have yet.
type Missing struct {
	Key      string // the lookup key of the price, which follows from what is sold and its amount
	Name     string // of the product
	Amount   int64  // in Stripe's unit of the currency
	Currency string // in lower case
	Every    string // the period of a subscription, or empty
	price    *yaml.Node
}

// SetID sets the id of the price in the draft.
func (m *Missing) SetID(id string) { m.price.Value = id }

// Draft is a file of plans and packs whose entries may have an amount instead of a price.
type Draft struct {
	Missing  []*Missing
	document yaml.Node
}

// ParseDraft reads a draft. Errors are those of ParseCatalog for the file that the draft will become.
func ParseDraft(text []byte) (*Draft, error) {
	d := &Draft{}
	if len(text) > MaxCatalogBytes {
		return nil, errTooLong
	}
	documents := yaml.NewDecoder(bytes.NewReader(text))
	if err := documents.Decode(&d.document); err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}
	if len(d.document.Content) == 0 {
		return nil, errors.New("it is empty: write plans and packs into it")
	}
	if err := documents.Decode(new(yaml.Node)); !errors.Is(err, io.EOF) {
		return nil, errTwoDocuments
	}
	root := d.document.Content[0]
	for i := 1; root.Kind == yaml.MappingNode && i < len(root.Content); i += 2 {
		section := root.Content[i-1].Value
		if section != "plans" && section != "packs" {
			continue
		}
		for n, entry := range root.Content[i].Content {
			if err := d.add(entry); err != nil {
				return nil, fmt.Errorf("%s[%d]: %w", section, n, err)
			}
		}
	}
	_, err := d.Text()
	return d, err
}

// add adds a price to an entry that has none.
func (d *Draft) add(entry *yaml.Node) error {
	var of struct {
		Price, Plan, Name, Amount, Every string
		Credits                          int64
	}
	if err := entry.Decode(&of); err != nil || of.Price != "" {
		return err
	}
	money, err := ParseMoney(of.Amount)
	if err != nil {
		return fmt.Errorf("it needs a price, or an amount from which to make one: %w", err)
	}
	what := of.Plan + of.Name
	m := &Missing{Name: fmt.Sprintf("%s: %d credits", what, of.Credits), Currency: strings.ToLower(money.Currency),
		Amount: stripeAmount(money), Every: of.Every, price: &yaml.Node{Kind: yaml.ScalarNode}}
	m.Key = strings.TrimSuffix(
		fmt.Sprintf("letterhead-%s-%d-%d-%s-%s", what, of.Credits, m.Amount, m.Currency, m.Every), "-")
	if i := slices.IndexFunc(entry.Content, func(n *yaml.Node) bool { return n.Value == "price" }); i >= 0 {
		entry.Content = slices.Delete(entry.Content, i, i+2) // it is empty
	}
	entry.Content = append([]*yaml.Node{{Kind: yaml.ScalarNode, Value: "price"}, m.price}, entry.Content...)
	m.SetID(m.Key)
	d.Missing = append(d.Missing, m)
	return nil
}

// Text returns the file. Errors: as ParseCatalog.
func (d *Draft) Text() ([]byte, error) {
	text, err := yaml.Marshal(&d.document)
	if err != nil {
		return nil, err
	}
	_, err = ParseCatalog(text)
	return text, err
}

// ParseMoney parses an amount such as 49.00 EUR, which must be above zero.
func ParseMoney(text string) (eventschemas.Money, error) {
	amount, currency, _ := strings.Cut(text, " ")
	minor, err := books.ParseAmount(amount, currency)
	money := eventschemas.Money{Minor: minor, Currency: currency}
	if stripes, failed := moneyOf(stripeAmount(money), currency); err != nil || failed != nil || stripes == nil ||
		*stripes != money {
		return eventschemas.Money{}, fmt.Errorf("the amount %q is not one like 49.00 EUR", text)
	}
	return money, nil
}
