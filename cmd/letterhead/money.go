package main

import (
	"errors"

	"github.com/spf13/cobra"

	"letterhead/domain/books"
	"letterhead/eventschemas"
)

// formatMoney formats minor units as a decimal number with its currency, and no money as an empty string.
func formatMoney(minor int64, currency string) string {
	if currency == "" {
		return ""
	}
	return string(books.AppendAmount(nil, minor, currency)) + " " + currency
}

// addMoneyFlags adds the options of an amount of money. The function that it returns parses them: nil if they are not
// set. least is the smallest amount.
func addMoneyFlags(c *cobra.Command, least int64) func() (*eventschemas.Money, error) {
	minor := c.Flags().Int64("money", 0, "amount of money in minor units (cents)")
	currency := c.Flags().String("currency", "", "ISO 4217 code, such as EUR")
	return func() (*eventschemas.Money, error) {
		if !c.Flags().Changed("money") && *currency == "" {
			return nil, nil
		}
		if !c.Flags().Changed("money") || *minor < least || len(*currency) != 3 {
			return nil, usageError{errors.New("--money takes an amount in minor units, such as 4900, and --currency three letters, such as EUR")}
		}
		return &eventschemas.Money{Minor: *minor, Currency: *currency}, nil
	}
}
