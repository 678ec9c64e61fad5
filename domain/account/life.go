package account

import (
	"fmt"
	"strings"
	"unicode/utf8"

	"letterhead/domain/plan"
	"letterhead/eventschemas"
)

// FreeGrantID is the id of the grant that opening an account adds.
const FreeGrantID = "free"

// Kinds of grants.
const (
	KindFree         = "free"
	KindSubscription = "subscription"
	KindTopup        = "topup"
	KindAdjustment   = "adjustment"
)

// Open is the command to open an account.
type Open struct {
	Holder string // opaque id of the holder's personal data
	Plan   plan.ID
	Free   int64 // free credits; 0 for none
}

// Open opens the account with its free credits. Opening it again for the same holder is a repeat.
// Errors: ErrInvalid, ErrExists.
func (a *Account) Open(in Open) (Outcome, error) {
	err := firstError(text("account id", a.id, true), text("holder", in.Holder, true), knownPlan(in.Plan))
	if err != nil {
		return Outcome{}, err
	}
	if in.Free < 0 || in.Free > MaxCredits {
		return Outcome{}, &InvalidError{Field: "free credits", Reason: "must be from 0 to the largest amount"}
	}
	if a.core.status != "" {
		if a.core.holder != in.Holder {
			return Outcome{}, ErrExists
		}
		return repeated(), nil
	}
	out := decided(eventschemas.AccountOpened{AccountID: a.id, Holder: in.Holder, Plan: string(in.Plan)})
	if in.Free > 0 {
		out.Events = append(out.Events,
			eventschemas.CreditsGranted{GrantID: FreeGrantID, Kind: KindFree, Credits: in.Free})
	}
	return out, nil
}

func knownPlan(id plan.ID) error {
	if _, err := plan.Default().Get(id); err != nil {
		return &InvalidError{Field: "plan", Reason: fmt.Sprintf("is unknown: %v", err)}
	}
	return nil
}

// ChangePlan moves the account to another plan immediately; credits stay. Errors: ErrInvalid, ErrNotFound, ErrClosed.
func (a *Account) ChangePlan(to plan.ID) (Outcome, error) {
	if err := firstError(knownPlan(to), a.notClosed()); err != nil {
		return Outcome{}, err
	}
	if a.core.plan == to {
		return repeated(), nil
	}
	return decided(eventschemas.PlanChanged{From: string(a.core.plan), To: string(to)}), nil
}

// Suspend blocks all new spending until Reinstate. Open holds may still be captured or released.
// Errors: ErrInvalid, ErrNotFound, ErrClosed.
func (a *Account) Suspend(reason string) (Outcome, error) {
	if err := firstError(text("reason", reason, false), a.notClosed()); err != nil {
		return Outcome{}, err
	}
	if a.core.status == Suspended {
		return repeated(), nil
	}
	if err := kept("reason", reason); err != nil {
		return Outcome{}, err
	}
	return decided(eventschemas.AccountSuspended{Reason: reason}), nil
}

// Reinstate ends a suspension. Errors: ErrNotFound, ErrClosed.
func (a *Account) Reinstate() (Outcome, error) {
	if err := a.notClosed(); err != nil {
		return Outcome{}, err
	}
	if a.core.status == Active {
		return repeated(), nil
	}
	return decided(eventschemas.AccountReinstated{}), nil
}

// Close ends the account and its open holds. It releases at most MaxReleases holds, because one append is limited; the
// rest expire at their deadlines. The balance stays on the ledger. Errors: ErrInvalid, ErrNotFound.
func (a *Account) Close(reason string) (Outcome, error) {
	if err := firstError(text("reason", reason, false), a.exists()); err != nil {
		return Outcome{}, err
	}
	if a.core.status == Closed {
		return repeated(), nil
	}
	if err := kept("reason", reason); err != nil {
		return Outcome{}, err
	}
	var out Outcome
	ids := a.openByDeadline()
	for _, id := range ids[:min(len(ids), MaxReleases)] {
		out.Events = append(out.Events,
			eventschemas.HoldReleased{HoldID: id, Credits: a.open[id].Left, Cause: causeReleased})
	}
	out.Events = append(out.Events, eventschemas.AccountClosed{Reason: reason})
	return out, nil
}

// RecognizeBreakage removes all remaining credits of a closed account, which is in the books the last use of them. The
// policy says why they will not be used. It is a repeat if no credits remain. A charge can still be reversed
// afterwards; the credits that it returns can be removed again. Errors: ErrInvalid, ErrNotFound, ErrNotClosed,
// ErrOpenHolds.
func (a *Account) RecognizeBreakage(policy string) (Outcome, error) {
	if err := firstError(text("policy", policy, true), a.exists()); err != nil {
		return Outcome{}, err
	}
	switch {
	case a.core.status != Closed:
		return Outcome{}, ErrNotClosed
	case len(a.open) > 0:
		return Outcome{}, ErrOpenHolds
	case a.core.balance <= 0:
		return repeated(), nil
	}
	if err := kept("policy", policy); err != nil {
		return Outcome{}, err
	}
	return decided(eventschemas.BreakageRecognized{Credits: a.core.balance, Policy: policy}), nil
}

// MaxNoteBytes limits the text of a note.
const MaxNoteBytes = 500

// Note records a note of an operator, even about a closed account. A note that was recorded under the id is a repeat.
// Errors: ErrInvalid, ErrNotFound.
func (a *Account) Note(id, text string) (Outcome, error) {
	switch {
	case id == "":
		return Outcome{}, &InvalidError{Field: "note_id", Reason: "is missing"}
	case strings.TrimSpace(text) == "":
		return Outcome{}, &InvalidError{Field: "text", Reason: "is missing"}
	case len(text) > MaxNoteBytes:
		return Outcome{}, &InvalidError{Field: "text", Reason: "is too long"}
	case !utf8.ValidString(text) || strings.ContainsRune(text, 0):
		return Outcome{}, &InvalidError{Field: "text", Reason: "is not text"}
	}
	if err := a.exists(); err != nil {
		return Outcome{}, err
	}
	if _, ok := a.notes[id]; ok {
		return repeated(), nil
	}
	if err := kept("text", text); err != nil {
		return Outcome{}, err
	}
	return decided(eventschemas.AccountNoted{NoteID: id, Text: text}), nil
}
