package dashboard_test

import (
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"letterhead/commands"
	"letterhead/domain/account"
	"letterhead/domain/plan"
	"letterhead/domain/text"
	"letterhead/internal/apikey"
	"letterhead/internal/eventlog"
	"letterhead/internal/testmust"
	"letterhead/internal/testwait"
	"letterhead/operations"
	"letterhead/projections/keys"
)

var keyText = regexp.MustCompile(`lh_[sp]k_[0-9A-Za-z]{38}`)

// me returns the status of a request with a key.
func (c *customer) me(key string) int {
	c.t.Helper()
	r, err := http.NewRequestWithContext(c.t.Context(), http.MethodGet, c.url+"/v1/me", nil)
	c.must(err)
	r.Header.Set("Authorization", "Bearer "+key)
	response, err := c.client.Do(r)
	c.must(err)
	c.must(response.Body.Close())
	return response.StatusCode
}

func TestKeys_IssuedAndRevoked_TakeEffectAtOnce(t *testing.T) {
	s := start(t, baseURL)
	c := s.signedIn("Acme", plan.Growth)
	s.advance(time.Minute) // the key is newer than those of a new account
	form := c.get("/dashboard/keys").shows(200, "Issue a key").form("/dashboard/keys")
	form.Set("name", " Build server <1> ")
	form.Set("kind", "secret")
	issued := c.post("/dashboard/keys", form).shows(200, "The key is issued", "Build server <1>", "only this once")
	key := keyText.FindString(issued.body)
	if status := c.me(key); status != http.StatusOK {
		t.Fatalf("a request with %q: status %d", key, status)
	}

	repeated := c.post("/dashboard/keys", form).shows(200, "issued before", key[len(key)-4:])
	repeated.lacks(key)
	list := c.get("/dashboard/keys").shows(200).lacks(key)
	rows := list.rows()
	if len(rows) != 3 { // those of a new account, and one
		t.Fatalf("there are %d keys", len(rows))
	}
	if row := rows[0]; row[0] != "Build server <1>" || row[1] != "secret" || row[2] != "…"+key[len(key)-4:] || row[3] != "2026-11-21 12:01 UTC" || row[5] != "valid" {
		t.Errorf("the key is listed as %q", row)
	}

	path := list.link("Revoke Build server")
	c.get(path).shows(200, "Revoke the key Build server <1>?", "answer 401")
	if status := c.me(key); status != http.StatusOK {
		t.Errorf("before the confirmation: status %d", status)
	}
	a := c.post(path, c.get(path).form(path))
	if a.status != http.StatusSeeOther {
		t.Fatalf("status %d", a.status)
	}
	if status := c.me(key); status != http.StatusUnauthorized {
		t.Errorf("after it: status %d", status)
	}
	done := c.get(a.header.Get("Location")).shows(200, "The key Build server <1> is revoked", "Revoked and expired keys")
	if rows := done.rows(); len(rows) != 3 || !strings.HasPrefix(rows[2][5], "revoked 2026-11-21") {
		t.Errorf("the keys are listed as %q", rows)
	}
	if a := c.post(path, nil); a.status != http.StatusSeeOther {
		t.Errorf("revoked again: status %d", a.status)
	}
}

func TestKeys_Limit_IsSetShownAndRemoved(t *testing.T) {
	s := start(t, baseURL)
	c := s.signedIn("Acme", plan.Growth)
	all := testmust.Get(s.node.Models.Keys.List(t.Context(), c.id))(t)
	id := all[slices.IndexFunc(all, func(k keys.Listed) bool { return k.Kind == "secret" })].ID
	path := "/dashboard/keys/" + id + "/limit"
	set := func(limit, period string) answer {
		form := c.get("/dashboard/keys").shows(200).form(path)
		form.Set("limit", limit)
		form.Set("period", period)
		return c.post(path, form)
	}
	if a := set("1000", "month"); a.status != http.StatusSeeOther {
		t.Fatalf("status %d: %s", a.status, a.body)
	}
	c.get("/dashboard/keys").shows(200, "0 of 1,000 credits used (month)")
	for limit, says := range map[string]string{"many": "whole number of credits", "-1": "must be from 1 to"} {
		set(limit, "month").shows(422, "The limit is not changed", says)
	}
	set("5", "week").shows(422, "total, day, month")
	set("", "month")
	c.get("/dashboard/keys").shows(200).lacks("credits used")
}

func TestKeys_Events_NameTheAccountAndTheSession(t *testing.T) {
	s := start(t, baseURL)
	c := s.signedIn("Acme", plan.Growth)
	form := c.get("/dashboard/keys").form("/dashboard/keys")
	form.Set("name", "ci")
	c.post("/dashboard/keys", form).shows(200, "The key is issued")
	last, err := s.node.Stores.Log.ReadStream(t.Context(), account.Stream(c.id), eventlog.End, eventlog.Backward, 1)
	s.must(err)
	e := last[0]
	open, err := s.node.Models.Sessions.List(t.Context(), c.id, s.now())
	s.must(err)
	session := open[0].ID
	if e.Type != "KeyIssued" || e.Metadata.Actor != "account:"+c.id || e.Metadata.CorrelationID != session || strings.Contains(string(e.Data), `"ci"`) {
		t.Errorf("the event is %s %+v %s", e.Type, e.Metadata, e.Data)
	}
}

func TestKeys_WrongField_KeepsWhatWasTyped(t *testing.T) {
	s := start(t, baseURL)
	c := s.signedIn("Acme", plan.Growth)
	for _, f := range []struct{ name, kind, nameProblem, kindProblem string }{
		{"", "secret", "Give the key a name", ""},
		{"  ", "publishable", "Give the key a name", ""},
		{strings.Repeat("ä", 101), "secret", "101 characters", ""},
		{"a\x00b", "secret", "U+0000", ""},
		{"Ac\u202eme", "secret", "hidden character, U+202E", ""},
		{"a\xffb", "secret", "UTF-8", ""},
		{"ci", "operator", "", "Choose secret or publishable"},
		{"", "", "Give the key a name", "Choose secret or publishable"},
	} {
		form := c.get("/dashboard/keys").form("/dashboard/keys")
		form.Set("name", f.name)
		form.Set("kind", f.kind)
		a := c.post("/dashboard/keys", form).shows(422)
		if p := a.problemOf("name"); (p == "") != (f.nameProblem == "") || !strings.Contains(p, f.nameProblem) {
			t.Errorf("%q: the sentence about the name is %q", f.name, p)
		}
		if p := a.problemOf("kind"); (p == "") != (f.kindProblem == "") || !strings.Contains(p, f.kindProblem) {
			t.Errorf("%q: the sentence about the kind is %q", f.kind, p)
		}
		kept := a.form("/dashboard/keys")
		if text.CheckShown(f.name) == nil && kept.Get("name") != strings.TrimSpace(f.name) {
			t.Errorf("the name %q is kept as %q", f.name, kept.Get("name"))
		}
		if f.kindProblem == "" && kept.Get("kind") != f.kind {
			t.Errorf("the kind %q is kept as %q", f.kind, kept.Get("kind"))
		}
	}
	if n := len(c.get("/dashboard/keys").rows()); n != 2 {
		t.Errorf("the account has %d keys, want those of its opening", n)
	}
}

func TestKeys_WithTerms_AreLimitedAndExpire(t *testing.T) {
	s := start(t, baseURL)
	c := s.signedIn("Acme", plan.Growth)
	s.advance(time.Minute)
	form := c.get("/dashboard/keys").form("/dashboard/keys")
	form.Set("name", "shop")
	form.Set("kind", "publishable")
	form.Set("expires", "2026-11-22")
	form["scope"] = []string{"search"}
	form.Set("origins", "https://Shop.acme.com/\r\nhttps://*.acme.org")
	issued := c.post("/dashboard/keys", form).shows(200, "The key is issued", "Expires2026-11-23 00:00 UTC", "Forsearch only", "https://*.acme.orghttps://shop.acme.com")
	key := keyText.FindString(issued.body)
	list := c.get("/dashboard/keys")
	if row := list.rows()[0]; row[1] != "publishable search only https://*.acme.org https://shop.acme.com" || row[5] != "valid until 2026-11-23 00:00 UTC" {
		t.Errorf("the key is listed as %q", row)
	}
	c.get(list.link("Revoke shop")).shows(200, "Expires2026-11-23 00:00 UTC")
	search := func(origin string) int {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, c.url+"/v1/search?q=acme", nil)
		s.must(err)
		r.Header.Set("Authorization", "Bearer "+key)
		r.Header.Set("Origin", origin)
		response, err := c.client.Do(r)
		s.must(err)
		s.must(response.Body.Close())
		return response.StatusCode
	}
	if allowed, rejected := search("https://shop.acme.com"), search("https://other.example"); allowed != http.StatusOK || rejected != http.StatusForbidden {
		t.Errorf("a search from the key's origin: status %d, from another one: %d", allowed, rejected)
	}
	s.advance(36 * time.Hour)
	if status := search("https://shop.acme.com"); status != http.StatusUnauthorized {
		t.Errorf("after the last day: status %d", status)
	}
	rows := c.get("/dashboard/keys").shows(200, "Revoked and expired keys").rows()
	if row := rows[len(rows)-1]; row[0] != "shop" || row[5] != "expired 2026-11-23 00:00 UTC" {
		t.Errorf("the expired key is listed as %q", row)
	}
}

func TestKeys_WrongTerms_AreExplained(t *testing.T) {
	s := start(t, baseURL)
	c := s.signedIn("Acme", plan.Growth)
	for _, f := range []struct{ kind, expires, scopes, origins, field, problem string }{
		{"secret", "soon", "logos search", "", "expires", "2027-01-31"},
		{"secret", "2026-11-01", "logos search", "", "expires", "in the past"},
		{"secret", "2926-11-01", "logos search", "", "expires", "100 years"},
		{"secret", "", "logos search", "https://acme.com", "origins", "A secret key has no origins"},
		{"publishable", "", "", "", "scopes", "at least one"},
		{"publishable", "", "logos everything", "", "scopes", "must be logos or search"},
		{"publishable", "", "logos", "acme.com", "origins", "has no scheme"},
		{"publishable", "", "logos", strings.Repeat("https://acme.com ", 17), "origins", "must be at most 16"},
	} {
		form := c.get("/dashboard/keys").form("/dashboard/keys")
		form.Set("name", "ci")
		form.Set("kind", f.kind)
		form.Set("expires", f.expires)
		form["scope"] = strings.Fields(f.scopes)
		form.Set("origins", f.origins)
		a := c.post("/dashboard/keys", form).shows(422)
		if p := a.problemOf(f.field); !strings.Contains(p, f.problem) {
			t.Errorf("%+v: the sentence is %q", f, p)
		}
		if kept := a.form("/dashboard/keys"); kept.Get("expires") != f.expires || kept.Get("origins") != strings.TrimSpace(f.origins) {
			t.Errorf("%+v: the form has %v", f, kept)
		}
	}
	if n := len(c.get("/dashboard/keys").rows()); n != 2 {
		t.Errorf("the account has %d keys, want those of its opening", n)
	}
}

func TestKeys_OfAnotherAccount_AreNotFound(t *testing.T) {
	s := start(t, baseURL)
	c, other := s.signedIn("Acme", plan.Growth), s.signedIn("Bolt", plan.Growth)
	path := other.get("/dashboard/keys").link("Revoke")
	for _, path := range []string{path, "/dashboard/keys/nothing/revoke", "/dashboard/keys/%00/revoke", "/dashboard/keys/%ff/revoke"} {
		c.get(path).shows(404, "There is no such key")
		c.post(path, nil).shows(404, "There is no such key")
	}
	if rows := other.get("/dashboard/keys").rows(); len(rows) != 2 || rows[0][5] != "valid" || rows[1][5] != "valid" {
		t.Errorf("the keys of the other account are %q", rows)
	}
}

func TestKeys_AccountThatCannotHaveMore_SaysWhy(t *testing.T) {
	s := start(t, baseURL)
	c := s.signedIn("Acme", plan.Growth)
	issue := func() answer {
		form := c.get("/dashboard/keys").form("/dashboard/keys")
		form.Set("name", "one more")
		return c.post("/dashboard/keys", form)
	}
	for range account.MaxKeys - 2 {
		_, err := s.node.Operations.Accounts.IssueKey(t.Context(), operator(), c.id, operations.NewKey{Kind: apikey.Secret})
		s.must(err)
	}
	if a := issue().shows(409, fmt.Sprint(account.MaxKeys), "Revoke one"); a.form("/dashboard/keys").Get("name") != "one more" {
		t.Error("the name is not kept")
	}
	// In the moment before closing it has ended the sessions of its people:
	_, err := s.node.Writers.Accounts.Close(t.Context(), commands.CloseAccount{Request: operator(), AccountID: c.id, Reason: "test"})
	s.must(err)
	s.must(s.node.Operations.Reads.CatchUp(t.Context()))
	issue().shows(409, "This account is closed", "cannot get keys")
}

func TestKeys_Used_ShowWhen(t *testing.T) {
	s := start(t, baseURL)
	c := s.signedIn("Acme", plan.Growth)
	s.advance(time.Hour)
	key, err := s.node.Operations.Accounts.IssueKey(t.Context(), operator(), c.id, operations.NewKey{Kind: apikey.Secret, Name: "ci"})
	s.must(err)
	if status := c.me(key.Key); status != http.StatusOK {
		t.Fatalf("status %d", status)
	}
	if _, used := testwait.Until(testwait.Timeout, func() bool { return c.get("/dashboard/keys").rows()[0][4] == "2026-11-21 13:00 UTC" }); !used {
		t.Errorf("the keys are %q", c.get("/dashboard/keys").rows())
	}
	request := c.charge("acme.com", key.ID)
	if a := c.get("/dashboard/ledger/" + request); !strings.Contains(a.text(), "ci, secret, ends with "+key.Last) {
		t.Errorf("the key is not named:\n%s", a.text())
	}
	_, err = s.node.Writers.Accounts.Suspend(t.Context(), commands.SuspendAccount{Request: operator(), AccountID: c.id, Reason: "overdue"})
	s.must(err)
	s.must(s.node.Operations.Reads.CatchUp(t.Context()))
	c.get("/dashboard/keys").shows(200, "This account is suspended")
}
