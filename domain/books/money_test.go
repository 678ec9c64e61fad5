package books

import (
	"testing"

	"letterhead/domain/account"
)

func TestDecimals_EachCurrency_CanBePaid(t *testing.T) {
	for code := range decimals {
		if code != CreditUnit && !account.IsCurrency(code) {
			t.Errorf("%s has decimals, but money cannot be paid in it", code)
		}
	}
}

func TestTaxRate_RoundedTax_HasTheFewestDecimals(t *testing.T) {
	for _, c := range []struct {
		tax, net int64
		want     string
	}{
		{782, 4118, "19"}, {0, 500, "0"}, {0, 0, "0"}, {770, 10000, "7.7"}, {1540, 20000, "7.7"}, {825, 10000, "8.25"},
		{62, 763, "8"}, {1000, 10000, "10"},
	} {
		if got := taxRate(c.tax, c.net); got != c.want {
			t.Errorf("taxRate(%d, %d) = %s, want %s", c.tax, c.net, got, c.want)
		}
	}
}
