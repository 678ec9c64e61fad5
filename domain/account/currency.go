package account

import (
	"fmt"
	"slices"
	"strings"

	"letterhead/eventschemas"
)

// currencies are the codes in which money can be paid: the currencies and funds of ISO 4217, list one, and in the last
// line some that left the list, because earlier payments may be recorded later and processors may still use them.
var currencies = strings.Fields("AED AFN ALL AMD AOA ARS AUD AWG AZN BAM BBD BDT BHD BIF BMD BND BOB BOV BRL BSD BTN BWP BYN BZD CAD CDF CHE CHF " +
	"CHW CLF CLP CNY COP COU CRC CUP CVE CZK DJF DKK DOP DZD EGP ERN ETB EUR FJD FKP GBP GEL GHS GIP GMD GNF GTQ GYD HKD HNL HTG " +
	"HUF IDR ILS INR IQD IRR ISK JMD JOD JPY KES KGS KHR KMF KPW KRW KWD KYD KZT LAK LBP LKR LRD LSL LYD MAD MDL MGA MKD MMK MNT " +
	"MOP MRU MUR MVR MWK MXN MXV MYR MZN NAD NGN NIO NOK NPR NZD OMR PAB PEN PGK PHP PKR PLN PYG QAR RON RSD RUB RWF SAR SBD SCR " +
	"SDG SEK SGD SHP SLE SOS SRD SSP STN SVC SYP SZL THB TJS TMT TND TOP TRY TTD TWD TZS UAH UGX USD USN UYI UYU UYW UZS VED VES " +
	"VND VUV WST XAF XCD XCG XDR XOF XPF XSU XUA YER ZAR ZMW ZWG " +
	"ANG BGN BYR CUC HRK LTL LVL EEK MRO SLL STD VEF ZMK ZWL")

// IsCurrency reports whether money can be paid in a currency, given by its code of ISO 4217.
func IsCurrency(code string) bool { return slices.Contains(currencies, code) }

// newMoney validates the money of a payment or fee that is not recorded yet; nil is valid. Money that an earlier
// release recorded in another currency can still be refunded.
func newMoney(m *eventschemas.Money) error {
	if m != nil && !IsCurrency(m.Currency) {
		return &InvalidError{Field: "currency",
			Reason: fmt.Sprintf("%q is not an ISO 4217 code, such as EUR", m.Currency)}
	}
	return nil
}
