package account

import (
	"fmt"
	"strings"

	"letterhead/eventschemas"
)

// currencies are the codes in which money can be paid: the currencies and funds of ISO 4217, list one, and those that left
// the list since 2022, because earlier payments may be recorded later.
const currencies = "AED AFN ALL AMD AOA ARS AUD AWG AZN BAM BBD BDT BHD BIF BMD BND BOB BOV BRL BSD BTN BWP BYN BZD CAD CDF CHE CHF " +
	"CHW CLF CLP CNY COP COU CRC CUP CVE CZK DJF DKK DOP DZD EGP ERN ETB EUR FJD FKP GBP GEL GHS GIP GMD GNF GTQ GYD HKD HNL HTG " +
	"HUF IDR ILS INR IQD IRR ISK JMD JOD JPY KES KGS KHR KMF KPW KRW KWD KYD KZT LAK LBP LKR LRD LSL LYD MAD MDL MGA MKD MMK MNT " +
	"MOP MRU MUR MVR MWK MXN MXV MYR MZN NAD NGN NIO NOK NPR NZD OMR PAB PEN PGK PHP PKR PLN PYG QAR RON RSD RUB RWF SAR SBD SCR " +
	"SDG SEK SGD SHP SLE SOS SRD SSP STN SVC SYP SZL THB TJS TMT TND TOP TRY TTD TWD TZS UAH UGX USD USN UYI UYU UYW UZS VED VES " +
	"VND VUV WST XAF XCD XCG XDR XOF XPF YER ZAR ZMW ZWG " +
	"ANG BGN CUC HRK SLL ZWL"

// newMoney validates the money of a payment or fee that is not recorded yet; nil is valid. Money that an earlier release
// recorded in another currency can still be refunded.
func newMoney(m *eventschemas.Money) error {
	if m != nil && !strings.Contains(currencies, m.Currency) {
		return &InvalidError{Field: "currency", Reason: fmt.Sprintf("%s is no code of ISO 4217", m.Currency)}
	}
	return nil
}
