package statement_test

import (
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"letterhead/domain/books"
	"letterhead/domain/statement"
	"letterhead/eventschemas"
	"letterhead/internal/testmust"
)

var (
	october  = time.Date(2026, 10, 1, 0, 0, 0, 0, time.UTC)
	november = october.AddDate(0, 1, 0)
	december = october.AddDate(0, 2, 0)
)

// event is an event of the account, at a position of the log that is its index times ten.
type event struct {
	at   time.Time
	body eventschemas.Event
}

func euros(minor int64) *eventschemas.Money {
	return &eventschemas.Money{Minor: minor, Currency: "EUR"}
}

func history() []event {
	day := func(day int) time.Time { return november.AddDate(0, 0, day-1).Add(9 * time.Hour) }
	return []event{
		{october, eventschemas.AccountOpened{AccountID: "a", Plan: "free"}},
		{october.Add(time.Hour), eventschemas.CreditsGranted{Kind: "free", Credits: 50}},
		{october.Add(2 * time.Hour), eventschemas.CreditsGranted{Kind: "topup", Credits: 1000, PaymentID: "pi_1", Money: euros(4900), Tax: 782}},
		{november.Add(-time.Minute), eventschemas.CreditsCharged{ChargeID: "c1", Credits: 1, KeyID: "k2"}},
		{november.Add(-time.Second), eventschemas.CreditsCharged{ChargeID: "c2", Credits: 2, KeyID: "k1"}}, // appended after October ended
		{november, eventschemas.ChargeReversed{ChargeID: "c1", Credits: 1}},
		{day(3), eventschemas.PaymentRefunded{RefundID: "f1", PaymentID: "pi_1", Credits: 500}}, // half, by an old release
		{day(3), eventschemas.CreditsCharged{ChargeID: "c3", Credits: 1}},                       // of an old release
		{day(3).Add(time.Hour), eventschemas.CreditsCharged{ChargeID: "c4", Credits: 1, KeyID: "k1"}},
		{day(4), eventschemas.KeyRevoked{KeyID: "k1"}},
		{day(5), eventschemas.CreditsGranted{Kind: "adjustment", Credits: 7, Reason: "<sorry> & =thanks"}},
		{day(6), eventschemas.CreditsGranted{Kind: "topup", Credits: 10, PaymentID: "pi_2", Money: &eventschemas.Money{Minor: 500, Currency: "JPY"}}},
		{day(6), eventschemas.PaymentFeeRecorded{FeeID: "e1", PaymentID: "pi_2", Money: eventschemas.Money{Minor: 20, Currency: "JPY"}}},
		{december, eventschemas.PaymentRefunded{RefundID: "f2", PaymentID: "pi_1", Credits: 500, Money: euros(2450)}},
	}
}

// of returns the statement of a month; October ended before the fifth event.
func of(t *testing.T, month, now time.Time) (*statement.Statement, error) {
	t.Helper()
	var periods books.Periods
	testmust.Succeed(t, periods.Apply(eventschemas.PeriodEnded{Month: "2026-10"}, 35, november))
	sheet := statement.New("a", month)
	for i, e := range history() {
		sheet.Apply(e.body, uint64(i), e.at, periods.Booked(e.at, uint64(10*i)), string(rune('a'+i)))
	}
	return sheet.Statement(now, false)
}

func TestStatement_Month_HasWhatWasBookedInIt(t *testing.T) {
	s := testmust.Get(of(t, november, december))(t)
	const want = `{"account_id":"a","month":"2026-11","provisional":false,"closed":false,` +
		`"opening_balance":1049,"granted":17,"used":4,"reversed":1,"refunded":500,"breakage":0,"closing_balance":563,` +
		`"money":[{"currency":"EUR","paid":0,"paid_tax":0,"refunded":2450,"refunded_tax":391},{"currency":"JPY","paid":500,"paid_tax":0,"refunded":0,"refunded_tax":0}],` +
		`"grants":[{"revision":10,"at":"2026-11-05T09:00:00Z","kind":"adjustment","credits":7,"money":0,"tax":0,"reason":"<sorry> & =thanks"},` +
		`{"revision":11,"at":"2026-11-06T09:00:00Z","kind":"topup","credits":10,"payment_id":"pi_2","currency":"JPY","money":500,"tax":0}],` +
		`"refunds":[{"revision":6,"at":"2026-11-03T09:00:00Z","refund_id":"f1","payment_id":"pi_1","credits":500,"currency":"EUR","money":2450,"tax":391}],` +
		`"usage_by_day":[{"date":"2026-11-01","charges":1,"used":2,"reversals":1,"reversed":1},{"date":"2026-11-03","charges":2,"used":2,"reversals":0,"reversed":0}],` +
		`"usage_by_key":[{"key_id":"","charges":1,"used":1},{"key_id":"k1","charges":2,"used":3}],` +
		`"chain":{"revision":12,"hash":"m"}}` + "\n"
	if got, err := s.JSON(); err != nil || string(got) != want {
		t.Errorf("%s, %v, want\n%s", got, err, want)
	}
}

func TestCSV(t *testing.T) {
	s := testmust.Get(of(t, november, december))(t)
	const want = `line,date,reference,kind,payment_id,revision,events,credits,currency,money,tax
statement,2026-11,a,open,,,,,,,
opening_balance,,,,,,,1049,,,
grant,2026-11-05T09:00:00Z,<sorry> & =thanks,adjustment,,10,1,7,,,
grant,2026-11-06T09:00:00Z,,topup,pi_2,11,1,10,JPY,500,0
refund,2026-11-03T09:00:00Z,f1,,pi_1,6,1,-500,EUR,-24.50,-3.91
used,2026-11-01,,,,,1,-2,,,
reversed,2026-11-01,,,,,1,1,,,
used,2026-11-03,,,,,2,-2,,,
used_by_key,,,,,,1,-1,,,
used_by_key,,k1,,,,2,-3,,,
paid,,,,,,,,EUR,0.00,0.00
returned,,,,,,,,EUR,-24.50,-3.91
paid,,,,,,,,JPY,500,0
returned,,,,,,,,JPY,0,0
closing_balance,,,,,,,563,,,
chain,,m,,,12,,,,,
`
	if got, err := s.CSV(); err != nil || string(got) != want {
		t.Errorf("%s, %v, want\n%s", got, err, want)
	}
}

func TestStatement_TimeOfTheMonth(t *testing.T) {
	for _, c := range []struct {
		month, now  time.Time
		provisional bool
		err         error
	}{
		{october.AddDate(0, -1, 0), december, false, statement.ErrNoEvents},
		{october, november.Add(-1), true, nil},
		{october, november, false, nil},
		{november, november.Add(-1), false, statement.ErrNotBegun},
		{november, november, true, nil},
		{december.AddDate(1, 0, 0), december.AddDate(2, 0, 0), false, nil}, // without lines
	} {
		s, err := of(t, c.month, c.now)
		if !errors.Is(err, c.err) || err == nil && (s.Provisional != c.provisional || s.Closed) {
			t.Errorf("%s at %s: %+v, %v, want provisional %t, %v", c.month, c.now, s, err, c.provisional, c.err)
		}
	}
}

func TestStatement_LinesDoNotAddUp_Fails(t *testing.T) {
	sheet := statement.New("a", november)
	sheet.Apply(eventschemas.CreditsGranted{Kind: "free", Credits: 5}, 0, november, november, "")
	sheet.Add(statement.Line{Event: eventschemas.CreditsCharged{Credits: 1}, Count: 1, Booked: november})
	if s, err := sheet.Statement(december, true); err == nil {
		t.Errorf("%+v, want an error", s)
	}
}

// Earlier releases did not limit the money of a payment, and a statement must not show a sum that has overflowed.
func TestStatement_SumBeyondInt64_IsAnErrorThatNamesTheEvent(t *testing.T) {
	sheet := statement.New("acc_1", november)
	for i := range 3 {
		payment := eventschemas.CreditsGranted{Kind: "topup", Credits: 1, PaymentID: fmt.Sprint("p", i), Money: euros(math.MaxInt64 / 2)}
		sheet.Apply(payment, uint64(7+i), november, november, "")
	}
	if s, err := sheet.Statement(december, true); !errors.Is(err, books.ErrSum) || !strings.Contains(err.Error(), "EUR, at revision 8 of account acc_1") {
		t.Errorf("%+v, %v, want an error that names the currency and the event", s, err)
	}
}
