package text

import "regexp"

// HoldsEmail is the end of a sentence that begins with the name of a field and explains why its text is refused.
const HoldsEmail = "holds an e-mail address. Events are permanent and cannot be erased: name the person by an id"

// EmailError means that a field whose text would become part of an event contains an e-mail address.
type EmailError struct{ Field string }

func (e *EmailError) Error() string { return "the " + e.Field + " " + HoldsEmail }

// email matches the end of a local part (RFC 5322, also quoted, and with letters of all scripts, RFC 6531), an @ and
// the beginning of a domain with a dot (also an internationalized one) or of an address literal (RFC 5321). The last
// label of the domain must begin with two letters, which excludes versions and prices.
var email = regexp.MustCompile(`(?:[\pL\pM\pN_][-!#$%&'*+=?^_{|}~.` + "`" + `]*|"[^"]+")[@＠﹫]` +
	`(?:(?:[\pL\pN\p{So}][-_\pL\pM\pN\p{So}\x{200c}\x{200d}]*[.。．｡])+\pL[\pL\pM]|` +
	`\[(?:[0-9]+(?:\.[0-9]+){3}|(?i:IPv6:)[0-9A-Fa-f:.]+)\])`)

// CheckKept returns an *EmailError if the text of a field contains an e-mail address. It is for texts that operators
// write and events keep; texts of stored events, and those that the service writes, are not checked.
func CheckKept(field, s string) error {
	if email.MatchString(s) {
		return &EmailError{field}
	}
	return nil
}
