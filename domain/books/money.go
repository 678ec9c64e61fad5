package books

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	"letterhead/domain/account"
)

// decimals are the digits after the decimal point of the currencies that do not have two (ISO 4217, list one of
// 2024-06-25).
var decimals = map[string]int{
	"BIF": 0, "CLP": 0, "DJF": 0, "GNF": 0, "ISK": 0, "JPY": 0, "KMF": 0, "KRW": 0, "PYG": 0, "RWF": 0, "UGX": 0,
	"UYI": 0, "VND": 0, "VUV": 0, "XAF": 0, "XOF": 0, "XPF": 0,
	"BHD": 3, "IQD": 3, "JOD": 3, "KWD": 3, "LYD": 3, "OMR": 3, "TND": 3,
	"CLF": 4, "UYW": 4,
	CreditUnit: 0,
}

// MaxDecimals is the largest number of Decimals.
const MaxDecimals = 4

// Decimals returns the digits after the decimal point of an amount of a currency or of CreditUnit.
func Decimals(commodity string) int {
	if places, ok := decimals[commodity]; ok {
		return places
	}
	return 2
}

// AppendAmount appends an amount in minor units as a decimal number, such as -49.00.
func AppendAmount(b []byte, amount int64, commodity string) []byte {
	places, units := Decimals(commodity), uint64(amount)
	if amount < 0 {
		b, units = append(b, '-'), -units
	}
	if places == 0 {
		return strconv.AppendUint(b, units, 10)
	}
	one := powers[places]
	b = append(strconv.AppendUint(b, units/one, 10), '.')
	for fraction := units % one; one > 1; fraction %= one {
		one /= 10
		b = append(b, byte('0'+fraction/one))
	}
	return b
}

// taxRate estimates the tax in percent of the net money, such as 19, 7.7 or 8.25, because events have no rate: with the
// fewest decimals with which the tax differs by a minor unit at most, as by rounding, and two at most.
func taxRate(tax, net int64) string {
	percent := 100 * float64(tax) / float64(max(net, 1))
	for scale := 1.0; ; scale *= 10 {
		rate := math.Round(scale*percent) / scale
		if scale == 100 || math.Abs(float64(tax)-float64(net)*rate/100) <= 1 {
			return strconv.FormatFloat(rate, 'f', -1, 64)
		}
	}
}

// Grouped returns a decimal number such as -1234.50 with a comma between thousands.
func Grouped(number string) string {
	digits, _, _ := strings.Cut(strings.TrimPrefix(number, "-"), ".")
	start := len(number) - len(strings.TrimPrefix(number, "-"))
	for i := start + len(digits) - 3; i > start; i -= 3 {
		number = number[:i] + "," + number[i:]
	}
	return number
}

var powers = [MaxDecimals + 1]uint64{1, 10, 100, 1000, 10000}

// MaxAmount limits a parsed amount, in minor units: the largest integer that every JSON reader represents exactly.
const MaxAmount = account.MaxMoney

// ParseAmount parses a decimal number such as -49.00 as an amount in minor units. It may have more decimals than the
// commodity only if they are zeros. Errors: texts that are not such a number, or beyond MaxAmount.
func ParseAmount(text, commodity string) (int64, error) {
	places := Decimals(commodity)
	digits, negative := strings.CutPrefix(text, "-")
	whole, fraction, hasPoint := strings.Cut(digits, ".")
	if whole == "" || hasPoint && fraction == "" {
		return 0, fmt.Errorf("%q is not an amount like %s", text, AppendAmount(nil, 4900, commodity))
	}
	if rest := fraction[min(len(fraction), places):]; strings.Trim(rest, "0") != "" {
		return 0, fmt.Errorf("%q is not an amount of %s, which has %d decimals", text, commodity, places)
	}
	fraction = (fraction + strings.Repeat("0", MaxDecimals))[:places]
	var minor int64
	for _, c := range []byte(whole + fraction) {
		if c < '0' || c > '9' {
			return 0, fmt.Errorf("%q is not an amount like %s", text, AppendAmount(nil, 4900, commodity))
		}
		if minor = minor*10 + int64(c-'0'); minor > MaxAmount {
			return 0, fmt.Errorf("%s is more than %s", text, AppendAmount(nil, MaxAmount, commodity))
		}
	}
	if negative {
		minor = -minor
	}
	return minor, nil
}
