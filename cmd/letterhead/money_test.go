package main

import (
	"math"
	"testing"
)

func TestFormatMoney_DecimalsOfTheCurrency(t *testing.T) {
	for _, c := range []struct {
		minor int64
		code  string
		want  string
	}{
		{4900, "EUR", "49.00 EUR"}, {-5, "EUR", "-0.05 EUR"}, {0, "EUR", "0.00 EUR"}, {0, "", ""},
		{4900, "JPY", "4900 JPY"}, {4900, "BHD", "4.900 BHD"}, {4900, "IDR", "49.00 IDR"}, {4900, "IQD", "4.900 IQD"}, {5, "CLF", "0.0005 CLF"}, {5, "XXX", "0.05 XXX"}, {math.MinInt64, "EUR", "-92233720368547758.08 EUR"},
	} {
		if got := formatMoney(c.minor, c.code); got != c.want {
			t.Errorf("formatMoney(%d, %q) = %q, want %q", c.minor, c.code, got, c.want)
		}
	}
}
