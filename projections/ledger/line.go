package ledger

import (
	"cmp"
	"context"
	"strconv"

	"letterhead/domain/account"
	"letterhead/domain/books"
	"letterhead/eventschemas"
	"letterhead/internal/accountnames"
)

// Line is an entry of the ledger in words.
type Line struct {
	Entry
	What   string `json:"what"`
	Detail string `json:"detail,omitempty"` // empty if What says everything
}

// Lines describes entries. Errors: those of the store of names.
func Lines(ctx context.Context, named *accountnames.Table, entries []Entry) ([]Line, error) {
	keyNames, err := accountnames.NamesOf(ctx, named, entries, func(e *Entry) string { return e.KeyID })
	if err != nil {
		return nil, err
	}
	all := make([]Line, len(entries))
	for i := range entries {
		all[i] = lineOf(&entries[i], keyNames[entries[i].KeyID])
	}
	return all, nil
}

// grants are the names of the kinds of grants.
var grants = map[string]string{
	account.KindFree: "Free credits", account.KindSubscription: "Credits of the subscription",
	account.KindTopup: "Credits bought", account.KindAdjustment: "Credits granted by the operator",
}

// NameOfGrant returns the name of a kind of grants.
func NameOfGrant(kind string) string { return cmp.Or(grants[kind], "Credits granted") }

// lineOf describes an entry; keyName is the name of its key, if it has one.
func lineOf(e *Entry, keyName string) Line {
	l := Line{Entry: *e}
	detail := func(parts ...string) {
		for _, part := range parts {
			if part != "" && l.Detail != "" {
				l.Detail += ", "
			}
			l.Detail += part
		}
	}
	money := ""
	if e.Currency != "" {
		money = books.Grouped(string(books.AppendAmount(nil, max(e.Money, -e.Money), e.Currency))) + " " + e.Currency
	}
	switch e.Type {
	case eventschemas.CreditsCharged{}.EventType():
		l.What = "Look-up of " + e.Domain
		if keyName != "" {
			detail("key " + keyName)
		}
	case eventschemas.CreditsHeld{}.EventType():
		l.What = "Held for the look-up of " + e.Domain
		detail(numberOf(e.Held))
	case eventschemas.HoldReleased{}.EventType():
		l.What = "Hold released"
		detail(numberOf(-e.Held))
	case eventschemas.ChargeReversed{}.EventType():
		if l.What = "Charge returned"; e.Reason == account.ReasonClientGone {
			detail("the client had left before the answer")
		} else {
			detail("by the operator", e.Note)
		}
	case eventschemas.ChargeKept{}.EventType():
		l.What = "Answer sent again"
		detail("without another charge")
	case eventschemas.CreditsGranted{}.EventType():
		l.What = NameOfGrant(e.Kind)
		detail(money, e.PaymentID, e.Reason)
	case eventschemas.PaymentRefunded{}.EventType():
		l.What = "Payment refunded"
		detail(money, e.PaymentID)
	case eventschemas.RefundReversed{}.EventType():
		l.What = "Refund reversed"
		detail(money, e.PaymentID)
	case eventschemas.BreakageRecognized{}.EventType():
		l.What = "Credits removed after closing"
	case eventschemas.KeyIssued{}.EventType():
		l.What = "Key issued"
		detail(keyName, e.Kind)
	case eventschemas.KeyRevoked{}.EventType():
		l.What = "Key revoked"
		detail(keyName)
	case eventschemas.KeyLimitSet{}.EventType():
		l.What = "Limit of a key removed"
		if e.KeyLimit > 0 {
			l.What = "Limit of a key set to " + strconv.FormatInt(e.KeyLimit, 10)
		}
		detail(keyName, e.Kind)
	case eventschemas.AccountOpened{}.EventType():
		l.What = "Account opened"
		detail("plan " + e.Plan)
	case eventschemas.PlanChanged{}.EventType():
		l.What = "Plan changed to " + e.Plan
	case eventschemas.AccountSuspended{}.EventType():
		l.What = "Account suspended"
		detail(e.Reason)
	case eventschemas.AccountReinstated{}.EventType():
		l.What = "Account reinstated"
	case eventschemas.AccountClosed{}.EventType():
		l.What = "Account closed"
		detail(e.Reason)
	case eventschemas.PaymentFeeRecorded{}.EventType():
		l.What = "Fee of the payment processor"
		detail(money, e.PaymentID)
	case eventschemas.AccountNoted{}.EventType():
		l.What = "Note"
		detail(e.Note)
	default:
		l.What = e.Type
	}
	return l
}

// numberOf is a number of credits in words.
func numberOf(n int64) string {
	if n == 1 {
		return "1 credit"
	}
	return books.Grouped(strconv.FormatInt(n, 10)) + " credits"
}
