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
