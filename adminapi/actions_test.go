package adminapi_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"letterhead/commands"
	"letterhead/domain/brand"
	"letterhead/domain/notices"
	"letterhead/domain/operator"
	"letterhead/eventschemas"
)

func TestAccount_WholeLife(t *testing.T) {
	s := start(t)
	a := s.open("Acme")
	if a.Account.Name != "Acme" || a.Account.Plan != "growth" || a.Credits.Balance != 50 || len(a.Keys) != 2 || !strings.HasPrefix(a.Keys[0].Key, "lh_sk_") {
		t.Fatalf("opened: %+v", a)
	}
	path := "/admin/accounts/" + a.Account.ID
	s.send(request{method: "PUT", path: path + "/plan", body: `{"plan":"starter"}`, token: s.tok[operator.Finance]}).want(http.StatusOK, nil)
	s.send(request{method: "POST", path: path + "/suspend", body: `{"reason":"abuse"}`, token: s.tok[operator.Support]}).want(http.StatusOK, nil)
	var got account
	s.get(path).want(http.StatusOK, &got)
	if got.Account.Plan != "starter" || got.Account.Status != "suspended" || got.Account.Name != "Acme" {
		t.Errorf("suspended: %+v", got)
	}
	s.post(path+"/reinstate", "").want(http.StatusOK, nil)

	// Every action is in the ledger with its actor.
	var page struct {
		Entries []struct {
			Type, Actor string
			RequestID   string `json:"request_id"`
		}
	}
	s.get(path+"/ledger").want(http.StatusOK, &page)
	actors := map[string]string{}
	for _, e := range page.Entries {
		actors[e.Type] = e.Actor
		if e.RequestID == "" {
			t.Errorf("%s has no request id", e.Type)
		}
	}
	var tokens struct{ Tokens []struct{ ID, Scope string } }
	s.get("/admin/tokens").want(http.StatusOK, &tokens)
	byScope := map[string]string{}
	for _, token := range tokens.Tokens {
		byScope[token.Scope] = "operator:" + token.ID
	}
	for event, scope := range map[string]string{"AccountOpened": "admin", "PlanChanged": "finance", "AccountSuspended": "support", "AccountReinstated": "admin"} {
		if actors[event] != byScope[scope] {
			t.Errorf("the actor of %s is %q, want %q", event, actors[event], byScope[scope])
		}
	}

	s.post(path+"/close", "").want(http.StatusOK, nil)
	s.get(path).want(http.StatusOK, &got)
	if got.Account.Status != "closed" || got.Account.Name != "" {
		t.Errorf("closed: %+v", got)
	}
	s.post(path+"/suspend", `{"reason":"test"}`).rejected(http.StatusConflict, "closed")
}

func TestNotices_SetShownAndErased(t *testing.T) {
	s := start(t)
	a := s.open("Acme")
	path := "/admin/accounts/" + a.Account.ID + "/notices"
	type settings struct {
		LowBalance int64 `json:"low_balance"`
		Webhook    string
		Email      string
		Notices    []struct{ State, Destination string }
	}
	want := func(got, want settings) {
		t.Helper()
		if got.LowBalance != want.LowBalance || got.Webhook != want.Webhook || got.Email != want.Email || len(got.Notices) != len(want.Notices) {
			t.Errorf("notices %+v, want %+v", got, want)
		}
	}
	var got settings
	s.get(path).want(http.StatusOK, &got)
	want(got, settings{})
	all := settings{LowBalance: 50, Webhook: "https://hooks.example.com/in?token=t0ken", Email: "ann@customer.example"}
	put := request{method: "PUT", path: path, body: `{"low_balance":50,"webhook":"https://hooks.example.com/in?token=t0ken","email":"ann@customer.example"}`, token: s.tok[operator.Support], key: "set"}
	s.send(put).want(http.StatusOK, &got)
	want(got, all)
	s.send(put).want(http.StatusOK, &got) // the destinations are not kept with the answer
	want(got, settings{LowBalance: 50})
	s.get(path).want(http.StatusOK, &got)
	want(got, all)

	s.post("/admin/accounts/"+a.Account.ID+"/grants", `{"kind":"topup","payment_id":"p1","credits":10,"money":100,"currency":"EUR"}`).want(http.StatusOK, nil)
	s.post("/admin/payments", `{"account":"`+a.Account.ID+`","type":"refund","payment_id":"p1","refund_id":"r1","credits":10}`)
	s.get(path).want(http.StatusOK, &got)
	want(got, all) // 50 is not below 50
	put.key, put.body = "", `{"low_balance":51,"email":"ann@customer.example"}`
	s.send(put).want(http.StatusOK, &got)
	want(got, settings{LowBalance: 51, Email: "ann@customer.example"})
	s.send(request{method: "PATCH", path: path, body: `{"low_balance":60}`}).want(http.StatusOK, &got)
	want(got, settings{LowBalance: 60, Email: "ann@customer.example"})
	s.send(put).want(http.StatusOK, &got)

	for body, part := range map[string]string{
		`{"low_balance":-1}`: "negative", `{"webhook":"http://hooks.example.com/"}`: "https", `{"webhook":"https://10.0.0.1/"}`: "IP address", `{"email":"Ann <ann@customer.example>"}`: "is not an e-mail address",
	} {
		s.send(request{method: "PUT", path: path, body: body}).rejected(http.StatusBadRequest, part)
	}
	s.send(request{method: "PUT", path: "/admin/accounts/none/notices", body: `{}`}).rejected(http.StatusNotFound, "none")
	s.get("/admin/accounts/none/notices").rejected(http.StatusNotFound, "none")
	s.post(path+"/unknown/retry", "").rejected(http.StatusNotFound, "no such notice")

	s.post("/admin/accounts/"+a.Account.ID+"/close", "").want(http.StatusOK, nil)
	s.get(path).want(http.StatusOK, &got)
	want(got, settings{LowBalance: 51})
	s.send(put).rejected(http.StatusConflict, "closed")
}

func TestRetryNotice_DeadLettered_IsDueAgain(t *testing.T) {
	s := start(t)
	id := s.open("Acme").Account.ID
	path := "/admin/accounts/" + id + "/notices"
	s.send(request{method: "PUT", path: path, body: `{"low_balance":50,"webhook":"https://hooks.example.com/","email":"ann@customer.example"}`}).want(http.StatusOK, nil)
	s.post("/admin/accounts/"+id+"/grants", `{"kind":"topup","payment_id":"p1","credits":10,"money":100,"currency":"EUR"}`).want(http.StatusOK, nil)
	spend := commands.ChargeLookup{Request: commands.Request{ID: "r", Actor: "account:" + id}, AccountID: id, BrandID: "7c0c2b1e-5a39-5b8d-9a50-0f4a3f1d2c3b", Domain: "acme.com"}
	for i := range 11 {
		spend.Request.ID = fmt.Sprint("r", i)
		_, err := s.node.Writers.Accounts.ChargeLookup(t.Context(), spend)
		s.must(err)
	}
	var got struct {
		Notices []struct {
			NoticeID           string `json:"notice_id"`
			State, Destination string
			Balance            int64
			Attempts           int64
		}
	}
	s.get(path).want(http.StatusOK, &got)
	if len(got.Notices) != 2 || got.Notices[0].Balance != 49 || got.Notices[0].State != notices.Open {
		t.Fatalf("notices %+v, want one of the balance 49 for each destination", got)
	}
	notice := got.Notices[0].NoticeID
	retry := request{method: "POST", path: path + "/" + notice + "/retry", token: s.tok[operator.Support]}
	s.send(retry).rejected(http.StatusConflict, "dead-lettered")
	by := commands.Request{ID: "w", Actor: "system:notices"}
	_, err := s.node.Writers.Notices.Settle(t.Context(), by, id, eventschemas.NoticeSettled{NoticeID: notice, Destination: notices.Webhook, Outcome: notices.DeadLettered, Reason: "status_410"})
	s.must(err)
	s.get(path).want(http.StatusOK, &got)
	if got.Notices[1].State != notices.DeadLettered {
		t.Fatalf("notices %+v, want the webhook dead-lettered", got)
	}
	s.send(retry).want(http.StatusOK, &got)
	if got.Notices[1].State != notices.Open || got.Notices[0].State != notices.Open {
		t.Errorf("notices %+v, want both open", got)
	}
}

func TestIdempotencyKey_Repeated_DoesNothingTwice(t *testing.T) {
	s := start(t)
	open := request{method: "POST", path: "/admin/accounts", body: `{"name":"Acme"}`, key: "open"}
	var first, second account
	s.send(open).want(http.StatusCreated, &first)
	again := s.send(open).want(http.StatusCreated, &second)
	if second.Account.ID != first.Account.ID || again.header.Get("Idempotency-Replayed") != "true" || second.Keys[0].ID != first.Keys[0].ID {
		t.Errorf("the repeat: %+v", second)
	}
	if second.Keys[0].Key != "" || second.Account.Name != "" {
		t.Errorf("the repeat has a key or a name: %+v", second)
	}
	other := open
	other.body = `{"name":"Other"}`
	s.send(other).rejected(http.StatusBadRequest, "another request")
	if id := s.send(other).header.Get("X-Request-Id"); id == again.header.Get("X-Request-Id") {
		t.Errorf("another request with the same key has the id %s too, from which the ids of what it makes follow", id)
	}
	other.key = ""
	s.send(other).rejected(http.StatusBadRequest, "Idempotency-Key")

	grant := request{method: "POST", path: "/admin/accounts/" + first.Account.ID + "/grants", body: `{"kind":"adjustment","credits":10,"reason":"test"}`, key: "grant"}
	for range 3 {
		var m movement
		if s.send(grant).want(http.StatusOK, &m); m.Balance != 60 {
			t.Errorf("balance %d, want 60", m.Balance)
		}
	}
	// A rejected request leaves its key free.
	rejected := request{method: "POST", path: grant.path, body: `{"kind":"adjustment","credits":-1}`, key: "free"}
	s.send(rejected).rejected(http.StatusBadRequest, "positive")
	rejected.body = `{"kind":"adjustment","credits":1,"reason":"test"}`
	s.send(rejected).want(http.StatusOK, nil)
	// The key of one token is not that of another.
	grant.token = s.tok[operator.Finance]
	var m movement
	if s.send(grant).want(http.StatusOK, &m); m.Balance != 71 {
		t.Errorf("balance %d, want 71", m.Balance)
	}
}

func TestIdempotencyKey_ReusedAfterItsWindow(t *testing.T) {
	s := start(t)
	open := request{method: "POST", path: "/admin/accounts", body: `{"name":"Acme"}`, key: "open"}
	var first, again, second account
	s.send(open).want(http.StatusCreated, &first)
	s.forget()
	// The same request is still recognized, by the ids that follow from it.
	if a := s.send(open).want(http.StatusCreated, &again); again.Account.ID != first.Account.ID || a.header.Get("Idempotency-Replayed") != "" || again.Keys[0].Key != "" {
		t.Errorf("the same request: %+v", again)
	}
	s.forget()
	open.body = `{"name":"Other"}`
	if s.send(open).want(http.StatusCreated, &second); second.Account.ID == first.Account.ID || second.Account.Name != "Other" || second.Keys[0].Key == "" {
		t.Errorf("another request: %+v", second)
	}
	var all struct{ Accounts []account }
	if s.get("/admin/accounts").want(http.StatusOK, &all); len(all.Accounts) != 2 {
		t.Errorf("%d accounts, want 2", len(all.Accounts))
	}
	adjust := request{method: "POST", path: "/admin/accounts/" + first.Account.ID + "/grants", body: `{"kind":"adjustment","credits":10,"reason":"test"}`, key: "adjust"}
	for range 2 {
		var m movement
		if s.send(adjust).want(http.StatusOK, &m); m.Balance != 60 {
			t.Errorf("balance %d, want 60", m.Balance)
		}
		s.forget()
	}
}

func TestErasedNames_RequestRepeatedLate_StayErased(t *testing.T) {
	s := start(t)
	open := request{method: "POST", path: "/admin/accounts", body: `{"name":"Jane Doe"}`, key: "open"}
	var a account
	s.send(open).want(http.StatusCreated, &a)
	path := "/admin/accounts/" + a.Account.ID
	issue := request{method: "POST", path: path + "/keys", body: `{"name":"Jane's key"}`, key: "key"}
	s.send(issue).want(http.StatusCreated, nil)
	s.post(path+"/close", "").want(http.StatusOK, nil)
	s.forget()
	s.send(open).rejected(http.StatusConflict, "closed")
	s.send(issue).rejected(http.StatusConflict, "closed")
	var got account
	if s.get(path).want(http.StatusOK, &got); got.Account.Name != "" {
		t.Errorf("the name of the holder is %q after the account was closed", got.Account.Name)
	}
	var keys struct{ Keys []struct{ Name string } }
	s.get(path+"/keys").want(http.StatusOK, &keys)
	for _, k := range keys.Keys {
		if k.Name != "" {
			t.Errorf("the name of a key is %q after the account was closed", k.Name)
		}
	}
}

func TestKeys_IssuedOnce_RevokedImmediately(t *testing.T) {
	s := start(t)
	id := s.open("Acme").Account.ID
	issue := request{method: "POST", path: "/admin/accounts/" + id + "/keys", body: `{"kind":"publishable","name":"site"}`, key: "k", token: s.tok[operator.Support]}
	var key, again struct{ ID, Key, Last4 string }
	s.send(issue).want(http.StatusCreated, &key)
	s.send(issue).want(http.StatusCreated, &again)
	if !strings.HasPrefix(key.Key, "lh_pk_") || again.Key != "" || again.ID != key.ID || again.Last4 != key.Last4 {
		t.Errorf("issued %+v, again %+v", key, again)
	}
	s.send(request{method: "DELETE", path: "/admin/keys/" + key.ID}).want(http.StatusOK, nil)
	var all struct {
		Keys []struct{ ID, Name, State string }
	}
	s.get("/admin/accounts/"+id+"/keys?state=revoked").want(http.StatusOK, &all)
	if len(all.Keys) != 1 || all.Keys[0].ID != key.ID || all.Keys[0].Name != "site" {
		t.Errorf("revoked keys: %+v", all.Keys)
	}
	s.send(request{method: "DELETE", path: "/admin/keys/missing"}).rejected(http.StatusNotFound, "missing")
}

func TestKeys_Limit_IsSetShownAndRemoved(t *testing.T) {
	s := start(t)
	opened := s.open("Acme")
	id, path := opened.Account.ID, "/admin/accounts/"+opened.Account.ID+"/keys"
	var key, site struct{ ID string }
	s.send(request{method: "POST", path: path, body: `{"kind":"secret"}`, key: "k"}).want(http.StatusCreated, &key)
	s.send(request{method: "POST", path: path, body: `{"kind":"publishable"}`, key: "p"}).want(http.StatusCreated, &site)
	limit := func(keyID, body string) answer {
		return s.send(request{method: "PUT", path: "/admin/keys/" + keyID + "/limit", body: body, token: s.tok[operator.Support]})
	}
	shown := func() (credits int64, period string) {
		var all struct {
			Keys []struct {
				ID    string
				Limit *struct {
					Credits int64
					Period  string
				}
			}
		}
		s.get(path).want(http.StatusOK, &all)
		for _, k := range all.Keys {
			if k.ID == key.ID && k.Limit != nil {
				return k.Limit.Credits, k.Limit.Period
			}
		}
		return 0, ""
	}
	var done struct {
		Account  string
		Repeated bool
	}
	limit(key.ID, `{"limit":1000,"period":"month"}`).want(http.StatusOK, &done)
	if credits, period := shown(); done.Account != id || done.Repeated || credits != 1000 || period != "month" {
		t.Errorf("%+v, shown %d by %s", done, credits, period)
	}
	if limit(key.ID, `{"limit":1000,"period":"month"}`).want(http.StatusOK, &done); !done.Repeated {
		t.Errorf("set again: %+v", done)
	}
	limit(key.ID, `{"period":"day"}`).rejected(http.StatusBadRequest, "field limit is missing")
	limit(key.ID, `{"limit":-1}`).rejected(http.StatusBadRequest, "must be from 1 to")
	limit(key.ID, `{"limit":1,"period":"week"}`).rejected(http.StatusBadRequest, "total, day, month")
	limit(site.ID, `{"limit":1}`).rejected(http.StatusBadRequest, "secret key")
	limit("missing", `{"limit":1}`).rejected(http.StatusNotFound, "missing")
	limit(key.ID, `{"limit":0}`).want(http.StatusOK, nil)
	if credits, _ := shown(); credits != 0 {
		t.Errorf("a limit of %d is shown after it was removed", credits)
	}
}

func TestKeys_Terms_AreListedUntilTheKeyExpires(t *testing.T) {
	s := start(t)
	id := s.open("Acme").Account.ID
	path := "/admin/accounts/" + id + "/keys"
	expires := s.node.Now().Add(time.Hour).UTC().Truncate(time.Second)
	body := fmt.Sprintf(`{"kind":"publishable","name":"shop","expires_at":%q,"scopes":["search"],"origins":["https://Shop.acme.com/","https://*.acme.com"]}`, expires.Format(time.RFC3339))
	type key struct {
		ID, State       string
		ExpiresAt       time.Time `json:"expires_at"`
		Scopes, Origins []string
	}
	terms := func(k key) string { return fmt.Sprint(k.ExpiresAt.Format(time.RFC3339), k.Scopes, k.Origins) }
	want := fmt.Sprint(expires.Format(time.RFC3339), []string{"search"}, []string{"https://*.acme.com", "https://shop.acme.com"})
	var issued, again key
	s.send(request{method: "POST", path: path, body: body, key: "k"}).want(http.StatusCreated, &issued)
	s.send(request{method: "POST", path: path, body: body, key: "k"}).want(http.StatusCreated, &again)
	if terms(issued) != want || terms(again) != want || again.ID != issued.ID {
		t.Errorf("issued %+v, again %+v, want the terms %s", issued, again, want)
	}
	inState := func(state string) (found []key) {
		var all struct{ Keys []key }
		s.get(path+"?kind=publishable&state="+state).want(http.StatusOK, &all)
		return slices.DeleteFunc(all.Keys, func(k key) bool { return k.ID != issued.ID })
	}
	if active := inState("active"); len(active) != 1 || terms(active[0]) != want || active[0].State != "active" {
		t.Errorf("before the expiry: %+v", active)
	}
	s.past.Store(int64(time.Hour))
	if expired := inState("expired"); len(expired) != 1 || terms(expired[0]) != want || expired[0].State != "expired" || len(inState("active")) != 0 {
		t.Errorf("after the expiry: %+v", expired)
	}
	s.past.Store(0)
	for body, want := range map[string]string{
		`{"scopes":["search"]}`:                              "must be publishable",
		`{"kind":"publishable","scopes":["lookup"]}`:         "scope must be logos or search",
		`{"kind":"publishable","origins":["acme.com"]}`:      "write https://host",
		`{"kind":"publishable","origins":["https://*.com"]}`: "different owners",
		`{"expires_at":"2020-01-01T00:00:00Z"}`:              "is in the past",
		`{"expires_at":"tomorrow"}`:                          "tomorrow",
	} {
		s.send(request{method: "POST", path: path, body: body, key: body}).rejected(http.StatusBadRequest, want)
	}
}

func TestNotes_ClosedAccount_AreAddedOnceAndListed(t *testing.T) {
	s := start(t)
	id := s.open("Acme").Account.ID
	path := "/admin/accounts/" + id
	s.send(request{method: "POST", path: path + "/notes", body: `{"text":"no key"}`}).rejected(http.StatusBadRequest, "Idempotency-Key")
	for _, text := range []string{"", "  ", strings.Repeat("x", 501)} {
		s.post(path+"/notes", `{"text":"`+text+`"}`).rejected(http.StatusBadRequest, "1 to 500 bytes")
	}
	s.post("/admin/accounts/none/notes", `{"text":"x"}`).rejected(http.StatusNotFound, "none")
	s.post(path+"/close", "").want(http.StatusOK, nil)
	for range 2 {
		s.send(request{method: "POST", path: path + "/notes", body: `{"text":"Pays by invoice."}`, key: "once", token: s.tok[operator.Support]}).want(http.StatusOK, nil)
	}
	s.post(path+"/notes", `{"text":"Asked for a proof."}`).want(http.StatusOK, nil)
	var page struct {
		Entries []struct{ Type, Note, Actor string }
	}
	s.get(path+"/ledger?type=AccountNoted&order=newest").want(http.StatusOK, &page)
	if len(page.Entries) != 2 || page.Entries[0].Note != "Asked for a proof." || page.Entries[1].Note != "Pays by invoice." || !strings.HasPrefix(page.Entries[1].Actor, "operator:") {
		t.Errorf("notes %+v, want two, the newest first", page.Entries)
	}
}

func TestBrand_Overridden_Withdrawn(t *testing.T) {
	s := start(t)
	s.get("/admin/brands/acme.com").rejected(http.StatusNotFound, "acme.com")
	s.get("/admin/brands/not_a_domain").rejected(http.StatusBadRequest, "")
	s.send(request{method: "PUT", path: "/admin/brands/acme.com/overrides/name", body: `{"value":"Acme","reason":"test"}`}).rejected(http.StatusNotFound, "acme.com")
	var crawl, again struct {
		CrawlID string `json:"crawl_id"`
		Joined  bool
	}
	s.post("/admin/brands/acme.com/crawl", "").want(http.StatusAccepted, &crawl)
	s.post("/admin/brands/www.acme.com/crawl", "").want(http.StatusAccepted, &again)
	if again.CrawlID != crawl.CrawlID || !again.Joined {
		t.Errorf("the second crawl: %+v, want %s joined", again, crawl.CrawlID)
	}
	repeated := request{method: "POST", path: "/admin/brands/example.org/crawl", key: "crawl"}
	s.send(repeated).want(http.StatusAccepted, &crawl)
	s.must(s.node.Writers.Brands.FailCrawl(t.Context(), commands.FailCrawl{Request: s.node.Operator(), Domain: "example.org", CrawlID: crawl.CrawlID, Outcome: brand.Timeout}))
	s.forget()
	if s.send(repeated).want(http.StatusAccepted, &again); again.CrawlID != crawl.CrawlID {
		t.Errorf("the repeat began the crawl %s after %s", again.CrawlID, crawl.CrawlID)
	}
	if state, err := s.node.Writers.Brands.State(t.Context(), "example.org"); err != nil || state.Events() != 2 {
		t.Errorf("the stream has %d events, want one crawl: %v", state.Events(), err)
	}
	s.post("/admin/brands/acme.com/withdraw", "").want(http.StatusOK, nil)
	s.post("/admin/brands/acme.com/crawl", "").rejected(http.StatusConflict, "withdrawn")
	s.get("/admin/brands").want(http.StatusOK, nil)
}

func TestBadInput_NamesTheChange(t *testing.T) {
	s := start(t)
	id := s.open("Acme").Account.ID
	grants := "/admin/accounts/" + id + "/grants"
	for _, c := range []struct {
		method, path, body, part string
		status                   int
	}{
		{"POST", grants, `{"credits":1,`, "JSON object", 400},
		{"POST", grants, `{"credits":1,"payment_id":"p"}{}`, "more than one", 400},
		{"POST", grants, `{"credits":"1","payment_id":"p"}`, "credits", 400},
		{"POST", grants, `{"credit":1}`, "credit", 400},
		{"POST", grants, ``, "missing", 400},
		{"POST", grants, `{"credits":1}`, "payment_id", 400},
		{"POST", grants, `{"credits":1,"kind":"free"}`, "kind", 400},
		{"POST", grants, `{"credits":1,"payment_id":"p","money":5}`, "currency", 400},
		{"POST", grants, `{"credits":1,"payment_id":"p","money":5,"currency":"eur"}`, "ISO 4217", 400},
		{"POST", grants, `{"credits":1,"payment_id":"p","money":5,"currency":"XYZ"}`, "ISO 4217", 400},
		{"POST", "/admin/payments", `{"type":"payment","account":"` + id + `","payment_id":"p","credits":1,"money":5,"currency":"XYZ"}`, "ISO 4217", 400},
		{"POST", grants, `{"credits":1,"payment_id":"p","tax":5}`, "ax", 400},
		{"POST", grants, `{"credits":9223372036854775807,"payment_id":"p"}`, "", 400},
		{"POST", grants, `{"reason":"` + strings.Repeat("x", 70_000) + `"}`, "bytes", 413},
		{"POST", "/admin/accounts", `{"name":"Ac\u202eme"}`, "The field name has a hidden character, U+202E", 400},
		{"POST", "/admin/accounts/" + id + "/keys", `{"name":"a\nb"}`, "U+000A", 400},
		{"POST", "/admin/tokens", `{"name":"a\u2066b","scope":"read"}`, "U+2066", 400},
		{"POST", "/admin/accounts/missing/grants", `{"credits":1,"payment_id":"p"}`, "no account missing", 404},
		{"GET", "/admin/accounts?plan=gold", "", "gold", 400},
		{"GET", "/admin/accounts?sort=name", "", "sort", 400},
		{"GET", "/admin/accounts?limit=0", "", "limit", 400},
		{"GET", "/admin/accounts?limit=1&limit=2", "", "more than once", 400},
		{"GET", "/admin/accounts?page=2", "", "page", 400},
		{"GET", "/admin/accounts?status=%zz", "", "encoded", 400},
		{"GET", "/admin/accounts?cursor=AAAA", "", "cursor", 400},
		{"GET", "/admin/accounts/" + id + "/ledger?type=Nothing", "", "type", 400},
		{"GET", "/admin/accounts/" + id + "/ledger?from=2026-12&to=2026-11", "", "after", 400},
		{"GET", "/admin/accounts/" + id + "/ledger?cursor=-1", "", "cursor", 400},
		{"GET", "/admin/accounts/" + id + "/ledger?payment_id=%00", "", "UTF-8", 400},
		{"GET", "/admin/accounts/" + id + "/statements/2026", "", "month", 400},
		{"POST", "/admin/accounts/" + id + "/reversals", `{"request_id":"none","reason":"test"}`, "not charged", 404},
		{"POST", "/admin/accounts/" + id + "/close", `{"force":true}`, "force", 400},
		{"PUT", "/admin/accounts/" + id + "/plan", `{"plan":"gold"}`, "gold", 400},
	} {
		a := s.send(request{method: c.method, path: c.path, body: c.body})
		var body struct{ Error struct{ Message string } }
		if err := json.Unmarshal([]byte(a.text), &body); err != nil || a.status != c.status || !strings.Contains(body.Error.Message, c.part) {
			t.Errorf("%s %s %.60s: %d %s, want %d with %q", c.method, c.path, c.body, a.status, a.text, c.status, c.part)
		}
	}
	form := s.send(request{method: "POST", path: grants, body: "credits=1", header: map[string]string{"Content-Type": "application/x-www-form-urlencoded"}})
	form.rejected(http.StatusUnsupportedMediaType, "application/json")
	var got account
	if s.get("/admin/accounts/"+id).want(http.StatusOK, &got); got.Credits.Balance != 50 {
		t.Errorf("balance %d after bad requests, want 50", got.Credits.Balance)
	}
}

// Rule 13.
func TestReasons_EmailAddress_IsRefusedWithoutAnEvent(t *testing.T) {
	s := start(t)
	id, closed := s.open("Acme").Account.ID, s.open("Closed").Account.ID
	s.post("/admin/accounts/"+closed+"/close", "").want(http.StatusOK, nil)
	name := "Acme"
	_, err := s.node.Writers.Brands.ImportBrand(t.Context(), commands.ImportBrand{Request: s.node.Operator(), Domain: "acme.com", Source: "catalog 1",
		Record: eventschemas.Record{Name: &name, Company: eventschemas.EmptyCompany()}})
	s.must(err)
	s.must(s.node.Writers.Billing.Record(t.Context(), s.node.Operator(), eventschemas.BillingReported{
		Processor: "stripe", EventID: "evt_1", Type: "customer.subscription.created", Kind: "subscription", Subject: "sub_1", State: "active", Customer: "cus_1",
	}))
	before, err := s.node.Stores.Log.Head(t.Context())
	s.must(err)
	for _, c := range []struct{ method, path, body, field string }{
		{"POST", "/admin/accounts/" + id + "/notes", `{"text":"asked by jörg@müller.de"}`, "text"},
		{"POST", "/admin/accounts/" + id + "/suspend", `{"reason":"asked by <ann@example.com>"}`, "reason"},
		{"POST", "/admin/accounts/" + id + "/grants", `{"credits":1,"kind":"adjustment","reason":"ann@example.com"}`, "reason"},
		{"POST", "/admin/accounts/" + closed + "/breakage", `{"policy":"ann@example.com agreed"}`, "policy"},
		{"POST", "/admin/billing/inbox/stripe:evt_1/dismiss", `{"reason":"ann@example.com paid"}`, "reason"},
		{"PUT", "/admin/brands/acme.com/overrides/name", `{"value":"Acme Inc.","reason":"ann@example.com asked"}`, "reason"},
	} {
		s.ids++
		s.send(request{method: c.method, path: c.path, body: c.body, key: fmt.Sprintf("key-%d", s.ids)}).
			rejected(http.StatusBadRequest, "The field "+c.field+" holds an e-mail address. Events are permanent and cannot be erased: name the person by an id.")
	}
	if after, err := s.node.Stores.Log.Head(t.Context()); err != nil || after != before {
		t.Errorf("the log ends at %d (%v), want %d", after, err, before)
	}
}
