package dashboard_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	"golang.org/x/net/html"

	"letterhead/commands"
	"letterhead/dashboard/audit"
	"letterhead/dashboard/site/sitetest"
	"letterhead/domain/account"
	"letterhead/domain/plan"
	"letterhead/eventschemas"
	"letterhead/internal/apikey"
	"letterhead/internal/eventlog"
	"letterhead/internal/sqlstore"
	"letterhead/internal/testwait"
	"letterhead/operations"
	"letterhead/workers/generate"
)

func (c *customer) hold(domain string) (commands.Request, string) {
	c.t.Helper()
	by := commands.Request{ID: "req_" + uuid.NewString(), Actor: "account:" + c.id}
	hold, err := c.node.Writers.Accounts.HoldCredits(c.t.Context(), commands.HoldCredits{Request: by, AccountID: c.id, Domain: domain, Work: time.Minute})
	c.must(err)
	return by, hold.ID
}

// section returns the text of the section with a heading's id.
func (a answer) section(id string) string {
	a.t.Helper()
	for _, n := range a.elements("section") {
		if sitetest.Attribute(n, "aria-labelledby") == id {
			return sitetest.Text(n)
		}
	}
	return ""
}

// newest returns the revision of an account's last event.
func (c *customer) newest() uint64 {
	c.t.Helper()
	last, err := c.log.ReadStream(c.t.Context(), account.Stream(c.id), eventlog.End, eventlog.Backward, 1)
	c.must(err)
	return last[0].Revision
}

// exec changes rows of the read models, as nothing in the service does.
func (s *service) exec(statement string, args ...any) {
	s.t.Helper()
	s.must(s.node.Operations.Reads.CatchUp(s.t.Context()))
	s.must(s.node.Stores.Database.Write(s.t.Context(), func(tx *sqlstore.Tx) error {
		result, err := tx.ExecContext(context.Background(), statement, args...)
		if err != nil {
			return err
		}
		if n, err := result.RowsAffected(); err != nil || n != 1 {
			return fmt.Errorf("%d rows, %w", n, err)
		}
		return nil
	}))
}

func TestReplay_EveryRevision_ShowsTheAccountAsItWas(t *testing.T) {
	s := start(t, baseURL)
	c, w := s.signedIn("Acme", plan.Growth), s.node.Writers.Accounts
	ctx := t.Context()
	type state struct{ event, balance, held, plan, status, keys, lots, holds string }
	now := state{event: "Account opened", balance: "0", held: "0 by 0", plan: "growth", status: "active", keys: "There are none", lots: "no grants yet"}
	var want []state
	then := func(change func(*state)) {
		t.Helper()
		s.advance(time.Second)
		change(&now)
		want = append(want, now)
		if int(c.newest()) < len(want)-1 {
			t.Fatalf("%s was not stored", now.event)
		}
	}
	then(func(*state) {})
	then(func(n *state) { n.event, n.balance, n.lots = "Free credits", "50", "5050" })
	then(func(n *state) { n.event, n.keys = "Key issued, secret", "secret" })
	then(func(n *state) { n.event, n.keys = "Key issued, publishable", "publishable" })
	c.grant(1000, "pi_1")
	then(func(n *state) {
		n.event, n.balance, n.lots = "Credits bought, 49.00 EUR, pi_1", "1,050", "Credits boughtrevision 4"
	})
	key, err := s.node.Operations.Accounts.IssueKey(ctx, operator(), c.id, operations.NewKey{Kind: apikey.Secret, Name: "ci"})
	s.must(err)
	then(func(n *state) { n.event, n.keys = "Key issued, ci, secret", "cisecret"+key.Last })
	charged := c.charge("acme.com", key.ID)
	then(func(n *state) {
		n.event, n.balance, n.lots = "Look-up of acme.com, key ci", "1,049", "5049"
	})
	first, firstID := c.hold("slow.com")
	then(func(n *state) {
		n.event, n.held, n.holds = "Held for the look-up of slow.com, 1 credit", "1 by 1 hold", "slow.comrevision 7"
	})
	second, secondID := c.hold("slower.com")
	then(func(n *state) {
		n.event, n.held, n.holds = "Held for the look-up of slower.com, 1 credit", "2 by 2 holds", "slower.comrevision 8"
	})
	s.must(w.ReleaseHold(ctx, commands.ReleaseHold{Request: first, AccountID: c.id, HoldID: firstID}))
	then(func(n *state) { n.event, n.held = "Hold released, 1 credit", "1 by 1 hold" })
	_, err = w.ChargeLookup(ctx, commands.ChargeLookup{Request: second, AccountID: c.id, BrandID: uuid.NewString(), Domain: "slower.com", HoldID: secondID})
	s.must(err)
	then(func(n *state) {
		n.event, n.balance, n.held, n.lots, n.holds = "Look-up of slower.com", "1,048", "0 by 0 holds", "5048", ""
	})
	_, err = w.ChangePlan(ctx, commands.ChangePlan{Request: operator(), AccountID: c.id, Plan: plan.Starter})
	s.must(err)
	then(func(n *state) { n.event, n.plan = "Plan changed to starter", "starter" })
	_, err = w.RevokeKey(ctx, commands.RevokeKey{Request: operator(), AccountID: c.id, KeyID: key.ID})
	s.must(err)
	then(func(n *state) { n.event, n.keys = "Key revoked, ci", "publishable" })
	_, err = w.Suspend(ctx, commands.SuspendAccount{Request: operator(), AccountID: c.id, Reason: "unpaid"})
	s.must(err)
	then(func(n *state) { n.event, n.status = "Account suspended, unpaid", "suspended" })
	_, err = w.RecordFee(ctx, commands.RecordFee{Request: operator(), AccountID: c.id, FeeID: "fee_1", PaymentID: "pi_1", Money: eventschemas.Money{Minor: 173, Currency: "EUR"}})
	s.must(err)
	then(func(n *state) { n.event = "Fee of the payment processor recorded" })
	_, err = w.Note(ctx, commands.NoteAccount{Request: operator(), AccountID: c.id, Text: "Pays 1.73 late."})
	s.must(err)
	then(func(n *state) { n.event = "Note of the operator" })
	_, _, err = s.node.Operations.Charges.ReverseRequest(ctx, operator(), c.id, charged, "test")
	s.must(err)
	then(func(n *state) {
		n.event, n.balance, n.lots = "Charge returned, by the operator", "1,049", "5049"
	})
	_, err = w.RefundPayment(ctx, commands.RefundPayment{Request: operator(), AccountID: c.id, RefundID: "re_1", PaymentID: "pi_1"})
	s.must(err)
	then(func(n *state) { n.event, n.balance, n.lots = "Payment refunded", "49", "1 other grant is used up" })

	at := func(revision int) string { return fmt.Sprintf("/dashboard/replay?at=%d", revision) }
	for revision, n := range want {
		a := c.get(at(revision)).shows(200, n.event, fmt.Sprintf("After revision %d", revision))
		for id, text := range map[string]string{"balance": "Balance " + n.balance + " credits", "held": "Held " + n.held, "plan": "Plan " + n.plan, "status": "Status " + n.status, "keys": n.keys, "lots": n.lots, "holds": n.holds} {
			if got := a.section(id); !strings.Contains(got, text) || text == "" && got != "" {
				t.Errorf("at revision %d: the section is %q, want %q", revision, got, text)
			}
		}
		if newest := revision == len(want)-1; newest {
			a.shows(200, fmt.Sprintf("Replayed = stored, chain verified to revision %d.", revision))
		} else {
			a.shows(200, fmt.Sprintf("Chain verified to revision %d. The entry of the ledger has the same balance as the replay.", len(want)-1))
		}
		a.lacks("1.73") // what the payment processor takes, and in a note
		if rows := len(a.rows()); rows == 0 {
			t.Errorf("at revision %d no events are listed", revision)
		}
		if revision > 0 && a.link("Back") != at(revision-1) || revision < len(want)-1 && a.link("Forward") != at(revision+1) {
			t.Errorf("at revision %d the steps lead elsewhere", revision)
		}
	}
	if a := c.get("/dashboard/replay"); a.text() != c.get(at(len(want)-1)).text() {
		t.Errorf("without a revision the page is\n%s", a.text())
	}
	a := c.get(at(6)).shows(200, "the account account:"+c.id, "The index had the brand of acme.com", charged)
	if a.link("Why was it charged?") != "/dashboard/ledger/"+charged || a.link("Print") != "/dashboard/statements/2026-11" {
		t.Error("the links lead elsewhere")
	}
	if link := a.shows(200, "letterhead ledger check proof-2026-11.txt --key KEY").link("signed text"); link != "/dashboard/statements/2026-11/proof" {
		t.Errorf("the proof is at %s", link)
	}
}

func TestReplay_KeyThatExpired_IsNotValidAnyMore(t *testing.T) {
	s := start(t, baseURL)
	c := s.signedIn("Acme", plan.Growth)
	_, err := s.node.Operations.Accounts.IssueKey(t.Context(), operator(), c.id, operations.NewKey{Kind: apikey.Secret, Name: "short-lived", Terms: account.KeyTerms{ExpiresAt: s.now().Add(time.Minute)}})
	s.must(err)
	s.advance(time.Hour)
	c.charge("acme.com", "")
	if text := c.get("/dashboard/replay?at=4").shows(200, "Key issued, short-lived").section("keys"); !strings.Contains(text, "short-lived") {
		t.Errorf("the valid keys are %q", text)
	}
	if text := c.get("/dashboard/replay").shows(200, "Replayed = stored").section("keys"); strings.Contains(text, "short-lived") {
		t.Errorf("an hour later the valid keys are %q", text)
	}
}

func TestReplay_Position_IsExplainedIfWrong(t *testing.T) {
	s := start(t, baseURL)
	c := s.signedIn("Acme", plan.Growth)
	for at, problem := range map[string]string{
		"2026-02-29T12:00:00Z": "or a time like 2026-11-30T15:04:05Z", "2026-13-01": "or a time", "2026-06-31T00:00": "or a time", "2026-06-30T24:00:00Z": "or a time", "2026-06-30T23:59:60Z": "or a time", "10000-01-01T00:00:00Z": "or a time", "2026-06-30T23:59:59+02:00": "or a time", "2026-11-": "or a time",
		"-1": "whole number", "x": "whole number", "1.5": "whole number", "%2B1": "whole number", "99999999999999999999": "whole number", "%ff": "whole number", "<b>": "whole number",
		"4": "its newest revision is 3", "100000000000000000": "its newest revision is 3",
	} {
		a := c.get("/dashboard/replay?at="+at).shows(422, "Show the newest revision").lacks("<b>", "Balance")
		if p := a.problemOf("at"); !strings.Contains(p, problem) {
			t.Errorf("at=%s: the sentence is %q", at, p)
		}
	}
	c.get("/dashboard/replay?at=+3+").shows(200, "After revision 3, the newest")
	if a := c.get("/dashboard/replay?at=-1"); !slices.ContainsFunc(a.elements("input"), func(n *html.Node) bool {
		return sitetest.Attribute(n, "id") == "at" && sitetest.Attribute(n, "value") == "-1"
	}) {
		t.Error("what was typed is not kept")
	}
}

func TestReplay_Time_LeadsToTheLastEventUpToIt(t *testing.T) {
	s := start(t, baseURL)
	c := s.signedIn("Acme", plan.Growth) // revisions 0 to 3 at the same time
	s.advance(time.Hour)
	c.charge("acme.com", "")
	c.charge("bolt.com", "")
	s.advance(time.Date(2028, 2, 29, 12, 0, 0, 500_000_000, time.UTC).Sub(s.now()))
	c.signIn("owner")
	c.charge("leap.com", "")
	for at, revision := range map[string]int{
		"2026-11-21T12:00:01Z": 3, "2026-11-21T13:00:00Z": 3, "2026-11-21T13:00:00.999999Z": 3, "2026-11-21T13:00:01Z": 5, "2026-11-21T14:00:01%2B01:00": 5, "2026-11-21T12:59:59-00:30": 5,
		"2026-11-21T13:00": 3, "2026-11-21T13:00:01": 5, "+2026-11-21T13:00:01+": 5, "2026-11-21": 5, "2026-11": 5, "2027-02-28": 5,
		"2028-02-29T12:00:00Z": 5, "2028-02-29T12:00:00.5Z": 6, "2028-02-29T12:00:01": 6, "2028-02-28": 5, "2028-02-29": 6, "9999-12-31T23:59:59Z": 6,
	} {
		a := c.get("/dashboard/replay?at="+at).shows(200, fmt.Sprintf("After revision %d", revision), "The last event at or before ")
		if newest := revision == 6; newest {
			a.shows(200, "After revision 6, the newest", "Replayed = stored, chain verified to revision 6.", "Look-up of leap.com")
		}
	}
	for _, at := range []string{"2026-11-21T12:00:00Z", "2026-11-21T12:00:00.999999Z", "2026-11-20", "2024-02-29T12:00", "1969-12-31T23:59:59Z", "0001-01-01T00:00:00Z"} {
		a := c.get("/dashboard/replay?at="+at).shows(200, "Before the first event", "The account had no events yet at "+at[:10]).lacks("After revision", "Replayed = stored", "Balance 0")
		if a.link("Its first one") != "/dashboard/replay?at=0" || a.link("Forward") != "/dashboard/replay?at=0" {
			t.Errorf("at=%s: the links do not lead to the first event", at)
		}
	}
	for at, clock := range map[string]string{"": "2028-02-29T12:00:01", "0": "2026-11-21T12:00:01", "2026-11-21T14:00:01%2B01:00": "2026-11-21T13:00:01", "x": ""} {
		if got := c.get("/dashboard/replay?at=" + at).value("time"); got != clock {
			t.Errorf("at=%s: the field of the time has %q, want %q", at, got, clock)
		}
	}
}

// value returns the value of the input with an id.
func (a answer) value(id string) string {
	a.t.Helper()
	for _, n := range a.elements("input") {
		if sitetest.Attribute(n, "id") == id {
			return sitetest.Attribute(n, "value")
		}
	}
	a.t.Fatalf("there is no field %s", id)
	return ""
}

// curve returns the addresses to which the places of the curve lead.
func (a answer) curve() (places []string) {
	a.t.Helper()
	for _, n := range a.elements("a") {
		if len(sitetest.Elements(n, "rect")) == 1 {
			places = append(places, sitetest.Attribute(n, "href"))
		}
	}
	return places
}

func TestReplay_Curve_LeadsToRevisionsAndHasMonths(t *testing.T) {
	s := start(t, baseURL)
	c := s.signedIn("Acme", plan.Growth)
	s.advance(15 * 24 * time.Hour)
	c.signIn("owner")
	c.charge("acme.com", "")
	a := c.get("/dashboard/replay?at=1").shows(200, "The curve is the balance, between 0 and 50 credits", "Revision 4: 49 credits")
	if want := []string{"?at=0", "?at=1", "?at=2", "?at=3", "?at=4"}; !slices.Equal(a.curve(), want) {
		t.Errorf("the curve leads to %s, want %s", a.curve(), want)
	}
	if !strings.Contains(a.body, `aria-label="Balance from revision 0 to 4: between 0 and 50 credits. The table of months has figures."`) {
		t.Error("the curve has no alternative text")
	}
	if months, want := a.rows()[:2], [][]string{{"November 2026", "revision 3", "50"}, {"December 2026", "revision 4", "49"}}; !slices.EqualFunc(months, want, slices.Equal) {
		t.Errorf("the months are %q, want %q", months, want)
	}
	if heads := a.elements("h1"); len(heads) != 1 || sitetest.Text(heads[0]) != "Replay of Acme" || !strings.Contains(a.body, "<title>Replay of Acme · Letterhead</title>") {
		t.Error("heading and title do not name the account")
	}
}

// A time in a long history is found with few reads, and its page has a limited size.
func TestReplay_TimeInALongHistory_ReadsFewEvents(t *testing.T) {
	s := start(t, baseURL)
	c := s.long(20_000)
	a := c.ended("/dashboard/replay").shows(200, "Replayed = stored, chain verified to revision 19,999.")
	if n := len(a.curve()); n != 101 || a.curve()[100] != "?at=19999" {
		t.Errorf("the curve has %d places, the last is %s", n, a.curve()[n-1])
	}
	if len(a.body) > 40_000 {
		t.Errorf("the page has %d bytes", len(a.body))
	}
	events, err := s.log.ReadStream(t.Context(), account.Stream(c.id), 12_345, eventlog.Forward, 1)
	s.must(err)
	reads := atomic.Int64{}
	count := func(context.Context, string, uint64) { reads.Add(1) }
	s.onRead.Store(&count)
	a = c.get("/dashboard/replay?at="+events[0].OccurredAt.Format(time.RFC3339Nano)).shows(200, "The last event at or before", "The entry of the ledger has the same balance").lacks(`id="progress"`)
	if n := reads.Load(); n > 20 {
		t.Errorf("%d reads", n)
	}
	if back := a.link("Back"); !slices.Contains([]string{"/dashboard/replay?at=12344", "/dashboard/replay?at=12345"}, back) {
		t.Errorf("the step back leads to %s", back)
	}
}

func TestReplay_AnotherAccount_IsNeverShown(t *testing.T) {
	s := start(t, baseURL)
	acme, bolt := s.signedIn("Acme", plan.Growth), s.signedIn("Bolt", plan.Free)
	acme.charge("secret-of-acme.com", "")
	for _, query := range []string{"", "?at=0", "?at=3", "?at=4", "?account=" + acme.id, "?at=4&account=" + acme.id} {
		bolt.get("/dashboard/replay"+query).lacks("secret-of-acme.com", acme.id)
	}
	if a := (&customer{service: s, client: browser(t)}).get("/dashboard/replay"); a.status != 401 {
		t.Errorf("without a session the status is %d", a.status)
	}
}

func TestReplay_ChangedReadModels_AreReported(t *testing.T) {
	for name, f := range map[string]struct {
		statement string
		args      func(c *customer) []any
		texts     []string
	}{
		"balance": {"UPDATE accounts_v2_g1_accounts SET balance = 1234 WHERE id = $1", func(c *customer) []any { return []any{c.id} }, []string{"Revision 5: the balance of the account is stored as 1,234, replayed as 49."}},
		"plan":    {"UPDATE accounts_v2_g1_accounts SET plan = 'scale' WHERE id = $1", func(c *customer) []any { return []any{c.id} }, []string{"the plan is stored as scale, replayed as growth."}},
		"status":  {"UPDATE accounts_v2_g1_accounts SET status = 'suspended' WHERE id = $1", func(c *customer) []any { return []any{c.id} }, []string{"the status is stored as suspended, replayed as active."}},
		"key":     {"UPDATE keys_v2_g1_keys SET revoked_at = 1 WHERE kind = 'secret' AND account = $1", func(c *customer) []any { return []any{c.id} }, []string{"is stored as not valid, replayed as secret, ends with", "the number of revoked keys is stored as 1, replayed as 0."}},
		"origins": {"UPDATE keys_v2_g1_keys SET origins = 'https://evil.example' WHERE kind = 'publishable' AND account = $1", func(c *customer) []any { return []any{c.id} },
			[]string{"only for https://evil.example, replayed as publishable, ends with"}},
		"entry": {"UPDATE ledger_v8_g1_entries SET balance = 48 WHERE revision = 1 AND account_no = (SELECT no FROM ledger_v8_g1_accounts WHERE account = $1)", func(c *customer) []any { return []any{c.id} },
			[]string{"Revision 1: the balance in the ledger is stored as 48, replayed as 50."}},
		"held": {"UPDATE ledger_v8_g1_entries SET held = 7 WHERE revision = 5 AND account_no = (SELECT no FROM ledger_v8_g1_accounts WHERE account = $1)", func(c *customer) []any { return []any{c.id} },
			[]string{"what the entries of the ledger hold is stored as 7, replayed as 1."}},
		"hash": {"UPDATE ledger_v8_g1_entries SET hash = $2 WHERE revision = 5 AND account_no = (SELECT no FROM ledger_v8_g1_accounts WHERE account = $1)", func(c *customer) []any { return []any{c.id, []byte{1, 2}} },
			[]string{"the hash in the ledger is stored as 0102, replayed as "}},
		"lost entry": {"DELETE FROM ledger_v8_g1_entries WHERE revision = 2 AND account_no = (SELECT no FROM ledger_v8_g1_accounts WHERE account = $1)", func(c *customer) []any { return []any{c.id} },
			[]string{"Revision 2: the entry in the ledger is stored as missing, replayed as there."}},
		"lost end": {"DELETE FROM ledger_v8_g1_entries WHERE revision = 5 AND account_no = (SELECT no FROM ledger_v8_g1_accounts WHERE account = $1)", func(c *customer) []any { return []any{c.id} },
			[]string{"the number of entries in the ledger is stored as 5, replayed as 6."}},
	} {
		t.Run(name, func(t *testing.T) {
			s := start(t, baseURL)
			c := s.signedIn("Acme", plan.Growth)
			c.charge("acme.com", "")
			c.hold("slow.com")
			c.get("/dashboard/replay").shows(200, "Replayed = stored, chain verified to revision 5.")
			s.exec(f.statement, f.args(c)...)
			a := c.get("/dashboard/replay").shows(200, append(f.texts, "Replayed and stored differ.", "Balance 49 credits")...).lacks("Replayed = stored")
			if strings.Contains(a.section("balance"), "1,234") {
				t.Error("the replay shows what is stored")
			}
		})
	}
}

func TestReplay_BrokenChain_IsReportedWithItsRevision(t *testing.T) {
	s := start(t, baseURL)
	c := s.signedIn("Acme", plan.Growth)
	c.charge("acme.com", "")
	forged, err := eventschemas.Encode(eventschemas.CreditsGranted{GrantID: "forged", Kind: account.KindAdjustment, Credits: 1_000_000})
	s.must(err)
	stream, next := account.Stream(c.id), c.newest()+1
	event := eventlog.Proposed{ID: uuid.New(), Type: forged.Type, SchemaVersion: forged.SchemaVersion, OccurredAt: s.now(), Data: forged.Data, Metadata: eventlog.Metadata{Actor: "operator:forger", Hash: strings.Repeat("0", 64)}}
	_, err = s.log.Append(t.Context(), stream, eventlog.After(next), []eventlog.Proposed{event})
	s.must(err)
	c.get("/dashboard/replay").shows(200, "The hash chain breaks at revision 5.", "its hash is not that of its content", "After revision 4", "Balance 49 credits").lacks("Replayed = stored", "1,000,0")
	c.get("/dashboard/replay?at=1").shows(200, "The hash chain breaks at revision 5.", "Balance 50 credits", "After revision 1")
	if p := c.get("/dashboard/replay?at=5").shows(422, "The hash chain breaks at revision 5.").problemOf("at"); !strings.Contains(p, "ends at revision 4") {
		t.Errorf("the sentence is %q", p)
	}
}

func TestReplay_UnreadableEvent_EndsIt(t *testing.T) {
	s := start(t, baseURL)
	c := s.signedIn("Acme", plan.Growth)
	stream, next := account.Stream(c.id), c.newest()+1
	var head eventschemas.Hash
	s.must(commands.Chain.Read(t.Context(), s.log, stream, func(_ *eventlog.Recorded, h eventschemas.Hash) error { head = h; return nil }, nil))
	event := eventlog.Proposed{ID: uuid.New(), Type: "CreditsCharged", SchemaVersion: 2, OccurredAt: s.now(), Data: []byte(`{"credits":"many"}`)}
	commands.Chain.Link(head, stream, next, &event)
	if json.Unmarshal(event.Data, &eventschemas.CreditsCharged{}) == nil {
		t.Fatal("the event can be read")
	}
	_, err := s.log.Append(t.Context(), stream, eventlog.After(next), []eventlog.Proposed{event})
	s.must(err)
	c.get("/dashboard/replay").shows(200, "The event of revision 4 cannot be read.", "After revision 3", "Balance 50 credits").lacks("Replayed = stored")
}

// long returns the owner of an account with many events.
func (s *service) long(events int) *customer {
	s.t.Helper()
	return s.longs(1, events)[0]
}

// longs returns the owners of accounts that have many events together.
func (s *service) longs(n, events int) (all []*customer) {
	s.t.Helper()
	o := generate.Defaults()
	o.Accounts, o.Events = n, events
	_, err := generate.History(s.t.Context(), s.log.(eventlog.Importer), o, func(int) {})
	s.must(err)
	s.must(s.node.Operations.Reads.CatchUp(s.t.Context()))
	list, err := s.node.Models.Accounts.List(s.t.Context(), "", n)
	s.must(err)
	for i := range list {
		c := &customer{service: s, id: list[i].ID, client: browser(s.t)}
		c.signIn("owner")
		all = append(all, c)
	}
	return all
}

// ended loads a page until its replay has ended.
func (c *customer) ended(path string) answer {
	c.t.Helper()
	var a answer
	_, ok := testwait.Until(testwait.Timeout, func() bool {
		a = c.get(path)
		return !strings.Contains(a.body, `id="progress"`)
	})
	if !ok {
		c.t.Fatalf("the replay does not end:\n%s", a.text())
	}
	return a
}

func TestReplay_LongHistory_ShowsItsProgressAndThenTheResult(t *testing.T) {
	s := startLimited(t, audit.Limits{AtOnce: 100, Running: 1, Memory: 32 << 20})
	c := s.long(6000)
	newest := int(c.newest())
	progress := c.get("/dashboard/replay").shows(200, "Replaying. Replayed ", " of 6,000 events", "So far: after revision ").lacks("Replayed = stored", "slider")
	if !strings.Contains(progress.body, `<noscript><meta http-equiv="refresh"`) {
		t.Error("a browser without scripts does not load the page again")
	}
	a := c.ended("/dashboard/replay").shows(200, "Replayed = stored, chain verified to revision 5,999.").lacks("http-equiv")
	stored, err := s.node.Models.Accounts.Get(t.Context(), c.id)
	s.must(err)
	if want := strings.Fields(a.section("balance"))[1]; strings.ReplaceAll(want, ",", "") != fmt.Sprint(stored.Balance) {
		t.Errorf("the balance is %s, stored %d", want, stored.Balance)
	}
	for _, at := range []int{0, 1, 255, 256, 257, 3000, newest - 1} { // at once, because the states are kept
		entry, err := s.ledgerBalance(t.Context(), c.id, uint64(at))
		s.must(err)
		a := c.get(fmt.Sprintf("/dashboard/replay?at=%d", at)).shows(200, "The entry of the ledger has the same balance").lacks(`id="progress"`)
		if got := strings.Fields(a.section("balance"))[1]; strings.ReplaceAll(got, ",", "") != fmt.Sprint(entry) {
			t.Errorf("at revision %d the balance is %s, want %d", at, got, entry)
		}
	}
	for range 3 { // a kept replay goes on with the events that were appended since
		c.charge("acme.com", "")
	}
	c.get("/dashboard/replay").shows(200, "Replayed = stored, chain verified to revision 6,002.")
	s.advance(time.Hour) // after which it is not kept any more
	c.get("/dashboard/replay").shows(200, "Replayed ", " of 6,003 events")
	c.ended("/dashboard/replay")
}

// ledgerBalance returns the balance of an entry of the ledger.
func (s *service) ledgerBalance(ctx context.Context, accountID string, revision uint64) (balance int64, err error) {
	err = s.node.Stores.Database.Write(ctx, func(tx *sqlstore.Tx) error {
		return tx.QueryRowContext(context.Background(), "SELECT balance FROM ledger_v8_g1_entries WHERE revision = $1 AND account_no = (SELECT no FROM ledger_v8_g1_accounts WHERE account = $2)", revision, accountID).Scan(&balance)
	})
	return balance, err
}

// A replay stops when its page is not loaded any more, and goes on later where it stopped.
func TestReplay_PageThatIsLeft_MakesRoomForAnother(t *testing.T) {
	s := startLimited(t, audit.Limits{AtOnce: 100, Running: 1, Memory: 32 << 20})
	both := s.longs(2, 20_000)
	left, other := both[0], both[1]
	reached, release := make(chan struct{}, 100), make(chan struct{})
	var from atomic.Uint64 // of the last read of the page that is left
	block := func(ctx context.Context, stream string, revision uint64) {
		if stream == account.Stream(left.id) && revision > 100 && revision != eventlog.End {
			from.Store(revision)
			reached <- struct{}{}
			select {
			case <-release:
			case <-ctx.Done():
			}
		}
	}
	s.onRead.Store(&block)
	left.get("/dashboard/replay").shows(200, "Replayed 100 of")
	testwait.Receive(t, reached, "the replay to go on in the background")
	other.get("/dashboard/replay").shows(200, "Other accounts are being replayed.")
	s.advance(2 * time.Minute)
	close(release)
	other.ended("/dashboard/replay").shows(200, "Replayed = stored")
	if at := from.Load(); at != 100+2048 {
		t.Errorf("the replay went on to revision %d", at)
	}
	s.onRead.Store(nil)
	left.ended("/dashboard/replay").shows(200, "Replayed = stored")
}

func TestReplay_ServiceThatStops_EndsIt(t *testing.T) {
	s := startLimited(t, audit.Limits{AtOnce: 100, Running: 1, Memory: 32 << 20}) // its end closes the node, which waits for the replay
	c := s.long(3000)
	reached := make(chan struct{}, 100)
	block := func(ctx context.Context, stream string, revision uint64) {
		if stream == account.Stream(c.id) && revision == 100 {
			reached <- struct{}{}
			<-ctx.Done()
		}
	}
	s.onRead.Store(&block)
	c.get("/dashboard/replay").shows(200, "Replayed 100 of")
	testwait.Receive(t, reached, "the replay to go on in the background")
}

func TestReplay_NoRoom_WaitsAndShowsTheFirstState(t *testing.T) {
	c := startLimited(t, audit.Limits{AtOnce: 100, Running: 0, Memory: 32 << 20}).long(3000)
	for range 2 {
		c.get("/dashboard/replay").shows(200, "Other accounts are being replayed.", "Replayed 100 of 3,000 events", "So far: after revision 99")
	}
	c.get("/dashboard/replay?at=7").shows(200, "So far: after revision 7")
}

func TestReplay_MoreThanFitsIntoMemory_EndsWithAReason(t *testing.T) {
	c := startLimited(t, audit.Limits{AtOnce: 100, Running: 1, Memory: 1}).long(3000)
	a := c.get("/dashboard/replay").shows(200, "The history is too long for this page.", "letterhead ledger verify --account "+c.id, "After revision 99").lacks("Replayed = stored", `id="progress"`)
	if a.link("Back") != "/dashboard/replay?at=98" {
		t.Errorf("the step back leads to %s", a.link("Back"))
	}
}

func TestReplay_LogOrReadModelsAway_SaysSo(t *testing.T) {
	s := start(t, baseURL)
	c := s.signedIn("Acme", plan.Growth)
	s.down.Store(true)
	c.get("/dashboard/replay").shows(http.StatusOK, "The event log cannot be reached", "The read models cannot be compared.", "Balance 50 credits").lacks("Replayed = stored")
}
