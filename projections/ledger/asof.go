package ledger

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"letterhead/domain/account"
	"letterhead/domain/books"
	"letterhead/domain/plan"
	"letterhead/eventschemas"
	"letterhead/internal/sqlstore"
)

// A past state follows from few entries: the last before it, and those of the events that are rare. The charges between
// two of those follow from the balances. So its cost does not depend on the number of charges.

// rareTypes are the types that indexRare has; of all others an account may have millions. Another order or another type
// needs a new version of the tables.
var rareTypes = []string{
	eventschemas.CreditsGranted{}.EventType(), eventschemas.PaymentRefunded{}.EventType(),
	eventschemas.RefundReversed{}.EventType(), eventschemas.ChargeReversed{}.EventType(),
	eventschemas.PaymentFeeRecorded{}.EventType(), eventschemas.BreakageRecognized{}.EventType(),
	eventschemas.AccountOpened{}.EventType(), eventschemas.PlanChanged{}.EventType(),
	eventschemas.AccountSuspended{}.EventType(), eventschemas.AccountReinstated{}.EventType(),
	eventschemas.AccountClosed{}.EventType(), eventschemas.AccountNoted{}.EventType(),
}

// forOperators are the types that customers do not see.
var forOperators = []string{eventschemas.PaymentFeeRecorded{}.EventType(), eventschemas.AccountNoted{}.EventType()}

// CustomerTypes returns the types of the events of accounts that customers see.
func CustomerTypes() []string {
	return slices.DeleteFunc(Types(), func(name string) bool { return slices.Contains(forOperators, name) })
}

// Types returns the types of the events that accounts have.
func Types() []string { return slices.Clone(types) }

// indexRare has the entries of the rare types. A query finds it if it names one of them as a literal.
var indexRare = `CREATE INDEX IF NOT EXISTS {entries}_by_type ON {entries} (account_no, type, revision) WHERE type = '` +
	strings.Join(rareTypes, `' OR type = '`) + `'`

// statuses are the statuses that begin with an event.
var statuses = map[string]account.Status{
	eventschemas.AccountOpened{}.EventType():     account.Active,
	eventschemas.AccountSuspended{}.EventType():  account.Suspended,
	eventschemas.AccountReinstated{}.EventType(): account.Active,
	eventschemas.AccountClosed{}.EventType():     account.Closed,
}

// maxHashes limits the requests that are looked up in one query.
const maxHashes = 500

// State is an account at a past time.
type State struct {
	Last     Entry // its last entry; Balance is the account's
	OpenedAt time.Time
	Plan     plan.ID
	Status   account.Status
}

// State returns an account after all events that occurred at or before a time. Errors: ErrNotFound if there are none;
// projections.ErrNotReady, sqlstore.ErrUnavailable, ctx.Err().
func (m *Model) State(ctx context.Context, accountID string, at time.Time) (s State, err error) {
	if s.Last, err = m.AsOf(ctx, accountID, at); err != nil {
		return s, err
	}
	opened, changed := eventschemas.AccountOpened{}.EventType(), eventschemas.PlanChanged{}.EventType()
	types := append(slices.Collect(maps.Keys(statuses)), changed) // with opened
	changes, err := m.rare(ctx, accountID, s.Last.Revision, types...)
	for _, e := range changes {
		if e.Type == opened {
			s.OpenedAt = e.At
		}
		if e.Type == opened || e.Type == changed {
			s.Plan = plan.ID(e.Plan)
		}
		s.Status = cmp.Or(statuses[e.Type], s.Status)
	}
	return s, err
}

// rare returns the entries of rare types up to a revision, in the order of the stream.
func (m *Model) rare(ctx context.Context, accountID string, upTo uint64, types ...string) (all []Entry, err error) {
	err = m.onStream(ctx, accountID, func(s *stream) (err error) {
		all, err = s.rare(ctx, int64(upTo)+1, types...)
		return err
	})
	return all, sqlstore.Wrap(err, "ledger of account %s", accountID)
}

// rare returns the entries of rare types before a revision, in the order of the stream.
func (s *stream) rare(ctx context.Context, before int64, types ...string) (all []Entry, err error) {
	for _, typ := range types {
		of, err := query(ctx, s.q, s.tables, rareConditions(typ), s.no, before)
		if err != nil {
			return nil, err
		}
		all = append(all, of...)
	}
	slices.SortFunc(all, func(a, b Entry) int { return cmp.Compare(a.Revision, b.Revision) })
	return all, nil
}

func rareConditions(typ string) string {
	return `WHERE e.account_no = $1 AND e.type = '` + typ + `' AND e.revision < $2 ORDER BY e.revision`
}

// Books returns the lots of an account after the last entry of a State. Errors: as State, and books.ErrSum if the money
// of the lots cannot be summed up.
func (m *Model) Books(ctx context.Context, last Entry) (*books.Account, error) {
	moves, err := m.rare(ctx, last.AccountID, last.Revision, eventschemas.CreditsGranted{}.EventType(),
		eventschemas.PaymentRefunded{}.EventType(), eventschemas.RefundReversed{}.EventType(),
		eventschemas.ChargeReversed{}.EventType(), eventschemas.BreakageRecognized{}.EventType())
	if err != nil {
		return nil, err
	}
	charges, err := m.reversedCharges(ctx, last, moves)
	if err != nil {
		return nil, err
	}
	moves = slices.AppendSeq(moves, maps.Values(charges))
	slices.SortFunc(moves, func(a, b Entry) int { return cmp.Compare(a.Revision, b.Revision) })
	lots, balance, turnover := books.New(), int64(0), books.Turnover{}
	// charge applies the charges that took the balance to after.
	charge := func(after int64, e *Entry) {
		if credits := balance - after; credits > 0 {
			lots.Apply(
				eventschemas.CreditsCharged{ChargeID: fmt.Sprintf("before revision %d", e.Revision), Credits: credits},
				e.Revision, e.At)
		}
		balance = e.Balance
	}
	for i := range moves {
		e := &moves[i]
		charge(e.Balance-e.Amount, e)
		if e.Type == (eventschemas.CreditsGranted{}).EventType() { // lots never have more money than was paid
			turnover.Add(e.Currency, e.Money, last.AccountID, e.Revision)
		}
		lots.Apply(e.event(), e.Revision, e.At)
	}
	charge(last.Balance, &last)
	return lots, turnover.Err()
}

// Spent returns the credits that an account was charged after a time, less those that were returned since for reversed
// charges. Its cost does not depend on the number of charges. Errors: projections.ErrNotReady,
// sqlstore.ErrUnavailable, ctx.Err().
func (m *Model) Spent(ctx context.Context, accountID string, after time.Time) (spent int64, err error) {
	last, _, err := m.Latest(ctx, accountID, Filter{}, 1)
	if err != nil || len(last) == 0 {
		return 0, err
	}
	from, before := int64(-1), int64(0) // the last revision before, and the balance after it
	switch e, err := m.AsOf(ctx, accountID, after); {
	case err == nil:
		from, before = int64(e.Revision), e.Balance
	case !errors.Is(err, ErrNotFound):
		return 0, err
	}
	err = m.onStream(ctx, accountID, func(s *stream) error {
		moved := int64(0)
		for _, typ := range []string{eventschemas.CreditsGranted{}.EventType(),
			eventschemas.PaymentRefunded{}.EventType(), eventschemas.RefundReversed{}.EventType(),
			eventschemas.BreakageRecognized{}.EventType()} {
			statement := `SELECT COALESCE(SUM(amount), 0) FROM {entries} WHERE account_no = $1 AND type = '` + typ +
				`' AND revision > $2 AND revision <= $3`
			var amount int64
			if err := s.q.QueryRowContext(ctx, sqlFor(s.tables, statement), s.no, from,
				int64(last[0].Revision)).Scan(&amount); err != nil {
				return err
			}
			moved += amount
		}
		spent = before + moved - last[0].Balance
		return nil
	})
	return spent, sqlstore.Wrap(err, "credits spent by account %s", accountID)
}

// event returns the event that moves credits, as far as books and statements use it.
func (e *Entry) event() eventschemas.Event {
	var money *eventschemas.Money
	if e.Currency != "" {
		money = &eventschemas.Money{Minor: max(e.Money, -e.Money), Currency: e.Currency}
	}
	switch e.Type {
	case eventschemas.CreditsGranted{}.EventType():
		return eventschemas.CreditsGranted{Kind: e.Kind, Credits: e.Amount, PaymentID: e.PaymentID, Money: money,
			Tax: e.Tax, Reason: e.Reason}
	case eventschemas.PaymentRefunded{}.EventType():
		return eventschemas.PaymentRefunded{RefundID: e.RefundID, PaymentID: e.PaymentID,
			Credits: -e.Amount, Money: money}
	case eventschemas.RefundReversed{}.EventType():
		return eventschemas.RefundReversed{RefundID: e.RefundID, PaymentID: e.PaymentID,
			Credits: e.Amount, Money: money}
	case eventschemas.ChargeReversed{}.EventType():
		return eventschemas.ChargeReversed{ChargeID: e.ChargeID, Credits: e.Amount}
	case eventschemas.BreakageRecognized{}.EventType():
		return eventschemas.BreakageRecognized{Credits: -e.Amount, Policy: e.Reason}
	}
	return eventschemas.CreditsCharged{ChargeID: e.ChargeID, Credits: -e.Amount}
}

// reversedCharges returns the charges that entries reverse, by charge id.
func (m *Model) reversedCharges(ctx context.Context, last Entry, entries []Entry) (map[string]Entry, error) {
	reversed, requests := map[string]bool{}, []any{}
	for i := range entries {
		if e := &entries[i]; e.Type == (eventschemas.ChargeReversed{}).EventType() {
			reversed[e.ChargeID] = true
			requests = append(requests, arg{storedTail, e.RequestID})
		}
	}
	charges := map[string]Entry{}
	for part := range slices.Chunk(requests, maxHashes) {
		// The + keeps the planner from reading all entries of the account.
		where := `WHERE +e.account_no = (SELECT no FROM {accounts} WHERE account = $1) AND e.revision <= $2 AND request_hash IN ` + sqlstore.In(3, len(part))
		found, err := m.read(ctx, where, append([]any{last.AccountID, int64(last.Revision)}, part...)...)
		if err != nil {
			return nil, fmt.Errorf("reversed charges of account %s: %w", last.AccountID, err)
		}
		for _, e := range found {
			if e.Type == (eventschemas.CreditsCharged{}).EventType() && reversed[e.ChargeID] {
				charges[e.ChargeID] = e
			}
		}
	}
	return charges, nil
}

// Lookups returns the charges from a time, the beginning of a month, up to the last entry of a State, less those of
// them that were reversed by then. Errors: as State.
func (m *Model) Lookups(ctx context.Context, last Entry, from time.Time) (int64, error) {
	if last.At.Before(from) {
		return 0, nil
	}
	first := int64(-1) // the last revision before
	switch before, err := m.AsOf(ctx, last.AccountID, from.Add(-time.Microsecond)); {
	case err == nil:
		first = int64(before.Revision)
	case !errors.Is(err, ErrNotFound):
		return 0, err
	}
	var charges int64
	err := m.onStream(ctx, last.AccountID, func(s *stream) error {
		const statement = `SELECT COUNT(*) FROM {entries} WHERE account_no = $1 AND revision > $2 AND revision <= $3 AND type = 'CreditsCharged'`
		return s.q.QueryRowContext(ctx, sqlFor(s.tables, statement), s.no, first, int64(last.Revision)).Scan(&charges)
	})
	if err != nil {
		return 0, fmt.Errorf("look-ups of account %s: %w", last.AccountID, err)
	}
	reversals, err := m.rare(ctx, last.AccountID, last.Revision, eventschemas.ChargeReversed{}.EventType())
	if err != nil {
		return 0, err
	}
	reversals = slices.DeleteFunc(reversals, func(e Entry) bool { return int64(e.Revision) <= first })
	reversed, err := m.reversedCharges(ctx, last, reversals)
	if err != nil {
		return 0, err
	}
	for i := range reversals {
		if charge, ok := reversed[reversals[i].ChargeID]; !ok || !charge.At.Before(from) {
			charges--
		}
	}
	return charges, nil
}
