package commands

import (
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"

	"letterhead/domain/text"
)

// MaxNameBytes limits the name of an account holder, a key, a token or an operator. Names are personal data.
const MaxNameBytes = 200

// maxReasonBytes limits a reason, which events keep forever.
const maxReasonBytes = 200

// checkReason returns a *FieldError unless the field reason can be kept.
func checkReason(reason string) error {
	if len(reason) > maxReasonBytes || !utf8.ValidString(reason) {
		limit := fmt.Sprintf("takes at most %d bytes. Events keep it forever: name no person", maxReasonBytes)
		return &FieldError{"reason", limit}
	}
	return nil
}

// CheckGiven returns a *FieldError unless the field reason is given and can be kept. Operators must give the reason of a
// grant without a payment, a reversal, an override and a suspension.
func CheckGiven(reason string) error {
	if strings.TrimSpace(reason) == "" {
		return &FieldError{"reason", "is needed: say why, for those who read the history. Events keep it forever: name no person"}
	}
	return checkReason(reason)
}

// CheckName returns a *FieldError unless a field has a name that can be shown.
func CheckName(field, name string) error {
	hidden := text.CheckShown(name)
	switch {
	case strings.TrimSpace(name) == "" || len(name) > MaxNameBytes || strings.Contains(name, "\x00") ||
		errors.Is(hidden, text.ErrNotText):
		return &FieldError{field, fmt.Sprintf("takes 1 to %d bytes of text", MaxNameBytes)}
	case hidden != nil:
		return &FieldError{field, hidden.Error() + ". Leave it out"}
	}
	return nil
}
