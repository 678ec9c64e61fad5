package dashboard_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"letterhead/commands"
	"letterhead/domain/notices"
	"letterhead/domain/plan"
	"letterhead/eventschemas"
	"letterhead/internal/eventlog"
)

func TestNotices_Settings_AreSavedAndShown(t *testing.T) {
	s := start(t, baseURL)
	c := s.signedIn("Acme", plan.Growth)
	c.get("/dashboard/notices").shows(200, "no mail server", "None yet").lacks("whpk_")
	form := c.get("/dashboard/notices").form("/dashboard/notices")
	form.Set("low_balance", "100")
	form.Set("webhook", " https://hooks.example.com/letterhead ")
	form.Set("email", "billing@example.com")
	a := c.post("/dashboard/notices", form)
	if a.status != 303 {
		t.Fatalf("status %d:\n%s", a.status, a.body)
	}
	saved := c.get(a.header.Get("Location")).shows(200, "The settings are saved", "whpk_")
	if kept := saved.form("/dashboard/notices"); kept.Get("low_balance") != "100" || kept.Get("webhook") != "https://hooks.example.com/letterhead" || kept.Get("email") != "billing@example.com" {
		t.Errorf("the form has %v", kept)
	}
	key := filepath.Join(s.node.Config.Data, "notices.key")
	s.must(os.Rename(key, key+".lost"))
	c.get("/dashboard/notices").shows(200, "Settings").lacks("whpk_")
	if _, err := os.Stat(key); !os.IsNotExist(err) {
		t.Errorf("looking at the page made another key: %v", err)
	}
	s.must(os.Rename(key+".lost", key))
	last, err := s.node.Stores.Log.ReadStream(t.Context(), notices.Stream(c.id), eventlog.End, eventlog.Backward, 1)
	s.must(err)
	if e := last[0]; e.Type != "NoticesSet" || e.Metadata.Actor != "account:"+c.id || strings.Contains(string(e.Data), "example.com") {
		t.Errorf("the event is %s %+v %s", e.Type, e.Metadata, e.Data)
	}

	form.Set("low_balance", "")
	form.Set("webhook", "")
	form.Set("email", "")
	c.post("/dashboard/notices", form)
	if kept := c.get("/dashboard/notices").lacks("whpk_").form("/dashboard/notices"); kept.Get("low_balance") != "0" || kept.Get("webhook")+kept.Get("email") != "" {
		t.Errorf("after the settings were removed the form has %v", kept)
	}
}

func TestNotices_WrongField_KeepsWhatWasTyped(t *testing.T) {
	s := start(t, baseURL)
	c := s.signedIn("Acme", plan.Growth)
	for _, f := range []struct{ field, value, problem string }{
		{"low_balance", "-1", "whole number"},
		{"low_balance", "many", "whole number"},
		{"low_balance", "9223372036854775808", "whole number"},
		{"webhook", "http://example.com/", "https URL"},
		{"webhook", "https://127.0.0.1/", "https URL"},
		{"webhook", "https://example.com/" + strings.Repeat("a", 5000), "https URL"},
		{"email", "Jane <jane@example.com>", "one address"},
		{"email", "a@example.com, b@example.com", "one address"},
	} {
		form := c.get("/dashboard/notices").form("/dashboard/notices")
		form.Set(f.field, f.value)
		a := c.post("/dashboard/notices", form).shows(422)
		if p := a.problemOf(f.field); !strings.Contains(p, f.problem) {
			t.Errorf("%s %.40q: the sentence is %q", f.field, f.value, p)
		}
		if kept := a.form("/dashboard/notices").Get(f.field); kept != f.value {
			t.Errorf("%s: the form has %q, want %q", f.field, kept, f.value)
		}
	}
	if kept := c.get("/dashboard/notices").form("/dashboard/notices"); kept.Get("low_balance") != "0" || kept.Get("webhook")+kept.Get("email") != "" {
		t.Errorf("the settings have changed: %v", kept)
	}
}

func TestNotices_GivenUp_IsSentAgain(t *testing.T) {
	s := start(t, baseURL)
	c := s.signedIn("Acme", plan.Growth)
	other := s.signedIn("Bolt", plan.Growth)
	form := c.get("/dashboard/notices").form("/dashboard/notices")
	form.Set("low_balance", "50")
	form.Set("email", "billing@example.com")
	c.post("/dashboard/notices", form)
	c.charge("acme.com", "")
	s.must(s.node.Operations.Reads.CatchUp(t.Context()))
	raised, err := s.node.Operations.Notices.Of(t.Context(), c.id)
	s.must(err)
	if len(raised.Notices) != 1 {
		t.Fatalf("%d notices", len(raised.Notices))
	}
	id := raised.Notices[0].NoticeID
	retry := "/dashboard/notices/" + id + "/retry"
	other.post(retry, nil).shows(404, "There is no such notice")
	c.post("/dashboard/notices/%00/retry", nil).shows(404, "There is no such notice")
	c.get(retry).shows(405, "answers POST only")

	events, err := s.node.Writers.Notices.Append(t.Context(), operator(), c.id, 1, eventschemas.NoticeAttempted{NoticeID: id, Destination: notices.Email, Attempt: 1})
	s.must(err)
	_, err = s.node.Writers.Notices.Append(t.Context(), operator(), c.id, events, eventschemas.NoticeSettled{NoticeID: id, Destination: notices.Email, Attempt: 1, Outcome: notices.DeadLettered, Reason: "rejected"})
	s.must(err)
	rows := c.get("/dashboard/notices").shows(200).rows()
	if len(rows) != 1 || rows[0][1] != "balance of 49, below 50" || rows[0][2] != "email" || !strings.HasPrefix(rows[0][3], "given up after 1 attempt: rejected") || rows[0][4] != "Send again" {
		t.Fatalf("the notice is listed as %q", rows)
	}
	a := c.post(retry, nil)
	if a.status != 303 {
		t.Fatalf("status %d:\n%s", a.status, a.body)
	}
	rows = c.get(a.header.Get("Location")).shows(200, "The notice is sent again").rows()
	if rows[0][4] != "" {
		t.Errorf("the notice is listed as %q", rows)
	}
	if a := c.post(retry, nil); a.status != 303 {
		t.Errorf("sent again twice: status %d", a.status)
	}
}

func TestNotices_FailedPayment_IsListed(t *testing.T) {
	s := start(t, baseURL)
	c := s.signedIn("Acme", plan.Growth)
	form := c.get("/dashboard/notices").form("/dashboard/notices")
	form.Set("email", "billing@example.com")
	c.post("/dashboard/notices", form)
	failed := eventschemas.PaymentFailed{PaymentID: "in_1", Attempt: 1, Money: &eventschemas.Money{Minor: 490000, Currency: "EUR"}}
	_, err := s.node.Writers.Notices.RecordFailedPayment(t.Context(), commands.RecordFailedPayment{Request: operator(), AccountID: c.id, Failed: failed})
	s.must(err)
	s.must(s.node.Operations.Reads.CatchUp(t.Context()))
	rows := c.get("/dashboard/notices").shows(200).rows()
	if len(rows) != 1 || rows[0][1] != "payment of 4,900.00 EUR failed: in_1" || rows[0][2] != "email" {
		t.Errorf("the notice is listed as %q", rows)
	}
}

func TestNotices_ClosedAccount_GetsNone(t *testing.T) {
	s := start(t, baseURL)
	c := s.signedIn("Acme", plan.Growth)
	form := c.get("/dashboard/notices").form("/dashboard/notices")
	form.Set("low_balance", "100")
	// In the moment before closing it has ended the sessions of its people:
	_, err := s.node.Writers.Accounts.Close(t.Context(), commands.CloseAccount{Request: operator(), AccountID: c.id, Reason: "test"})
	s.must(err)
	c.post("/dashboard/notices", form).shows(409, "gets no notices")
}
