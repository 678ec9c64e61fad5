package proof

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"letterhead/domain/account"
	"letterhead/domain/statement"
	"letterhead/eventschemas"
)

// sheet derives the statement in a proof. It follows from the events alone, so an event belongs to the month of its
// time even if the books have it in a later month, and the statement does not say whether the books are closed.
type sheet struct {
	*statement.Sheet
	at time.Time // of the checkpoint
}

func newSheet(accountID string, month, at time.Time) *sheet {
	return &sheet{statement.New(accountID, month), at}
}

// add adds an event, which may be one that the service has never decided.
func (s *sheet) add(e *Event) error {
	body, err := e.decode()
	if err == nil {
		err = checkAmounts(body)
	}
	if err == nil {
		s.Apply(body, e.Revision, e.OccurredAt, e.OccurredAt, hex.EncodeToString(e.Hash[:]))
	}
	return err
}

// checkAmounts rejects amounts that no decision has, and with which a statement cannot be computed.
func checkAmounts(event eventschemas.Event) error {
	var credits, tax int64
	var money *eventschemas.Money
	switch ev := event.(type) {
	case eventschemas.CreditsGranted:
		credits, money, tax = ev.Credits, ev.Money, ev.Tax
	case eventschemas.CreditsCharged:
		credits = ev.Credits
	case eventschemas.ChargeReversed:
		credits = ev.Credits
	case eventschemas.PaymentRefunded:
		credits, money = ev.Credits, ev.Money
	case eventschemas.BreakageRecognized:
		credits = ev.Credits
	case eventschemas.RefundReversed:
		credits, money = ev.Credits, ev.Money
	}
	if money == nil {
		money = &eventschemas.Money{}
	}
	switch {
	case credits < 0 || credits > account.MaxCredits:
		return fmt.Errorf("%d credits are not from 0 to %d", credits, account.MaxCredits)
	case money.Minor < 0 || money.Minor > account.MaxMoney:
		return fmt.Errorf("%d minor units of money are not from 0 to %d", money.Minor, account.MaxMoney)
	case tax < 0 || tax > money.Minor:
		return fmt.Errorf("%d minor units of tax are not a part of the money", tax)
	}
	return nil
}

// lines returns the statement as indented JSON. Errors: as statement.Sheet.Statement.
func (s *sheet) lines() ([]string, error) {
	derived, err := s.Statement(s.at, false)
	if err != nil {
		return nil, err
	}
	shown := struct {
		*statement.Statement
		Closed *bool `json:"closed,omitempty"` // hides the field of the statement
	}{Statement: derived}
	var text bytes.Buffer
	encoder := json.NewEncoder(&text)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", " ")
	err = encoder.Encode(shown)
	return strings.Split(strings.TrimSuffix(text.String(), "\n"), "\n"), err
}
