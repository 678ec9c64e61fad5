package journal

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"letterhead/domain/books"
	"letterhead/eventschemas"
	"letterhead/internal/eventlog"
	"letterhead/internal/testmust"
)

func monthAt(month time.Month) time.Time { return time.Date(2026, month, 1, 0, 0, 0, 0, time.UTC) }

func (w *world) closer(now time.Time) *Closer {
	return &Closer{Log: w.stored(), Now: func() time.Time { return now }, Metadata: eventlog.Metadata{RequestID: "r", Actor: "operator:test"}}
}

func (w *world) close(month time.Month, now time.Time) *books.Period {
	w.t.Helper()
	period, repeated, err := w.closer(now).Close(context.Background(), monthAt(month))
	if err != nil || repeated {
		w.t.Fatalf("closing %s: repeated %t, %v", month, repeated, err)
	}
	return period
}

func (w *world) closings() int {
	w.t.Helper()
	periods := testmust.Get(ReadPeriods(context.Background(), w.stored(), anyPosition))(w.t)
	closed := 0
	for _, p := range periods.All() {
		if p.Closed() {
			closed++
		}
	}
	return closed
}

func TestClose_MonthsInOrder(t *testing.T) {
	w := story(t) // from September to November 4
	for _, c := range []struct {
		month time.Month
		now   time.Time
		err   error
		text  string
		count int
	}{
		{11, day(11, 20), books.ErrRunning, "2026-11", 0},
		{11, monthAt(12).Add(-time.Microsecond), books.ErrRunning, "2026-11", 0},
		{10, day(11, 20), books.ErrOrder, "2026-09", 0},
		{8, day(11, 20), books.ErrTooEarly, "2026-08", 0},
		{9, day(11, 20), nil, "", 1},
		{8, day(11, 20), books.ErrTooEarly, "2026-08", 1},
		{11, day(12, 2), books.ErrOrder, "2026-10", 1},
		{10, day(11, 20), nil, "", 2},
		{11, monthAt(12), nil, "", 3},
		{12, monthAt(12), books.ErrRunning, "2026-12", 3},
	} {
		_, repeated, err := w.closer(c.now).Close(t.Context(), monthAt(c.month))
		if !errors.Is(err, c.err) || repeated || err != nil && !strings.HasPrefix(err.Error(), c.text) {
			t.Errorf("closing %s on %s: repeated %t, %v; want %v about %s", c.month, c.now, repeated, err, c.err, c.text)
		}
		if _, err := w.closer(c.now).Check(t.Context(), monthAt(c.month)); !errors.Is(err, c.err) {
			t.Errorf("check of %s on %s: %v, want %v", c.month, c.now, err, c.err)
		}
		if n := w.closings(); n != c.count {
			t.Errorf("after closing %s there are %d closings, want %d", c.month, n, c.count)
		}
	}
	if _, _, err := newWorld(t).closer(day(11, 1)).Close(t.Context(), monthAt(9)); !errors.Is(err, ErrNoEvents) {
		t.Errorf("closing a month of an empty log: %v, want ErrNoEvents", err)
	}
}

func TestClose_Again_ChangesNothing(t *testing.T) {
	w := story(t)
	first := w.close(9, day(11, 20))
	again, repeated, err := w.closer(day(12, 20)).Close(t.Context(), monthAt(9))
	if err != nil || !repeated || !reflect.DeepEqual(again, first) || w.closings() != 1 {
		t.Errorf("closing again: %+v, repeated %t, %v; want the closing %+v", again, repeated, err, first)
	}
}

// digestOf computes the digest of an export in JSONL as docs/books.md describes it.
func digestOf(t *testing.T, lines []byte) string {
	t.Helper()
	type line struct {
		Account  string
		Revision *int
		text     string
	}
	var all []line
	for text := range strings.Lines(string(lines)) {
		l := line{text: text}
		testmust.Succeed(t, json.Unmarshal([]byte(text), &l))
		all = append(all, l)
	}
	slices.SortStableFunc(all, func(a, b line) int { return cmp.Compare(a.Account, b.Account) })
	var list strings.Builder
	for i := 0; i < len(all); {
		account := all[i].Account
		h := sha256.New()
		for ; i < len(all) && all[i].Account == account; i++ {
			h.Write([]byte(all[i].text))
		}
		fmt.Fprintf(&list, "%x  %s\n", h.Sum(nil), account)
	}
	return fmt.Sprintf("%x", sha256.Sum256([]byte(list.String())))
}

func TestClose_Digest_IsThatOfTheExport(t *testing.T) {
	w := story(t)
	w.close(9, day(12, 2))
	closing := w.close(10, day(12, 2))
	text := w.write(Options{Format: JSONL, From: monthAt(10), Until: monthAt(11)})
	if got := digestOf(t, text); got != closing.Closing.Digest {
		t.Errorf("digest of the export = %s, of the closing %s", got, closing.Closing.Digest)
	}
	if closing.Closing.Transactions != 5 {
		t.Errorf("%d transactions, want 5", closing.Closing.Transactions)
	}
	want := []eventschemas.PeriodTotal{
		{LedgerAccount: "credits", Commodity: "CREDIT", Change: 0, Balance: 110},
		{LedgerAccount: "credits-paid", Commodity: "CREDIT", Change: -4, Balance: -104},
		{LedgerAccount: "credits-promotional", Commodity: "CREDIT", Change: 0, Balance: -10},
		{LedgerAccount: "credits-used", Commodity: "CREDIT", Change: 4, Balance: 4},
		{LedgerAccount: "deferred-revenue", Commodity: "EUR", Change: 0, Balance: -10000},
		{LedgerAccount: "deferred-revenue", Commodity: "JPY", Change: 0, Balance: 0},
		{LedgerAccount: "deferred-revenue", Commodity: "KWD", Change: 0, Balance: 0},
		{LedgerAccount: "payments", Commodity: "EUR", Change: 0, Balance: 11900},
		{LedgerAccount: "payments", Commodity: "JPY", Change: 1000, Balance: 1000},
		{LedgerAccount: "payments", Commodity: "KWD", Change: 1, Balance: 1},
		{LedgerAccount: "revenue", Commodity: "EUR", Change: 0, Balance: 0},
		{LedgerAccount: "revenue", Commodity: "JPY", Change: -909, Balance: -909},
		{LedgerAccount: "revenue", Commodity: "KWD", Change: -1, Balance: -1},
		{LedgerAccount: "tax", Commodity: "EUR", Change: 0, Balance: -1900},
		{LedgerAccount: "tax", Commodity: "JPY", Change: -91, Balance: -91},
	}
	if !reflect.DeepEqual(closing.Closing.Totals, want) {
		t.Errorf("totals %+v, want %+v", closing.Closing.Totals, want)
	}
}

// Rule 14.
func TestClose_LateEvent_IsBookedInTheFirstOpenMonth(t *testing.T) {
	w := story(t)
	october := w.write(Options{Format: CSV, From: monthAt(10), Until: monthAt(11)})
	w.close(9, day(11, 20))
	w.close(10, day(11, 20))
	late := "9f0c4a52-6f0e-4c35-9a55-1d1c2d3e4f52"
	w.append(day(9, 20), late, promotional("free", 5)) // both months are closed
	w.append(day(10, 31), late, charged("late", 2))
	w.append(day(11, 21), late, charged("in time", 1))
	if got := w.write(Options{Format: CSV, From: monthAt(10), Until: monthAt(11)}); !bytes.Equal(got, october) {
		t.Errorf("the export of the closed month has changed:\n%s\nwant:\n%s", got, october)
	}
	var got []string
	rows := w.rows(Options{From: monthAt(11), Until: monthAt(12)})
	for _, row := range rows {
		if row[4] == late && row[7] == "credits" {
			got = append(got, strings.Join([]string{row[1], row[2], row[9], row[10]}, " "))
		}
	}
	want := []string{"2026-11-01 2026-09-20T12:30:00.000005Z 5 2026-09", "2026-11-01 2026-10-31T12:30:00.000005Z -2 2026-10", "2026-11-21 2026-11-21T12:30:00.000005Z -1 "}
	if !slices.Equal(got, want) {
		t.Errorf("transactions of the late account: %q, want %q", got, want)
	}
	var used int64
	if _, err := Fold(t.Context(), w.stored(), books.NewLedger(), 0, monthAt(11), func(_ time.Time, _ *books.Holder, _ string, m books.Movement) { used += m.CreditsUsed }); err != nil || used != 4 {
		t.Errorf("%d credits used up to the end of October (%v), want 4", used, err)
	}
	one := w.transactions(Options{From: monthAt(11), Until: monthAt(12), AccountID: late})
	if len(one) != 3 {
		t.Errorf("the account's export has %d transactions, want 3", len(one))
	}
	if november := w.close(11, monthAt(12)); november.Closing.Transactions != 6 {
		t.Errorf("November was closed with %d transactions, want 6", november.Closing.Transactions)
	}
}

func TestWrite_LateEvent_EveryTextFormatNamesItsTimeAndMonth(t *testing.T) {
	w := story(t)
	w.close(9, day(11, 20))
	w.close(10, day(11, 20))
	w.append(day(10, 31), "late", charged("late", 2))
	for format, want := range map[Format][]string{
		CSV:       {"late/0,2026-11-01,2026-10-31T12:30:00.000005Z,CreditsCharged,", ",2026-10,"},
		JSONL:     {`"date":"2026-11-01","time":"2026-10-31T12:30:00.000005Z"`, `"late_for":"2026-10"`},
		HLedger:   {"2026-11-01 * (late/0) CreditsCharged", "time:2026-10-31T12:30:00.000005Z", "late-for:2026-10"},
		Beancount: {"2026-11-01 * \"CreditsCharged\"\n  transaction: \"late/0\"", `time: "2026-10-31T12:30:00.000005Z"`, `late-for: "2026-10"`},
	} {
		text := string(w.write(Options{Format: format, From: monthAt(11), Until: monthAt(12)}))
		for _, part := range want {
			if !strings.Contains(text, part) {
				t.Errorf("%s: the export lacks %q:\n%s", format, part, text)
			}
		}
		if closed := w.write(Options{Format: format, From: monthAt(10), Until: monthAt(11)}); bytes.Contains(closed, []byte("late/0")) {
			t.Errorf("%s: the export of the closed month has the late event", format)
		}
	}
}

// TestClose_OrderOfAccountsInTheLog_DoesNotMatter swaps events of accounts as a copy may. One of them is far from the
// others in time, and one is a reversal, which depends on the charges that are remembered.
func TestClose_OrderOfAccountsInTheLog_DoesNotMatter(t *testing.T) {
	var digests []string
	for _, swapped := range []bool{false, true} {
		w := newWorld(t)
		steps := []func(){
			func() { w.append(day(9, 1), second, granted("b", 5, 500, "EUR", 0), granted("b2", 5, 50, "EUR", 0)) },
			func() { w.append(day(9, 2), second, charged("c", 5), charged("c2", 5)) },
			func() { w.append(day(9, 2), second, reversed("c", 5)) },
			func() { w.append(day(9, 20), first, promotional("a", 5)) },
			func() { w.append(day(9, 20), first, charged("d", 1)) },
		}
		if swapped {
			steps = []func(){steps[0], steps[1], steps[3], steps[4], steps[2]}
		}
		for _, step := range steps {
			step()
		}
		digests = append(digests, w.close(9, day(10, 2)).Closing.Digest)
	}
	if digests[0] != digests[1] {
		t.Errorf("digests %s and %s of the same events in another order differ", digests[0], digests[1])
	}
}

// books appends events of the stream of the books.
func (w *world) books(revision uint64, events ...eventschemas.Event) {
	w.t.Helper()
	for i, event := range events {
		enc, err := eventschemas.Encode(event)
		testmust.Succeed(w.t, err)
		_, err = w.stored().Append(context.Background(), eventschemas.BooksStream, eventlog.After(revision+uint64(i)),
			[]eventlog.Proposed{{ID: [16]byte{1, byte(revision) + byte(i)}, Type: enc.Type, SchemaVersion: enc.SchemaVersion, OccurredAt: day(11, 5), Data: enc.Data}})
		testmust.Succeed(w.t, err)
	}
}

// Rule 14.
func TestWriteFile_ClosedMonthDiffers_Fails(t *testing.T) {
	w := story(t)
	w.books(0, eventschemas.PeriodEnded{Month: "2026-09"}, eventschemas.PeriodClosed{Month: "2026-09", Digest: strings.Repeat("0", 64)})
	for _, format := range Formats() {
		name := filepath.Join(t.TempDir(), "september")
		o := Options{Format: format, From: monthAt(9), Until: monthAt(10), Chart: DefaultChart()}
		if err := WriteFile(t.Context(), w.log, o, name); !errors.Is(err, ErrDigest) || !strings.Contains(err.Error(), "2026-09") {
			t.Errorf("%s: export of a closed month with another digest: %v, want ErrDigest with the month", format, err)
		}
		if files, err := os.ReadDir(filepath.Dir(name)); err != nil || len(files) > 0 {
			t.Errorf("%s: the failed export left %v (%v)", format, files, err)
		}
	}
	// Exports of other times and of single accounts have no digest.
	w.write(Options{Format: CSV, From: monthAt(9), Until: monthAt(10), AccountID: second})
	w.write(Options{Format: CSV})
	// The next month does not begin with the balances that were closed.
	if _, _, err := w.closer(day(11, 20)).Close(t.Context(), monthAt(10)); !errors.Is(err, ErrBalance) {
		t.Errorf("closing a month after one with other balances: %v, want ErrBalance", err)
	}
	if periods, err := ReadPeriods(t.Context(), w.log, anyPosition); err != nil || len(periods.All()) != 1 {
		t.Errorf("the failed closing left %+v (%v), want only September", periods, err)
	}
}

func TestClose_Interrupted_KeepsTheEnd(t *testing.T) {
	w := story(t)
	w.books(0, eventschemas.PeriodEnded{Month: "2026-09"}) // and the process died
	w.append(day(9, 29), second, promotional("late", 1))
	months, err := Status(t.Context(), w.stored(), day(11, 20))
	if err != nil || len(months) != 3 || months[0].State(day(11, 20)) != "open" || months[2].State(day(11, 20)) != "running" {
		t.Errorf("status %+v (%v), want September open and November running", months, err)
	}
	if _, _, err := w.closer(day(11, 20)).Close(t.Context(), monthAt(10)); !errors.Is(err, books.ErrOrder) {
		t.Errorf("closing the month after: %v, want ErrOrder", err)
	}
	if period := w.close(9, day(11, 20)); period.Closing.Transactions != 2 {
		t.Errorf("%d transactions, want 2: the late event belongs to October", period.Closing.Transactions)
	}
	if period := w.close(10, day(11, 20)); period.Closing.Transactions != 6 {
		t.Errorf("%d transactions in October, want 6", period.Closing.Transactions)
	}
}

// TestClose_TwoClosers_AgreeOnOneClosing lets a second closer begin at every step of the first one, with events between
// them.
// Rule 14.
func TestClose_TwoClosers_AgreeOnOneClosing(t *testing.T) {
	for step := range 2 {
		w := story(t)
		n := 0
		slow := w.closer(day(11, 20))
		now := slow.Now
		slow.Now = func() time.Time { // called before each append, and by Check
			if n++; n == step+2 {
				w.append(day(9, 30), second, promotional("between", 1))
				w.stored()
				if _, _, err := w.closer(day(11, 20)).Close(t.Context(), monthAt(9)); err != nil {
					t.Error(err)
				}
			}
			return now()
		}
		got, _, err := slow.Close(t.Context(), monthAt(9))
		if err != nil {
			t.Errorf("step %d: %v", step, err)
			continue
		}
		periods, err := ReadPeriods(t.Context(), w.log, anyPosition)
		if err != nil || len(periods.All()) != 1 || !reflect.DeepEqual(got, periods.Find(monthAt(9))) {
			t.Errorf("step %d: the closer returned %+v, the log has %+v (%v)", step, got, periods.All(), err)
		}
		w.write(Options{Format: CSV, From: monthAt(9), Until: monthAt(10)}) // compares the digest
	}
}

// countingLog counts the events that are read from all streams.
type countingLog struct {
	eventlog.Log
	events int
}

func (l *countingLog) ReadAll(ctx context.Context, after eventlog.Position, filter eventlog.Filter, limit int) (eventlog.Page, error) {
	page, err := l.Log.ReadAll(ctx, after, filter, limit)
	l.events += len(page.Events)
	return page, err
}

func TestClose_LongHistory_IsReadOnce(t *testing.T) {
	w := newWorld(t)
	const events = 20 * pageEvents
	for i := range events {
		w.append(day(8, 1).Add(time.Duration(i)*time.Minute), first, promotional(strconv.Itoa(i), 1)) // 14 days
	}
	w.append(day(9, 1), first, promotional("last", 1))
	c := w.closer(day(10, 1))
	if _, _, err := c.Close(t.Context(), monthAt(8)); err != nil {
		t.Fatal(err)
	}
	log := &countingLog{Log: w.log}
	c.Log = log
	if _, _, err := c.Close(t.Context(), monthAt(9)); err != nil {
		t.Fatal(err)
	}
	if most := events + eventlog.MaxDisorder + 2*pageEvents; log.events > most {
		t.Errorf("closing a month read %d events, want at most %d: all of them once, and the first and the last pages again", log.events, most)
	}
	log.events = 0
	if err := Write(t.Context(), log, Options{Format: CSV, Until: monthAt(9), Chart: DefaultChart()}, io.Discard); err != nil || log.events < events {
		t.Errorf("an export of August read %d events, want all %d of them (%v)", log.events, events, err)
	}
	for i := range 3 * pageEvents {
		w.append(day(10, 2), second, promotional(strconv.Itoa(i), 1))
	}
	w.stored()
	log.events = 0
	if err := Write(t.Context(), log, Options{Format: CSV, Until: monthAt(9), Chart: DefaultChart()}, io.Discard); err != nil || log.events > events+pageEvents {
		t.Errorf("an export of August, which has ended in the books, read %d events, want at most %d (%v)", log.events, events+pageEvents, err)
	}
}

// An event that belongs before the first month, from a node whose clock is behind, can follow while the month ends.
func TestClose_EarlierEventArrivesMeanwhile_IsInTheOpening(t *testing.T) {
	w := story(t)
	c := w.closer(day(11, 20))
	now, calls := c.Now, 0
	c.Now = func() time.Time { // called by Check, and before PeriodEnded is appended
		if calls++; calls == 2 {
			w.append(day(8, 20), "earlier", promotional("before", 7))
			w.stored()
		}
		return now()
	}
	period, _, err := c.Close(t.Context(), monthAt(9))
	testmust.Succeed(t, err)
	i := slices.IndexFunc(period.Closing.Totals, func(t eventschemas.PeriodTotal) bool { return t.LedgerAccount == "credits" })
	if got := period.Closing.Totals[i]; got.Balance != 117 || got.Change != 110 {
		t.Errorf("the credits are %+v, want 110 of September and 7 before", got)
	}
	w.write(Options{Format: CSV, From: monthAt(9), Until: monthAt(10)}) // compares the digest
}

// TestClose_AnyHistory_ClosedMonthsStay closes months while events of several nodes arrive, some of them late.
// Rule 14.
func TestClose_AnyHistory_ClosedMonthsStay(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		w := newWorld(t)
		ids := []string{first, second}
		at := map[string]time.Time{first: day(1, 1), second: day(1, 1)}
		next := time.Month(1)
		for n := range rapid.IntRange(1, 30).Draw(rt, "events") {
			id := rapid.SampledFrom(ids).Draw(rt, "account")
			at[id] = at[id].Add(time.Duration(rapid.IntRange(0, 20*24).Draw(rt, "hours")) * time.Hour)
			if at[id].After(day(9, 1)) {
				continue
			}
			credits := rapid.Int64Range(1, 9).Draw(rt, "credits")
			if name := strconv.Itoa(n); rapid.Bool().Draw(rt, "grant") {
				w.append(at[id], id, granted(name, credits, credits*7, "EUR", 3))
			} else {
				w.append(at[id], id, charged(name, credits))
			}
			if rapid.IntRange(0, 3).Draw(rt, "close") == 0 && next < 9 {
				w.close(next, monthAt(next+1))
				next++
			}
		}
		whole := sums(t, w.transactions(Options{}))
		var parts []transaction
		for month := time.Month(1); month < next; month++ {
			all := w.transactions(Options{From: monthAt(month), Until: monthAt(month + 1)}) // compares the digest
			parts = append(parts, all[openings(all):]...)
		}
		rest := w.transactions(Options{From: monthAt(next)})
		parts = append(parts, rest[openings(rest):]...)
		if got := sums(t, parts); !reflect.DeepEqual(texts(got), texts(whole)) {
			rt.Fatalf("closed months and the rest close at %v, want %v", texts(got), texts(whole))
		}
	})
}
