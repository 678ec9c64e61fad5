package console_test

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"maps"
	"net/http"
	"net/url"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"letterhead/commands"
	"letterhead/console"
	"letterhead/dashboard/site"
	"letterhead/dashboard/site/sitetest"
	"letterhead/domain/account"
	"letterhead/domain/billing"
	"letterhead/domain/brand"
	"letterhead/domain/operator"
	"letterhead/eventschemas"
	"letterhead/internal/eventlog/esdb/esdbtest"
	"letterhead/internal/figures"
	"letterhead/internal/sqlstore/sqlstoretest"
	"letterhead/internal/testmust"
	"letterhead/internal/testservices"
	"letterhead/internal/testwait"
	"letterhead/operations"
	"letterhead/projections/engine"
	"letterhead/projections/operators"
)

// pages are those that need a token.
var pages = []string{"/", "/projections/accounts", "/accounts", "/accounts/a", "/accounts/a/ledger", "/accounts/a/payments", "/accounts/a/people", "/accounts/a/actions", "/accounts/a/replay", "/accounts/a/requests/r", "/accounts/a/statements/2026-11", "/payments", "/payments/p", "/inbox", "/books", "/books/revenue", "/brands", "/brands/acme.com", "/crawls", "/operators", "/actions", "/search?q=acme"}

func TestSignIn_Link_SignsInOnce(t *testing.T) {
	s := start(t)
	p := s.browser()
	link := s.link("Ann", operator.Support)
	path := "/sign-in?token=" + link
	for range 3 { // as previews of a mail do
		if a := p.get(path).shows(200, "Sign in as an operator"); len(a.header["Set-Cookie"]) > 0 {
			t.Errorf("opening the link sets %v", a.header["Set-Cookie"])
		}
	}
	form := p.get(path).form("/sign-in")
	a := p.post("/sign-in", form)
	a.leadsTo("/")
	cookie := a.header.Get("Set-Cookie")
	for _, want := range []string{"letterhead_operator=", "Path=/", "HttpOnly", "SameSite=Lax", "Expires="} {
		if !strings.Contains(cookie, want) {
			t.Errorf("the cookie %q lacks %s", cookie, want)
		}
	}
	if page := p.get("/").shows(200, "Read models"); !strings.Contains(page.body, `<span class="account">Ann</span>`) || !strings.Contains(page.body, "Signed in with the scope support") {
		t.Errorf("the page does not say who is signed in:\n%s", page.body)
	}
	other := s.browser()
	if a := other.post("/sign-in", form).shows(410, "used before", "admin login-link"); len(a.header["Set-Cookie"]) > 0 {
		t.Errorf("a used link sets %v", a.header["Set-Cookie"])
	}
	other.get("/").shows(401, "not signed in")
	other.post("/sign-in", url.Values{"token": {"nonsense"}}).shows(404, "not known")
	other.post("/sign-in", url.Values{}).shows(404, "not known")
	late := s.link("Bo", operator.Read)
	s.ahead.Add(int64(operator.LinkLifetime))
	other.post("/sign-in", url.Values{"token": {late}}).shows(410, "expired")
}

func TestSignIn_BehindTLS_CookieIsOfThisHostOnly(t *testing.T) {
	s := start(t)
	tls := func(method, path string, form url.Values, cookie string) answer {
		header := http.Header{"X-Forwarded-Proto": {"https"}, "Sec-Fetch-Site": {"same-origin"}}
		if cookie != "" {
			header.Set("Cookie", cookie)
		}
		return s.browser().send(method, path, form, header)
	}
	a := tls(http.MethodPost, "/sign-in", url.Values{"token": {s.link("Ann", operator.Read)}}, "")
	a.leadsTo("/")
	cookie := a.header.Get("Set-Cookie")
	if !strings.HasPrefix(cookie, "__Host-letterhead_operator=") || !strings.Contains(cookie, "; Path=/;") || !strings.Contains(cookie, "; Secure") || strings.Contains(cookie, "Domain") {
		t.Errorf("the cookie is %q", cookie)
	}
	session, _, _ := strings.Cut(strings.TrimPrefix(cookie, "__Host-"), ";")
	tls(http.MethodGet, "/", nil, "__Host-"+session).shows(200, "Read models")
	tls(http.MethodGet, "/", nil, session).shows(401)
}

func TestPages_WithoutToken_Are401AndRevealNothing(t *testing.T) {
	s := start(t)
	p := s.browser()
	for _, path := range pages {
		p.get(path).shows(401, "You are not signed in", "letterhead admin login-link").lacks("/sign-out", "<nav")
	}
	if a := p.send(http.MethodGet, "/", nil, http.Header{"Hx-Request": {"true"}}); a.header.Get("HX-Refresh") != "true" {
		t.Errorf("htmx would replace a part of the page by the answer: %v", a.header)
	}
	p.get("/nothing").shows(404, "does not exist")
	p.get("/dashboard").shows(404, "does not exist")
}

func TestPages_AnotherHost_AreMisdirected(t *testing.T) {
	p := start(t).browser()
	for _, path := range []string{"/", "/sign-in", "/admin/accounts"} {
		if a := p.send(http.MethodGet, path, nil, http.Header{"Host": {"evil.example"}}); a.status != http.StatusMisdirectedRequest {
			t.Errorf("%s of another host: status %d, want %d", path, a.status, http.StatusMisdirectedRequest)
		}
	}
}

func TestForms_OfAnotherSite_ChangeNothing(t *testing.T) {
	s := start(t)
	id := s.account("Acme")
	p := s.signedIn(operator.Admin)
	page, action := "/accounts/"+id+"/actions", "/accounts/"+id+"/suspend"
	form := p.get(page).form(action)
	forged := url.Values{"reason": {"operator"}, "confirmed": {"true"}}
	for _, header := range []http.Header{{"Sec-Fetch-Site": {"cross-site"}}, {"Origin": {"https://evil.example"}}, {"Origin": {"null"}}} {
		p.send(http.MethodPost, action, forged, header).shows(403, "another site", "Nothing was changed")
	}
	p.get(page).shows(200).lacks("The account is suspended")
	// Over plain HTTP to another machine, browsers send Origin: null; the token of the form is the proof then.
	form.Set("reason", "test")
	form.Set("confirmed", "true")
	p.send(http.MethodPost, action, form, http.Header{"Origin": {"null"}}).leadsTo(page + "?done=suspend")
	p.get(page+"?done=suspend").shows(200, "The account is suspended.")
}

func TestOperatorLink_SignsAnotherOperatorIn(t *testing.T) {
	s := start(t)
	admin, other := s.signedIn(operator.Admin), s.browser()
	admin.submit("/operators", "/operators/links", map[string]string{"operator": strings.Repeat("x", 201), "scope": "read"}).shows(400).beside("operator", "takes 1 to 200 bytes")
	made := admin.submit("/operators", "/operators/links", map[string]string{"operator": "Ben", "scope": "read"}).shows(200, "shown only now")
	_, after, _ := strings.Cut(made.body, "/sign-in?token=")
	token, _, _ := strings.Cut(after, "<")
	other.post("/sign-in", url.Values{"token": {token}}).leadsTo("/")
	admin.get("/operators").shows(200, "Ben")
	other.get("/operators").shows(403, "You may not do this")
}

func TestSignOut_EndsTheTokenEverywhere(t *testing.T) {
	s := start(t)
	p := s.signedIn(operator.Read)
	form := p.get("/").form("/sign-out")
	p.post("/sign-out", form).leadsTo("/sign-in?signed_out")
	p.get("/sign-in?signed_out").shows(200, "You have signed out")
	p.get("/accounts").shows(401, "not signed in")

	q, admin := s.signedIn(operator.Read), s.signedIn(operator.Admin)
	q.get("/accounts").shows(200)
	valid, err := s.node.Operations.Tokens.List(t.Context(), operators.Selection{State: operators.Active}, 10)
	s.must(err)
	reader := valid[slices.IndexFunc(valid, func(k operations.Token) bool { return k.Scope == operator.Read })].ID
	admin.submit("/operators", "/operators/"+reader+"/revoke", nil).leadsTo("/operators?done=token")
	admin.get("/operators").shows(200, "this session").lacks(reader)
	admin.get("/operators?state=ended").shows(200, "revoked", "Revoked by", "operator:").lacks("this session")
	admin.get("/operators?state=lost").shows(400, "state is one of", "Show the valid tokens")
	admin.get("/operators?state=ended&cursor="+reader).shows(200, "Newest tokens")
	q.get("/accounts").shows(401, "not signed in")
}

func TestAccount_Operator_GrantsSuspendsAndIssues(t *testing.T) {
	s := start(t)
	id := s.account("Acme")
	p := s.signedIn(operator.Admin)
	p.get("/accounts?sort=-balance").shows(200, "Acme")
	p.get("/accounts?sort=nonsense").shows(400, "sort is one of", "Show all accounts")
	page := "/accounts/" + id
	p.get(page).shows(200, "50 credits", "Free credits")

	// A rejected form keeps its values, and has the reason.
	a := p.submit(page+"/actions", page+"/grant", map[string]string{"credits": "1000", "kind": "topup"}).shows(400)
	if got := a.form(page + "/grant"); got.Get("credits") != "1000" || got.Get("kind") != "topup" {
		t.Errorf("the rejected form has %v", got)
	}
	wrong := p.submit(page+"/actions", page+"/grant", map[string]string{"credits": "many", "reason": "a gift"}).shows(400, `not "many"`)
	wrong.beside("credits", "Give a whole number")
	if got := wrong.form(page + "/grant"); got.Get("credits") != "many" || got.Get("reason") != "a gift" {
		t.Errorf("the rejected form has %v", got)
	}
	a.beside("payment_id", "This field")
	fields := map[string]string{"credits": "1000", "kind": "topup", "payment_id": "pay_1", "money": "4900", "currency": "EUR"}
	form := p.get(page + "/actions").form(page + "/grant")
	form.Set("confirmed", "true")
	for name, value := range fields {
		form.Set(name, value)
	}
	p.post(page+"/grant", form).leadsTo(page + "/actions?done=grant")
	p.post(page+"/grant", form).leadsTo(page + "/actions?done=grant") // it was sent twice
	p.get(page+"?done=grant").shows(200, "The credits are granted.", "1,050 credits", "Credits bought 49.00 EUR, pay_1")

	again := p.get(page + "/actions").form(page + "/grant")
	again.Set("credits", "7")
	again.Set("reason", "a gift")
	asks := p.post(page+"/grant", again).form(page + "/grant")
	yes, back := maps.Clone(asks), maps.Clone(asks)
	yes.Set("confirmed", "true")
	back.Set("change", "true")
	p.post(page+"/grant", yes).leadsTo(page + "/actions?done=grant")
	second := p.post(page+"/grant", p.post(page+"/grant", back).form(page+"/grant")).form(page + "/grant")
	second.Set("confirmed", "true")
	p.post(page+"/grant", second).leadsTo(page + "/actions?done=grant")
	p.get(page).shows(200, "1,057 credits")

	if reason := p.get(page + "/actions").form(page + "/suspend").Get("reason"); reason != "" {
		t.Errorf("the reason of a suspension is %q before it is typed", reason)
	}
	p.submit(page+"/actions", page+"/plan", map[string]string{"plan": "custom"}).leadsTo(page + "/actions?done=plan")
	p.submit(page+"/actions", page+"/suspend", map[string]string{"reason": "fraud"}).leadsTo(page + "/actions?done=suspend")
	p.get(page).shows(200, "The account is suspended", "custom")
	p.get(page+"/ledger").shows(200, "Account suspended fraud by Ann")
	p.submit(page+"/actions", page+"/reinstate", nil).leadsTo(page + "/actions?done=reinstate")

	issued := p.submit(page+"/people", page+"/key", map[string]string{"name": "Build server", "kind": "publishable"}).shows(200, "The key is issued", "lh_pk_")
	if !strings.Contains(issued.body, "readonly") {
		t.Error("the key cannot be copied")
	}
	p.get(page+"/people").shows(200, "Build server").lacks("lh_pk_")
	p.submit(page+"/people", page+"/link", map[string]string{"person": "p2"}).shows(200, "https://brands.example.com/dashboard/sign-in?account="+id)
	p.submit(page+"/people", page+"/link", map[string]string{"person": "Ann Smith"}).shows(400, "lower-case")

	p.submit(page+"/people", page+"/email", map[string]string{"email": "ann"}).shows(400).beside("email", "such as ann@example.com")
	p.submit(page+"/people", page+"/email", map[string]string{"email": "a@b.com", "person": ".."}).shows(400).
		beside("email-person", "Give an id")
	p.submit(page+"/people", page+"/email", map[string]string{"person": "Ann", "email": "ann@example.com"}).shows(400).beside("email-person", "must not be a name")
	p.submit(page+"/people", page+"/email", map[string]string{"person": "", "email": "ann@example.com"}).shows(400).beside("email-person", "such as owner")
	p.submit(page+"/people", page+"/email", nil).shows(400).beside("email", "Give an e-mail address")
	p.submit(page+"/people", page+"/email", map[string]string{"person": "p2", "email": "Ann@example.com"}).leadsTo(page + "/people?done=email")
	p.get(page+"/people?done=email").shows(200, "The address is set.", "p2", "ann@example.com")
	s.signedIn(operator.Read).get(page + "/people").shows(200).lacks("ann@example.com")
	p.submit(page+"/people", page+"/unemail", nil).leadsTo(page + "/people?done=unemail")
	p.get(page+"?done=unemail").shows(200, "The address is removed.").lacks("ann@example.com")
	p.submit(page+"/people", page+"/signout", map[string]string{"person": "Ann"}).shows(400).beside("signout-person", "must not be a name")
	p.submit(page+"/people", page+"/signout", map[string]string{"person": "p2"}).leadsTo(page + "/people?done=signout")
	p.submit(page+"/actions", page+"/note", map[string]string{"text": " "}).shows(400).beside("text", "takes 1 to 500 bytes")
	long := strings.Repeat("é", 251)
	if a := p.submit(page+"/actions", page+"/note", map[string]string{"text": long}).shows(400); a.form(page+"/note").Get("text") != long {
		t.Error("the rejected note is lost")
	}
	p.submit(page+"/actions", page+"/note", map[string]string{"text": "Pays by invoice\nfrom 2027 on."}).leadsTo(page + "/actions?done=note")
	p.get(page+"?done=note").shows(200, "The note is added.", "Pays by invoice", "Ann")
	p.get(page+"/actions").shows(200, "Account noted", "Account suspended")
	p.submit(page+"/people", page+"/limit", map[string]string{"limit": "-5", "period": "day"}).shows(400).beside("limit", "must be from 1 to")
	p.submit(page+"/people", page+"/limit", map[string]string{"limit": "500", "period": "day"}).leadsTo(page + "/people?done=limit")
	p.get(page+"/people?done=limit").shows(200, "The limit of the key is changed.", "0 of 500 credits used (day)")

	charge := commands.Request{ID: "req_1", Actor: "account:" + id}
	_, err := s.node.Writers.Accounts.ChargeLookup(t.Context(), commands.ChargeLookup{Request: charge, AccountID: id, BrandID: "b", Domain: "acme.com"})
	s.must(err)
	p.get(page).shows(200, "Look-up of acme.com", "1,056 credits")
	asked := p.post(page+"/reverse", p.get(page+"/ledger").form(page+"/reverse")).shows(200, "1 credit of the request req_1", "The balance becomes 1,057 credits, from 1,056.").form(page + "/reverse")
	asked.Set("confirmed", "true")
	p.post(page+"/reverse", asked).shows(400, "The balance becomes 1,057 credits").lacks("Nothing was done").beside("reason", "is needed")
	asked.Set("reason", "the answer was empty")
	p.post(page+"/reverse", asked).leadsTo(page + "/ledger?done=reverse")
	p.get(page+"/ledger").shows(200, "Charge returned by the operator, the answer was empty by Ann", "1,057").lacks(page + "/reverse")
	p.get("/accounts/nobody").shows(404, "There is no account nobody")
	p.post(page+"/explode", url.Values{}).shows(404, "does not exist")
}

func TestLedger_Charge_CanBeReversedForADay(t *testing.T) {
	s := start(t)
	id := s.account("Acme")
	page := "/accounts/" + id
	_, err := s.node.Writers.Accounts.ChargeLookup(t.Context(), commands.ChargeLookup{
		Request: commands.Request{ID: "req_1", Actor: "account:" + id}, AccountID: id, BrandID: "b", Domain: "acme.com",
	})
	s.must(err)
	s.ahead.Add(int64(account.ReversalWindow - time.Hour))
	s.signedIn(operator.Admin).get(page+"/ledger").shows(200, "Look-up of acme.com").form(page + "/reverse")
	s.ahead.Add(int64(time.Hour))
	s.signedIn(operator.Admin).get(page+"/ledger").shows(200, "Look-up of acme.com").lacks(page + "/reverse")
}

func TestForm_RejectedAndNotOnThePage_ShowsTheReason(t *testing.T) {
	s := start(t)
	id := s.account("Acme")
	p := s.signedIn(operator.Admin)
	page := "/accounts/" + id
	p.post(page+"/revoke", url.Values{"key": {"unknown"}, "confirmed": {"true"}}).shows(404, "There is no key unknown")
	p.submit(page+"/actions", page+"/close", nil).leadsTo(page + "/actions?done=close")
	p.get(page+"/actions").shows(200, "The account is closed").lacks("Grant the credits")
	p.get(page + "/people").shows(200).lacks("Issue a key")
	p.get(page+"/nothing").shows(404, "does not exist")
	p.post(page+"/reinstate", url.Values{}).shows(409, "closed")
}

// The outcome of a form may be unknown. Sending it again does nothing twice.
func TestForm_UnknownOutcome_IsSentAgain(t *testing.T) {
	for _, c := range []struct{ form, field, value, other, shows string }{
		{"grant", "credits", "1000", "2000", "1,050"},
		{"note", "text", "Pays by invoice.", "Pays by card.", "Pays by invoice."},
	} {
		s := start(t)
		id := s.account("Acme")
		p := s.signedIn(operator.Admin)
		page, tab, action := "/accounts/"+id, "/accounts/"+id+"/actions", "/accounts/"+id+"/"+c.form
		events := strings.Count(p.get(page+"/ledger").shows(200).text(), "by Ann")
		form := p.get(tab).form(action)
		form.Set("confirmed", "true")
		form.Set("reason", "a gift")
		form.Set(c.field, c.value)
		s.last.Store(true)
		a := p.post(action, form).shows(503, "The log has the reason under the request id")
		again := a.form(action)
		if again.Get(c.field) != c.value || again.Get("once") != form.Get("once") {
			t.Errorf("the form to send again has %v", again)
		}
		p.post(action, again).shows(503)
		s.away.Store(false)
		p.post(action, again).leadsTo(tab + "?done=" + c.form)
		if added := strings.Count(p.get(page+"/ledger").shows(200).text(), "by Ann") - events; added != 1 {
			t.Errorf("%s: %d events were added to the ledger, want one", c.form, added)
		}
		changed := again
		changed.Set(c.field, c.other)
		p.post(action, changed).shows(400, "This form was sent before, with other values")
	}
}

func TestPages_LogAway_SayWhatIsAway(t *testing.T) {
	s := start(t)
	id := s.account("Acme")
	p := s.signedIn(operator.Admin)
	link := s.link("Bo", operator.Read)
	s.away.Store(true)
	p.get("/").shows(200, "The service is not ready", "event log", "Crawls by outcome")
	p.get("/accounts").shows(503, "event log")
	p.get("/accounts/"+id+"/replay").shows(503, "event log").lacks("You can sign in when it is back")
	other := s.browser()
	other.post("/sign-in", url.Values{"token": {link}}).shows(503, "The event log cannot be reached")
	s.away.Store(false)
	other.post("/sign-in", url.Values{"token": {link}}).leadsTo("/")
}

// Anyone who reaches the address can send unknown links, also from the address of an operator.
func TestSignIn_ManyUnknownLinks_AreLimitedButNoOperatorIs(t *testing.T) {
	s := start(t)
	s.ahead.Add(int64(time.Minute - time.Duration(s.node.Now().Second())*time.Second)) // the limit is that of a whole minute
	operator, link := s.signedIn(operator.Admin), s.link("Bo", operator.Read)
	stranger := s.browser()
	for i := range console.MaxUnknown {
		stranger.post("/sign-in", url.Values{"token": {unknownLink(i)}}).shows(404, "not known")
	}
	for i := range 30 {
		if a := stranger.post("/sign-in", url.Values{"token": {unknownLink(console.MaxUnknown + i)}}).shows(429, "Too many failed sign-ins"); a.header.Get("Retry-After") == "" {
			t.Error("the answer does not say when to try again")
		}
		stranger.post("/sign-in", url.Values{"token": {"nonsense"}}).shows(429)
	}
	operator.get("/").shows(200, "Read models")
	s.browser().post("/sign-in", url.Values{"token": {link}}).leadsTo("/")
	for range console.MaxUnknown + 10 {
		s.browser().post("/sign-in", url.Values{"token": {link}}).shows(410, "used before") // is no guess
	}
}

// unknownLink returns a text of the form of a link's token.
func unknownLink(i int) string {
	sum := sha256.Sum256([]byte{byte(i), byte(i >> 8)})
	return base64.RawURLEncoding.EncodeToString(sum[:])
}

func TestSignIn_BehindTrustedProxy_CountsClients(t *testing.T) {
	s := startWith(t, map[string]string{"LETTERHEAD_TRUSTED_PROXIES": "127.0.0.1"})
	s.ahead.Add(int64(time.Minute - time.Duration(s.node.Now().Second())*time.Second)) // the limit is that of a whole minute
	from := func(client string, i int) answer {
		return s.browser().send(http.MethodPost, "/sign-in", url.Values{"token": {unknownLink(i)}}, http.Header{"X-Forwarded-For": {client}})
	}
	for i := range console.MaxUnknown {
		from("198.51.100.7", i).shows(404)
	}
	from("198.51.100.7", 0).shows(429)
	from("198.51.100.8", 0).shows(404)
	signedOut := func(client string) answer { // with the cookie of no session, which the admin API counts
		return s.browser().send(http.MethodGet, "/", nil, http.Header{"X-Forwarded-For": {client}, "Cookie": {"letterhead_operator=x"}})
	}
	for signedOut("198.51.100.9").status == http.StatusUnauthorized {
	}
	signedOut("198.51.100.9").shows(429)
	signedOut("198.51.100.10").shows(401)
}

func TestAccounts_OpenAccount_ShowsItsKeysOnce(t *testing.T) {
	s := start(t)
	p := s.signedIn(operator.Admin)
	p.submit("/accounts", "/accounts", map[string]string{"name": " "}).shows(400).beside("name", "This field takes 1 to 200 bytes of text.")
	form := p.get("/accounts").form("/accounts")
	form.Set("name", "Acme")
	form.Set("plan", "growth")
	p.post("/accounts", form).shows(200, "The account is open", "lh_sk_", "lh_pk_")
	p.post("/accounts", form).shows(200, "was shown the first time").lacks("lh_sk_")
	p.get("/accounts?plan=growth&status=active").shows(200, "Acme")
}

func TestPayments_Refund_IsRecorded(t *testing.T) {
	s := start(t)
	id := s.account("Acme")
	_, err := s.node.Writers.Accounts.GrantCredits(t.Context(), commands.GrantCredits{Request: s.node.Operator(), AccountID: id, Kind: account.KindTopup, Credits: 1000,
		PaymentID: "pay/1", Money: &eventschemas.Money{Minor: 4900, Currency: "EUR"}})
	s.must(err)
	p := s.signedIn(operator.Finance)
	p.get("/payments").shows(200, "pay/1", "49.00 EUR", "paid")
	p.get("/payments?state=refunded").shows(200, "No payment matches")
	page, action := "/payments/pay%2F1?account="+id, "/payments/pay%2F1/refund"
	p.get(page).shows(200, "1,000 credits are not refunded")
	a := p.submit(page, action, map[string]string{"credits": "5000"}).shows(409)
	if got := a.form(action).Get("credits"); got != "5000" {
		t.Errorf("the rejected form has %q credits", got)
	}
	p.submit(page, action, map[string]string{"credits": "100"}).leadsTo(page + "&done=refund")
	p.get(page+"&done=refund").shows(200, "The refund is recorded.", "900 credits are not refunded", "4.90 EUR", "partly refunded")
	p.get("/inbox").shows(200, "nothing in the inbox")
	p.get("/books").shows(200, "running")
	p.get("/books/revenue").shows(200, "Deferred after", "44.10 EUR")
	p.get("/books/revenue?by=plan&from=nonsense").shows(400).beside("from", "nonsense")
}

func TestInbox_ReportThatAsksToLink_IsLinkedByItsButton(t *testing.T) {
	s := start(t)
	id, other := s.account("Acme"), s.account("Bolt")
	for n, r := range []eventschemas.BillingReported{
		{AccountID: id, Customer: "cus_1"}, {AccountID: other, Customer: "cus_1"}, {Customer: "cus_2"},
	} {
		r.Processor, r.EventID, r.Type, r.Kind = billing.Stripe, "evt_"+strconv.Itoa(n), "test", billing.KindCustomer
		s.must(s.node.Writers.Billing.Record(t.Context(), s.node.Operator(), r))
		reason := []string{"", billing.LinkStays, "the customer cus_2 is not linked to an account"}[n]
		s.must(s.node.Writers.Billing.Settle(t.Context(), s.node.Operator(), billing.Stream(billing.Stripe, r.EventID), 1,
			eventschemas.BillingSettled{Outcome: []string{billing.Applied, billing.Inbox, billing.Inbox}[n], Reason: reason, AccountID: r.AccountID}))
	}
	p := s.signedIn(operator.Finance)
	form := p.get("/inbox").shows(200, billing.LinkStays, "cus_1 to "+other).lacks("cus_2 to").form("/inbox")
	if form.Get("customer") != "cus_1" || form.Get("account") != other {
		t.Errorf("the button links %v", form)
	}
	p.post("/inbox", form).leadsTo("/inbox?done=customer")
	s.signedIn(operator.Support).get("/inbox").shows(200, billing.LinkStays).lacks("Link the customer")
}

func TestAccounts_SpendAndUse_AreShownAndSorted(t *testing.T) {
	s := start(t)
	p := s.signedIn(operator.Read)
	p.get("/books").shows(200, "Credits outstanding", "0 credits").lacks("Top accounts")
	idle, busy := s.account("Idle"), s.account("Busy")
	for _, request := range []string{"r1", "r2", "r3"} {
		_, err := s.node.Writers.Accounts.ChargeLookup(t.Context(), commands.ChargeLookup{Request: commands.Request{ID: request, Actor: "account:" + busy}, AccountID: busy, BrandID: "b", Domain: "acme.com"})
		s.must(err)
	}
	spent := "3 in " + s.node.Now().UTC().Format("2006-01")
	for order, want := range map[string][]string{"-spend": {"Busy", "Idle"}, "-used": {"Busy", "Idle"}, "used": {"Idle", "Busy"}} {
		rows := sitetest.Rows(p.get("/accounts?sort=" + order).shows(200).page)
		if len(rows) != 2 || rows[0][0] != want[0] || rows[1][0] != want[1] {
			t.Errorf("sorted by %s: %v, want %v", order, rows, want)
			continue
		}
		for _, row := range rows {
			if row[0] == "Busy" && row[6] != spent || row[0] == "Idle" && (row[4] != "never" || row[6] != "nothing") {
				t.Errorf("sorted by %s: %v", order, row)
			}
		}
	}
	books := p.get("/books").shows(200, "97 credits", "Top accounts", spent, "growth")
	if strings.Contains(books.body, idle) || !strings.Contains(books.body, `href="/accounts/`+busy) {
		t.Errorf("the top accounts are not those that spent:\n%s", books.text())
	}
}

func TestBooks_TwoCurrencies_AreShownOneAtATime(t *testing.T) {
	s := start(t)
	id := s.account("Acme")
	grant := func(payment, currency string, minor int64) {
		t.Helper()
		_, err := s.node.Writers.Accounts.GrantCredits(t.Context(), commands.GrantCredits{Request: s.node.Operator(), AccountID: id, Kind: account.KindTopup, Credits: 1000, PaymentID: payment, Money: &eventschemas.Money{Minor: minor, Currency: currency}})
		s.must(err)
	}
	grant("p1", "EUR", 4900)
	grant("p2", "KWD", 12345678)
	p := s.signedIn(operator.Read)
	if _, ok := testwait.Until(testwait.Timeout, func() bool { return !strings.Contains(p.get("/books").body, "being summed up") }); !ok {
		t.Fatal("the sums are not complete")
	}
	month := s.node.Now().UTC().Format("2006-01")
	euros := p.get("/books").shows(200, "Months in money", month+" so far", "49.00", "Unused credits", "Total").lacks("12,345.678")
	for _, part := range []string{`data-x="` + month + `" data-y="0 4900 4900 0 1000"`, `data-chart="bars" data-unit="month" data-decimals="2" data-column="3"`, "/static/console/charts-", `href="/books/revenue?currency=EUR"`} {
		if !strings.Contains(euros.body, part) {
			t.Errorf("the page of the books has no %s", part)
		}
	}
	p.get("/books?currency=KWD").shows(200, "12,345.678").lacks("49.00")
	p.get("/books?currency=none").shows(200, "without money").lacks("49.00", "Refunds")
	p.get("/books?currency=%3Cb%3E").shows(200, "There are no months in <b>.")
	p.get("/books/revenue").shows(200, "Currency", "49.00", "Total", "49.00 EUR are deferred at the end").lacks("12,345.678")
	p.get("/books/revenue?currency=KWD&by=account").shows(200, "12,345.678").lacks("49.00")
	p.get("/books/revenue?currency=dollars").shows(400).beside("currency", "ISO 4217")
}

func TestBooks_Month_IsClosed(t *testing.T) {
	s := start(t)
	s.account("Acme")
	p := s.signedIn(operator.Finance)
	p.get("/books").shows(200, "running").lacks("/close")
	month := s.node.Now().UTC()
	s.ahead.Add(int64(62 * 24 * 3600 * 1e9))
	p = s.signedIn(operator.Finance)
	action := "/books/" + month.Format("2006-01") + "/close"
	asked := p.post(action, p.get("/books").form(action)).shows(200, "Close "+month.Format("2006-01")+"?", "totals of the month", "No money moved in this month.")
	asked.lacks("for ever", "keys are revoked")
	p.submit("/books", action, nil).leadsTo("/books?done=month")
	p.get("/books?done=month").shows(200, "The month is closed.", "closed")
}

func TestBrands_History_ShowsEvidenceAndChanges(t *testing.T) {
	s := start(t)
	p := s.signedIn(operator.Admin)
	name, other := "Acme", "Acme Inc."
	record := eventschemas.Record{Name: &name, Company: eventschemas.EmptyCompany(), QualityScore: 0.5, Complete: true}
	s.imported(record, "catalog 1")
	p.get("/brands?domain=acme.com").leadsTo("/brands/acme.com")
	p.get("/brands").shows(200, "acme.com")
	p.get("/brands?status=nonsense").shows(400, "status is one of")
	page := "/brands/acme.com"
	p.get(page).shows(200, "Acme", "Quality 0.50", "og:site_name", "catalog 1", "BrandImported")
	p.submit(page, page+"/override", map[string]string{"field": "name", "value": "Acme"}).shows(400).beside("value", "JSON")
	value, err := json.Marshal(other)
	s.must(err)
	p.submit(page, page+"/override", map[string]string{"field": "name", "value": string(value), "reason": strings.Repeat("x", 201)}).shows(400).beside("reason", "at most 200 bytes")
	p.submit(page, page+"/override", map[string]string{"field": "name", "value": string(value), "reason": "as in the trade register"}).leadsTo(page + "?done=override")
	changed := p.get(page).shows(200, other, "An operator has set name", "reason: as in the trade register")
	rows := sitetest.Rows(changed.page)
	at := slices.IndexFunc(rows, func(cells []string) bool { return strings.HasPrefix(cells[0], "FieldOverridden") })
	if at < 0 || !strings.Contains(rows[at][0], "by operator:") || !strings.Contains(rows[at][2], other) {
		t.Errorf("the history does not have the override:\n%v", rows)
	}
	// A record may have a logo without files; the page must show it, or the override could not be removed.
	p.submit(page, page+"/override", map[string]string{"field": "logos", "value": `[{"type":"logo","theme":null,"tags":[],"formats":[]}]`, "reason": "test"}).leadsTo(page + "?done=override")
	p.get(page).shows(200, "Logos")
	p.submit(page, page+"/remove", map[string]string{"field": "logos"}).leadsTo(page + "?done=remove")
	p.submit(page, page+"/remove", map[string]string{"field": "name"}).leadsTo(page + "?done=remove")
	p.submit(page, page+"/claim", nil).leadsTo(page + "?done=claim")
	p.submit(page, page+"/crawl", nil).leadsTo(page + "?done=crawl")
	p.get(page).shows(200, "claimed by its owner", "CrawlRequested")
	p.submit(page, page+"/withdraw", nil).leadsTo("/brands?done=withdraw")
	p.get(page).shows(404, "had it taken out")
	p.submit(page, page+"/crawl", nil).shows(409, "withdrawn")
	p.submit("/brands/unknown.com", "/brands/unknown.com/crawl", nil).leadsTo("/brands/unknown.com?done=crawl")
	p.get("/brands/nonsense").shows(400)
}

func TestCrawls_Failures_LeadToTheHistory(t *testing.T) {
	s := start(t)
	p := s.signedIn(operator.Read)
	p.get("/crawls").shows(200, "No crawl has failed", "Crawls that wait for a worker")
	for _, domain := range []string{"acme.com", "b.com"} {
		crawl, err := s.node.Writers.Brands.RequestCrawl(t.Context(), commands.RequestCrawl{Request: s.node.Operator(), Domain: domain, Cause: brand.CauseOperator, Priority: brand.PriorityLive, Allowed: time.Minute})
		s.must(err)
		s.must(s.node.Writers.Brands.FailCrawl(t.Context(), commands.FailCrawl{Request: s.node.Operator(), Domain: domain, CrawlID: crawl.ID, Outcome: brand.FetchFailed, Detail: domain + " answered with 500."}))
	}
	rows := sitetest.Rows(p.get("/crawls?outcome=fetch_failed").shows(200).page)
	if len(rows) != 2 || rows[0][0] != "b.com" || rows[1][0] != "acme.com" || rows[1][2] != "fetch failed" || rows[1][3] != "acme.com answered with 500." {
		t.Errorf("failures %v, want those of b.com and acme.com", rows)
	}
	p.get("/crawls?outcome=dns").shows(200, "No crawl has failed that matches.")
	p.get("/crawls?outcome=nonsense").shows(400, "is one of", "Show all failures")
	p.get("/brands/acme.com").shows(200, "fetch failed", "acme.com answered with 500.")
}

// imported imports a record of acme.com.
func (s *service) imported(record eventschemas.Record, source string) {
	s.t.Helper()
	_, err := s.node.Writers.Brands.ImportBrand(s.t.Context(), commands.ImportBrand{Request: s.node.Operator(), Domain: "acme.com", Source: source, Record: record,
		Evidence: []eventschemas.Evidence{{Field: "name", Source: "https://acme.com/", Method: "og:site_name", Confidence: 0.9}}})
	s.must(err)
}

func TestScope_DecidesWhatIsOfferedAndAccepted(t *testing.T) {
	s := start(t)
	id := s.account("Acme")
	page := "/accounts/" + id
	offers := map[string]operator.Scope{"/grant": operator.Finance, "/plan": operator.Finance, "/suspend": operator.Support, "/key": operator.Support, "/close": operator.Admin}
	for _, scope := range operator.Scopes {
		p := s.signedIn(scope)
		body := p.get(page+"/people").shows(200).body + p.get(page+"/actions").shows(200).body
		for action, needs := range offers {
			offered, want := strings.Contains(body, `action="`+page+action+`"`), scope == needs || scope == operator.Admin
			if offered != want {
				t.Errorf("the scope %s is offered %s: %t, want %t", scope, action, offered, want)
			}
		}
		if scope == operator.Read {
			p.post(page+"/grant", url.Values{"credits": {"1"}, "kind": {"adjustment"}, "confirmed": {"true"}}).shows(403, "needs a token with the scope")
			p.get("/operators").shows(403, "You may not do this")
		}
	}
	p := s.signedIn(operator.Read)
	p.get("/").shows(200).lacks("Rebuild")
}

// On shared services, a position of the log is no number of events, and other processes have counted most of the rest.
func TestHealth_SharedServices_ShowsTimesAndAllProcesses(t *testing.T) {
	s := startWith(t, map[string]string{
		"LETTERHEAD_EVENTSTORE": esdbtest.Start(t).ConnectionString(), "LETTERHEAD_DATABASE": sqlstoretest.Schema(t, testservices.Postgres(t)),
		"LETTERHEAD_ASSETS": "file://" + filepath.ToSlash(t.TempDir()), "LETTERHEAD_ADMIN_LISTEN": "127.0.0.1:8090", // in links; nothing listens there
	})
	s.account("Acme")
	processes := testmust.Get(figures.New(t.Context(), s.node.Stores.Database, time.Now))(t)
	for process, crawls := range map[string]int64{"crawler-1": 1201, "crawler-2": 33} {
		s.must(processes.Note(t.Context(), process, figures.Figures{"letterhead_crawls_total succeeded": crawls}))
	}
	s.must(s.node.Runner.CatchUp(t.Context()))
	p := s.signedIn(operator.Admin)
	page := p.get("/").shows(200, "Oldest event that a read model lacks", "up to date", "All 2 processes that run", "succeeded"+site.Number(1234))
	page.lacks("Events in the log", "Position")
	p.get("/crawls").shows(200, "All 2 processes that run", "succeeded"+site.Number(1234))
	head := testmust.Get(s.node.Stores.Log.Head(t.Context()))(t)
	page.lacks(">"+site.Number(int64(head))+"<", ">"+strconv.FormatUint(uint64(head), 10)+"<")
}

func TestHealth_Rebuild_Begins(t *testing.T) {
	s := start(t)
	s.account("Acme")
	p := s.signedIn(operator.Admin)
	p.get("/").shows(200, "accounts", "live", "Crawls by outcome", "Free on the disk of the data folder", "GiB of", "Events in the log", "up to date", "This process since its start")
	p.get("/projections/accounts").shows(200, "No request to this process has rebuilt it")
	p.submit("/", "/projections/accounts/rebuild", nil).leadsTo("/projections/accounts?done=rebuild")
	p.get("/projections/accounts?done=rebuild").shows(200, "The rebuild has begun.")
	if _, ok := testwait.Until(testwait.Timeout, func() bool {
		models, err := s.node.Operations.Models.List(t.Context())
		s.must(err)
		return slices.ContainsFunc(models, func(m engine.Status) bool { return m.Name == "accounts" && m.Generation > 1 })
	}); !ok {
		t.Error("the read model was not rebuilt")
	}
	if _, ok := testwait.Until(testwait.Timeout, func() bool {
		last, _ := s.node.Operations.Models.Last("accounts")
		return !last.FinishedAt.IsZero()
	}); !ok {
		t.Error("the rebuild did not end")
	}
	if a := p.get("/projections/accounts").shows(200, "The new tables agree with those that were live", "The new ones are live"); !strings.Contains(a.body, `accounts</th><td class="n" data-label="Agree">1</td>`) {
		t.Errorf("the page does not count the row that agrees:\n%s", a.body)
	}
	s.signedIn(operator.Read).get("/projections/accounts").shows(403, "You may not do this")
	p.get("/projections/nonsense").shows(404)
	p.post("/projections/nonsense/rebuild", url.Values{"form": {"x"}}).shows(404, "There is no read model nonsense")
}

func TestOperators_Token_IsShownOnce(t *testing.T) {
	s := start(t)
	p := s.signedIn(operator.Admin)
	p.submit("/operators", "/operators", map[string]string{"name": "Nightly export", "scope": "read", "expires": "nonsense"}).shows(400).beside("expires", "2026-12-31")
	a := p.submit("/operators", "/operators", map[string]string{"name": "Nightly export", "scope": "read"}).shows(200, "The token is issued", "lh_op_")
	if !strings.Contains(a.text(), "shown only now") {
		t.Errorf("the page does not say that the token is shown once:\n%s", a.text())
	}
	p.get("/operators").shows(200, "Nightly export", "this session").lacks("lh_op_")
	s.ahead.Add(int64(operator.SessionLifetime))
	p.get("/operators").shows(401, "not signed in")
	s.signedIn(operator.Admin).get("/operators?state=ended").shows(200, "expired").lacks("Nightly export", "No token")
}

func TestActions_OfOperators_AreListedWithTheirNames(t *testing.T) {
	s := start(t)
	id := s.account("Acme")
	p := s.signedIn(operator.Admin)
	p.submit("/accounts/"+id+"/actions", "/accounts/"+id+"/suspend", map[string]string{"reason": "test"}).leadsTo("/accounts/" + id + "/actions?done=suspend")
	rows := sitetest.Rows(p.get("/actions").shows(200, "Account suspended", "AccountSuspended", "Acme").page)
	if by := rows[0][3]; !strings.HasPrefix(by, "Ann operator:") {
		t.Errorf("the newest action is by %q, want Ann", by)
	}
	if a := s.signedIn(operator.Read).get("/actions").shows(200, "operator:"); strings.Contains(a.text(), "Ann") {
		t.Error("the page has a name without the permission to list tokens")
	}
	p.get("/actions?actor=operator:cli").shows(200, "AccountOpened", "command line").lacks("AccountSuspended")
	p.get("/actions?stream=brand-acme.com").shows(200, "No action matches")
	p.get("/actions?cursor=nonsense").shows(400, "cursor", "Show all actions")
}

func TestFilters_WrongText_HasASentenceBesideTheField(t *testing.T) {
	p := start(t).signedIn(operator.Admin)
	for field, f := range map[string]struct{ page, sentence string }{
		"actor": {"/actions?actor=%ff", "This field is not UTF-8 text."}, "stream": {"/actions?stream=%ff", "This field is not UTF-8 text."},
		"account": {"/payments?account=%ff", "This field is not UTF-8 text."}, "from": {"/books/revenue?from=soon", "soon"},
	} {
		p.get(f.page).shows(400).lacks(`role="alert"`).beside(field, f.sentence)
	}
}
