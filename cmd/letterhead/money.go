package main

import (
	"github.com/spf13/cobra"

	"letterhead/domain/books"
)

// formatMoney formats minor units as a decimal number with its currency, and no money as an empty string.
func formatMoney(minor int64, currency string) string {
	if currency == "" {
		return ""
	}
	return string(books.AppendAmount(nil, minor, currency)) + " " + currency
}

// moneyFlags adds the options of an amount of money.
func moneyFlags(c *cobra.Command) {
	c.Flags().Int64("money", 0, "amount of money in minor units (cents)")
	c.Flags().String("currency", "", "ISO 4217 code, such as EUR")
}
