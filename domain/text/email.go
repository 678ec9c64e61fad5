package text

import "regexp"

// HoldsEmail says after the name of a field why its text is refused.
const HoldsEmail = "holds an e-mail address. Events are permanent and cannot be erased: name the person by an id"

// EmailError means that the text of a field, which an event would keep, has an e-mail address.
type EmailError struct{ Field string }

func (e *EmailError) Error() string { return "the " + e.Field + " " + HoldsEmail }

// email matches the last characters of a local part (RFC 5322, also quoted, and with letters of all scripts, RFC 6531), an @
// and the first ones of a domain with a dot (also one of IDNA) or of an address literal (RFC 5321). The last part of a domain
// begins with two letters, unlike that of a version or a price.
var email = regexp.MustCompile(`(?:[\pL\pM\pN_][-!#$%&'*+=?^_{|}~.` + "`" + `]*|"[^"]+")[@＠﹫]` +
	`(?:(?:[\pL\pN\p{So}][-_\pL\pM\pN\p{So}\x{200c}\x{200d}]*[.。．｡])+\pL[\pL\pM]|\[(?:[0-9]+(?:\.[0-9]+){3}|(?i:IPv6:)[0-9A-Fa-f:.]+)\])`)

// HasEmail reports whether a text has an e-mail address somewhere.
func HasEmail(s string) bool { return email.MatchString(s) }

// CheckKept returns an *EmailError if the text of a field that an operator wrote has an e-mail address, which must not be in an
// event. Texts of stored events and those that the service makes are not checked.
func CheckKept(field, s string) error {
	if HasEmail(s) {
		return &EmailError{field}
	}
	return nil
}
