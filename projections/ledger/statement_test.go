package ledger_test

import (
	"errors"
	"fmt"
	"reflect"
	"testing"
	"time"

	"pgregory.net/rapid"

	"letterhead/domain/books"
	"letterhead/domain/statement"
	"letterhead/eventschemas"
	"letterhead/internal/eventlog"
	"letterhead/internal/testmust"
	"letterhead/projections/engine"
	"letterhead/projections/ledger"
	"letterhead/projections/projectionstest"
)

// months makes the histories of accounts, one after the other in time, and closes months, also before events of these
// months are appended.
type months struct {
	e        *projectionstest.Env
	accounts int
	now      time.Time
	ended    time.Time // the last month
}

// payment is what is left of a payment.
type payment struct {
	id             string
	credits, money int64
}

// history appends a random history and returns the account's id and its first and last month.
func (p *months) history(t *rapid.T) (id string, first, last time.Time) {
	p.accounts++
	id = fmt.Sprint("a", p.accounts)
	var charges []eventschemas.CreditsCharged
	var payments []payment
	first = books.MonthOf(p.now)
	for i := range rapid.IntRange(1, 40).Draw(t, "events") {
		p.now = p.now.Add(time.Duration(rapid.Int64Range(0, 96).Draw(t, "hours")) * time.Hour)
		if rapid.IntRange(0, 9).Draw(t, "close") == 0 {
			p.endMonths()
		}
		credits := rapid.Int64Range(1, 1000).Draw(t, "credits")
		var ev eventschemas.Event = eventschemas.ChargeKept{ChargeID: "c"}
		switch kind := rapid.IntRange(0, 9).Draw(t, "kind"); {
		case kind == 0:
			ev = eventschemas.CreditsGranted{GrantID: fmt.Sprint("g", i), Kind: "adjustment", Credits: credits, Reason: "r"}
		case kind == 1:
			money := rapid.Int64Range(0, 9999).Draw(t, "money")
			paid := payment{fmt.Sprint("pi_", i), credits, money}
			payments = append(payments, paid)
			ev = eventschemas.CreditsGranted{GrantID: paid.id, Kind: "topup", Credits: credits, PaymentID: paid.id, Tax: rapid.Int64Range(0, money).Draw(t, "tax"),
				Money: &eventschemas.Money{Minor: money, Currency: rapid.SampledFrom([]string{"EUR", "JPY"}).Draw(t, "currency")}}
		case kind == 2 && len(payments) > 0:
			paid := &payments[rapid.IntRange(0, len(payments)-1).Draw(t, "payment")]
			refund := eventschemas.PaymentRefunded{RefundID: fmt.Sprint("f", i), PaymentID: paid.id, Credits: min(credits, paid.credits)}
			if rapid.Bool().Draw(t, "money recorded") {
				refund.Money = &eventschemas.Money{Minor: rapid.Int64Range(0, paid.money).Draw(t, "returned"), Currency: "EUR"}
			}
			if paid.credits -= refund.Credits; refund.Credits > 0 {
				ev = refund
			}
		case kind == 3 && len(charges) > 0:
			c := charges[0]
			charges = charges[1:]
			ev = eventschemas.ChargeReversed{ChargeID: c.ChargeID, Credits: c.Credits, RequestID: c.RequestID, Reason: "operator"}
		case kind == 4:
			ev = eventschemas.BreakageRecognized{Credits: credits, Policy: "p"}
		case kind > 4:
			c := eventschemas.CreditsCharged{ChargeID: fmt.Sprint("c", i), Credits: credits, RequestID: fmt.Sprint("r", i), KeyID: rapid.SampledFrom([]string{"", "k1", "k2"}).Draw(t, "key")}
			charges = append(charges, c)
			ev = c
		}
		p.e.Events("account-"+id, p.now, ev)
	}
	return id, first, books.MonthOf(p.now)
}

// endMonths closes all months up to the running one, as an operator whose clock is ahead may.
func (p *months) endMonths() {
	if p.ended.IsZero() {
		p.ended = books.MonthOf(p.now).AddDate(0, -1, 0)
	}
	for month := p.ended.AddDate(0, 1, 0); !month.After(p.now); month = month.AddDate(0, 1, 0) {
		text := month.Format(books.MonthLayout)
		p.e.Events(eventschemas.BooksStream, p.now, eventschemas.PeriodEnded{Month: text})
		p.e.Events(eventschemas.BooksStream, p.now, eventschemas.PeriodClosed{Month: text})
		p.ended = month
	}
}

func (p *months) read(t *rapid.T, stream string) []eventlog.Recorded {
	all := testmust.Get(p.e.Log.ReadStream(p.e.Context(), stream, 0, eventlog.Forward, 10_000))(t)
	return all
}

func decoded(t *rapid.T, rec eventlog.Recorded) eventschemas.Event {
	ev := testmust.Get(eventschemas.Decode(rec.Type, rec.SchemaVersion, rec.Data))(t)
	return ev
}

// ofEvents derives a statement from the events alone, from those before a moment unless it is zero.
func (p *months) ofEvents(t *rapid.T, id string, month, now, until time.Time) (*statement.Statement, error) {
	var periods books.Periods
	for _, rec := range p.read(t, eventschemas.BooksStream) {
		if !until.IsZero() && !rec.OccurredAt.Before(until) {
			break
		}
		testmust.Succeed(t, periods.Apply(decoded(t, rec), uint64(rec.Position), rec.OccurredAt))
	}
	sheet := statement.New(id, month)
	for _, rec := range p.read(t, "account-"+id) {
		if !until.IsZero() && !rec.OccurredAt.Before(until) {
			continue
		}
		sheet.Apply(decoded(t, rec), rec.Revision, rec.OccurredAt, periods.Booked(rec.OccurredAt, uint64(rec.Position)), rec.Metadata.Hash)
	}
	if !until.IsZero() && !month.Before(until) {
		return nil, statement.ErrNotBegun
	}
	return sheet.Statement(now, periods.Find(month) != nil)
}

// Rule 14.
func TestStatement_RandomHistory_EqualsThatOfTheEvents(t *testing.T) {
	t.Run("sqlite", func(t *testing.T) { testStatement_RandomHistory(t, projectionstest.Open) })
	t.Run("postgres", func(t *testing.T) { testStatement_RandomHistory(t, projectionstest.OpenPostgres) })
}

// Each history has a log of its own, so that rapid can shrink it.
func testStatement_RandomHistory(tb *testing.T, openEnv func(testing.TB) *projectionstest.Env) {
	rapid.Check(tb, func(t *rapid.T) {
		e := openEnv(tb)
		defer e.Close()
		m := ledger.New(e.Store)
		r, stop := e.Start(engine.Config{}, m)
		defer stop()
		p := &months{e: e, now: time.Date(2026, 10, 20, 9, 0, 0, 0, time.UTC)}
		for range rapid.IntRange(1, 3).Draw(t, "accounts") {
			id, first, last := p.history(t)
			e.CatchUp(r)
			var before *statement.Statement
			for month := first; !month.After(last.AddDate(0, 1, 0)); month = month.AddDate(0, 1, 0) {
				now := month.AddDate(0, 0, rapid.IntRange(0, 40).Draw(t, "day"))
				got, err := m.Statement(e.Context(), id, month, now)
				want, wantErr := p.ofEvents(t, id, month, now, time.Time{})
				if wantErr != nil {
					// All events so far were appended after the end of the month.
					if !errors.Is(err, statement.ErrNoEvents) || !errors.Is(wantErr, statement.ErrNoEvents) || before != nil {
						t.Fatalf("%s of %s: %v, want %v", month, id, err, wantErr)
					}
					continue
				}
				testmust.Succeed(t, err)
				at := first.AddDate(0, 0, rapid.IntRange(0, 100).Draw(t, "past day"))
				past, err := m.StatementBefore(e.Context(), id, month, at)
				wantPast, wantErr := p.ofEvents(t, id, month, at, at)
				if !reflect.DeepEqual(past, wantPast) || (err == nil) != (wantErr == nil) || err != nil && !errors.Is(err, wantErr) {
					t.Fatalf("%s of %s as of %s: %+v, %v, want %+v, %v", month, id, at, past, err, wantPast, wantErr)
				}
				gotJSON, _ := got.JSON()
				wantJSON, _ := want.JSON()
				if string(gotJSON) != string(wantJSON) {
					t.Fatalf("%s of %s:\n%swant\n%s", month, id, gotJSON, wantJSON)
				}
				opening := int64(0)
				if before != nil {
					opening = before.ClosingBalance
				}
				checkSums(t, got, opening)
				before = got
			}
			all := p.read(t, "account-"+id)
			if end := all[len(all)-1].Revision; before.Chain.Revision != end {
				t.Fatalf("the last statement ends at revision %d, want %d", before.Chain.Revision, end)
			}
		}
	})
}

// checkSums checks that the parts of a statement add up, given the closing balance of the month before.
func checkSums(t *rapid.T, s *statement.Statement, opening int64) {
	if s.OpeningBalance != opening {
		t.Fatalf("%s opens with %d, want %d", s.Month, s.OpeningBalance, opening)
	}
	if sum := s.OpeningBalance + s.Granted + s.Reversed - s.Used - s.Refunded - s.Breakage; sum != s.ClosingBalance {
		t.Fatalf("%+v adds up to %d", s, sum)
	}
	var byDay, byKey, granted, refunded int64
	for _, d := range s.UsageByDay {
		byDay += d.Reversed - d.Used
	}
	for _, k := range s.UsageByKey {
		byKey += k.Used
	}
	for _, g := range s.Grants {
		granted += g.Credits
	}
	for _, f := range s.Refunds {
		refunded += f.Credits
	}
	if byDay != s.Reversed-s.Used || byKey != s.Used || granted != s.Granted || refunded != s.Refunded {
		t.Fatalf("the lists of %+v do not add up", s)
	}
}

func TestStatement_Refused(t *testing.T) {
	projectionstest.Each(t, func(t *testing.T, e *projectionstest.Env) {
		m, r := open(t, e)
		e.Events("account-a", at, charge(1))
		e.CatchUp(r)
		month := books.MonthOf(at)
		for _, c := range []struct {
			account    string
			month, now time.Time
			want       error
		}{
			{"b", month, at, ledger.ErrNotFound},
			{"a", month.AddDate(0, -1, 0), at, statement.ErrNoEvents},
			{"a", month.AddDate(0, 1, 0), at, statement.ErrNotBegun},
			{"a", month, at, nil},
		} {
			if _, err := m.Statement(t.Context(), c.account, c.month, c.now); !errors.Is(err, c.want) {
				t.Errorf("statement of %s for %s = %v, want %v", c.account, c.month, err, c.want)
			}
		}
	})
}
