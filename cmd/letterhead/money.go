package main

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"letterhead/eventschemas"
)

// decimals are the digits after the decimal point of the currencies that do not have two (ISO 4217, list one of
// 2024-06-25).
var decimals = map[string]int{
	"BIF": 0, "CLP": 0, "DJF": 0, "GNF": 0, "ISK": 0, "JPY": 0, "KMF": 0, "KRW": 0, "PYG": 0, "RWF": 0, "UGX": 0,
	"UYI": 0, "VND": 0, "VUV": 0, "XAF": 0, "XOF": 0, "XPF": 0,
	"BHD": 3, "IQD": 3, "JOD": 3, "KWD": 3, "LYD": 3, "OMR": 3, "TND": 3,
	"CLF": 4, "UYW": 4,
}

// formatMoney formats minor units as a decimal number with its currency, and no money as an empty string.
func formatMoney(minor int64, currency string) string {
	if currency == "" {
		return ""
	}
	places, ok := decimals[currency]
	if !ok {
		places = 2
	}
	sign, units := "", uint64(minor)
	if minor < 0 {
		sign, units = "-", -units
	}
	digits := fmt.Sprintf("%0*d", places+1, units)
	if places > 0 {
		digits = digits[:len(digits)-places] + "." + digits[len(digits)-places:]
	}
	return sign + digits + " " + currency
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
