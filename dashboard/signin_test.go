package dashboard_test

import (
	"fmt"
	"io"
	"mime/quotedprintable"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"letterhead/commands"
	"letterhead/dashboard/site/sitetest"
	"letterhead/domain/plan"
	"letterhead/domain/signin"
	"letterhead/internal/email/emailtest"
	"letterhead/internal/eventlog"
	"letterhead/internal/sqlstore"
	"letterhead/internal/testmust"
	"letterhead/internal/testwait"
)

const baseURL = "http://brands.example.com"

// paths are the pages that need a session.
var paths = []string{"/dashboard", "/dashboard/keys", "/dashboard/ledger", "/dashboard/ledger/req_1", "/dashboard/statements", "/dashboard/statements/2026-11",
	"/dashboard/sign-out", "/dashboard/keys/k/revoke"}

func TestSignIn_Link_StartsASessionOnce(t *testing.T) {
	s := start(t, baseURL)
	c := s.newAccount("Acme", plan.Growth)
	token := c.link("owner")
	path := "/dashboard/sign-in?" + url.Values{"account": {c.id}, "token": {token}}.Encode()
	for range 3 { // as previews of a mail do
		a := c.get(path).shows(200, "Sign in to the dashboard")
		if len(a.header["Set-Cookie"]) > 0 {
			t.Errorf("opening the link sets %v", a.header["Set-Cookie"])
		}
		if n := len(a.elements("form")); n != 1 {
			t.Errorf("the page has %d forms", n)
		}
		if !regexp.MustCompile(`<form [^>]*action="/dashboard/sign-in"><input type="hidden" name="account" value="` + c.id + `"><input type="hidden" name="token" value="` + token + `">`).MatchString(a.body) {
			t.Errorf("the form is not as documented:\n%s", a.body)
		}
	}
	form := c.get(path).form("/dashboard/sign-in")
	// The form carries no cookie, so any page may send it.
	a := c.send(http.MethodPost, "/dashboard/sign-in", form, http.Header{"Origin": {"null"}})
	if a.status != http.StatusSeeOther || a.header.Get("Location") != "/dashboard" {
		t.Fatalf("status %d to %q", a.status, a.header.Get("Location"))
	}
	cookie := a.header.Get("Set-Cookie")
	for _, want := range []string{"letterhead_session=", "Path=/dashboard", "HttpOnly", "SameSite=Lax", "Expires="} {
		if !strings.Contains(cookie, want) {
			t.Errorf("the cookie %q lacks %s", cookie, want)
		}
	}
	if strings.Contains(cookie, "Secure") {
		t.Errorf("the cookie of an http service is %q", cookie)
	}
	c.get("/dashboard").shows(200, "Balance")

	again := c.post("/dashboard/sign-in", form).shows(410, "used before", "account login-link --account "+c.id, "You are signed in already")
	other := &customer{service: s, id: c.id, client: browser(t)}
	if again2 := other.post("/dashboard/sign-in", form).shows(410, "used before", "Get a new link").lacks("signed in already"); len(again.header["Set-Cookie"])+len(again2.header["Set-Cookie"]) > 0 {
		t.Error("a used link sets a cookie")
	}
	other.get("/dashboard").shows(401, "not signed in")
}

func TestSignIn_LinkThatDoesNotWork_SaysWhyAndHowToGetAnother(t *testing.T) {
	s := start(t, baseURL)
	c := s.newAccount("Acme", plan.Growth)
	expired := c.link("owner")
	s.advance(signin.LinkLifetime)
	full, closed := s.newAccount("Full", plan.Growth), s.newAccount("Closed", plan.Growth)
	for range signin.MaxSessions {
		(&customer{s, full.id, browser(t)}).signIn("owner")
	}
	toFull, toClosed := full.link("owner"), closed.link("owner")
	_, err := s.node.Writers.Accounts.Close(t.Context(), commands.CloseAccount{Request: operator(), AccountID: closed.id, Reason: "test"})
	s.must(err)
	for _, l := range []struct {
		account, token string
		status         int
		text           string
	}{
		{c.id, expired, 410, "This link has expired"},
		{c.id, "guess", 404, "This link is not known"},
		{c.id, "", 404, "This link is not known"},
		{"", expired, 404, "This link is not known"},
		{"<b>", "x", 404, "This link is not known"},
		{strings.Repeat("a", 300), "x", 404, "This link is not known"},
		{full.id, toFull, 409, "Too many people are signed in"},
		{closed.id, toClosed, 410, "This account is closed"},
	} {
		a := c.post("/dashboard/sign-in", url.Values{"account": {l.account}, "token": {l.token}}).shows(l.status, l.text, "letterhead account login-link").lacks("<b>", expired)
		if len(a.header["Set-Cookie"]) > 0 {
			t.Errorf("%q: %v is set", l.token, a.header["Set-Cookie"])
		}
	}
	c.get("/dashboard/sign-in").shows(200, "Get a new link").lacks("<form")
}

func TestSignIn_HTTPSAndPathInBaseURL_AreInTheCookie(t *testing.T) {
	s := start(t, "https://brands.example.com/letterhead")
	c := s.newAccount("Acme", plan.Growth)
	token := c.link("owner")
	a := c.post("/dashboard/sign-in", url.Values{"account": {c.id}, "token": {token}})
	if cookie := a.header.Get("Set-Cookie"); a.header.Get("Location") != "/letterhead/dashboard" || !strings.HasPrefix(cookie, "__Host-letterhead_session=") || !strings.Contains(cookie, "; Path=/;") || !strings.Contains(cookie, "; Secure") || strings.Contains(cookie, "Domain") {
		t.Errorf("to %q with the cookie %q", a.header.Get("Location"), cookie)
	}
	session, _, _ := strings.Cut(strings.TrimPrefix(a.header.Get("Set-Cookie"), "__Host-"), ";")
	visitor := &customer{service: s, client: browser(t)}
	visitor.send(http.MethodGet, "/dashboard", nil, http.Header{"Cookie": {session}}).shows(401) // another host of the domain could set it
	visitor.send(http.MethodGet, "/dashboard", nil, http.Header{"Cookie": {"__Host-" + session}}).shows(200, "Balance")
	if action := c.get("/dashboard/sign-in?account=a&token=t").form("/letterhead/dashboard/sign-in"); action.Get("token") != "t" {
		t.Errorf("the form has %v", action)
	}
}

func TestPages_WithoutSession_ShowHowToSignIn(t *testing.T) {
	s := start(t, baseURL)
	c := s.newAccount("Acme", plan.Growth)
	c.client.Jar, _ = cookiejar.New(nil)
	for _, cookie := range []string{"", "letterhead_session=guess", "letterhead_session=" + strings.Repeat("a", 3000)} {
		header := http.Header{}
		if cookie != "" {
			header.Set("Cookie", cookie)
		}
		for _, path := range paths {
			c.send(http.MethodGet, path, nil, header).shows(401, "You are not signed in", "letterhead account login-link").lacks("Acme", c.id)
		}
		c.send(http.MethodPost, "/dashboard/keys", url.Values{"name": {"ci"}}, header).shows(401, "You are not signed in")
	}
	// htmx would replace a part of the page by the answer.
	if a := c.send(http.MethodGet, "/dashboard/ledger", nil, http.Header{"HX-Request": {"true"}}); a.header.Get("HX-Refresh") != "true" {
		t.Errorf("a request of htmx: header %v", a.header)
	}
}

func TestSignIn_PageThatWasAskedFor_IsShownAfterwards(t *testing.T) {
	s := start(t, baseURL)
	c := s.newAccount("Acme", plan.Growth)
	signIn := func() string {
		t.Helper()
		a := c.post("/dashboard/sign-in", url.Values{"account": {c.id}, "token": {c.link("owner")}})
		if a.status != http.StatusSeeOther {
			t.Fatalf("status %d", a.status)
		}
		return a.header.Get("Location")
	}
	longest := strings.Repeat(strings.Repeat("a", 63)+".", 3) + strings.Repeat("a", 61)
	for _, page := range []string{"/playground?identifier=github.com", "/playground?identifier=" + longest, "/ledger/req%2F1"} {
		c.client = browser(t)
		c.get("/dashboard"+page).shows(401, "you come to the page that you asked for")
		c.get("/dashboard/sign-in?sent=1").shows(200)
		if got := signIn(); got != "/dashboard"+page {
			t.Errorf("after %s, the sign-in leads to %q", page, got)
		}
		if got := signIn(); got != "/dashboard" {
			t.Errorf("the second sign-in leads to %q", got)
		}
	}
	if got := c.get("/dashboard/playground?identifier=github.com").shows(200).form("/dashboard/playground").Get("identifier"); got != "github.com" {
		t.Errorf("the field has %q", got)
	}
	c.client = browser(t)
	c.get("/dashboard/playground?identifier=github.com").shows(401)
	c.get("/dashboard").shows(401).lacks("asked for")
	if got := signIn(); got != "/dashboard" {
		t.Errorf("after the overview was asked for, the sign-in leads to %q", got)
	}
	c.client = browser(t)
	c.get("/dashboard/playground?identifier=" + strings.Repeat("a", 2000)).shows(401).lacks("asked for")
	c.post("/dashboard/keys", url.Values{"name": {"ci"}}).shows(401).lacks("asked for")
	c.get("/dashboard/sign-out").shows(401).lacks("asked for")
	c.get("/dashboard/statements/2026-01/proof").shows(401).lacks("asked for")
	if got := signIn(); got != "/dashboard" {
		t.Errorf("after a page that is too long to remember, a form, the page to sign out and a download, the sign-in leads to %q", got)
	}
}

func TestSignIn_PathInBaseURL_IsBeforeThePageThatWasAskedFor(t *testing.T) {
	s := start(t, baseURL+"/letterhead")
	c := s.newAccount("Acme", plan.Growth)
	cookie, rest, _ := strings.Cut(c.get("/dashboard/usage").shows(401).header.Get("Set-Cookie"), ";")
	if !strings.Contains(rest, "Path=/letterhead/dashboard;") || !strings.Contains(rest, "HttpOnly") {
		t.Errorf("the cookie has%s", rest)
	}
	a := c.send(http.MethodPost, "/dashboard/sign-in", url.Values{"account": {c.id}, "token": {c.link("owner")}}, http.Header{"Cookie": {cookie}})
	if to := a.header.Get("Location"); to != "/letterhead/dashboard/usage" {
		t.Errorf("the sign-in leads to %q", to)
	}
}

func TestPages_SettingsOfTheOperator_AreShown(t *testing.T) {
	s := startWith(t, map[string]string{"LETTERHEAD_BASE_URL": baseURL, "LETTERHEAD_NAME": "Brands & Co", "LETTERHEAD_ACCENT": "#ffe600"})
	c := s.newAccount("Acme", plan.Growth)
	for _, path := range []string{"/dashboard", "/dashboard/sign-in", "/dashboard/nothing"} {
		a := c.get(path).lacks("Letterhead")
		if !strings.Contains(a.body, "· Brands &amp; Co</title>") || !strings.Contains(a.body, ">Brands &amp; Co</a>") {
			t.Errorf("%s does not have the name of the service", path)
		}
	}
	style := regexp.MustCompile(`href="(/static/dashboard/style-[^"]*)"`).FindStringSubmatch(c.get("/dashboard/sign-in").body)
	if len(style) != 2 {
		t.Fatal("the page has no style")
	}
	a := testmust.Get(c.client.Get(s.url + style[1]))(t)
	defer a.Body.Close()
	if css := string(testmust.Get(io.ReadAll(a.Body))(t)); strings.Count(css, "--mark:#ffe600") != 1 {
		t.Error("the style does not have the accent, on dark pages only")
	}
}

func TestSignIn_CookieOfAnotherMaker_LeadsToTheDashboardOnly(t *testing.T) {
	s := start(t, baseURL)
	c := s.newAccount("Acme", plan.Growth)
	for _, value := range []string{"https://evil.example", "//evil.example", "/\\evil.example", "\r\nSet-Cookie: a=b", "javascript:alert(1)", "@evil.example", ".evil.example", "?x", "%zz", "/../../other/logout?x=1", "/%2e%2e/%2e%2e/other", "/keys/..%2f../other", "/./keys", "/keys/..", "*"} {
		header := http.Header{"Cookie": {"letterhead_page=" + url.QueryEscape(value)}}
		a := c.send(http.MethodPost, "/dashboard/sign-in", url.Values{"account": {c.id}, "token": {c.link("owner")}}, header)
		if to := a.header.Get("Location"); to != "/dashboard" && !strings.HasPrefix(to, "/dashboard/") || strings.Contains(to, ".") && to != "/dashboard/%5Cevil.example" {
			t.Errorf("%q leads to %q", value, to)
		}
	}
}

func TestSignOut_HereOrEverywhere_EndsSessions(t *testing.T) {
	s := start(t, baseURL)
	c := s.signedIn("Acme", plan.Growth)
	second, colleague := &customer{s, c.id, browser(t)}, &customer{s, c.id, browser(t)}
	second.signIn("owner")
	colleague.signIn("p2")

	a := c.post("/dashboard/sign-out", c.get("/dashboard").form("/dashboard/sign-out"))
	if a.status != http.StatusSeeOther || !strings.Contains(a.header.Get("Set-Cookie"), "Max-Age=0") {
		t.Errorf("status %d, cookie %q", a.status, a.header.Get("Set-Cookie"))
	}
	c.get(a.header.Get("Location")).shows(200, "You have signed out", "Get a new link")
	c.get("/dashboard").shows(401)
	second.get("/dashboard").shows(200)

	c.signIn("owner")
	form := c.get("/dashboard/sign-out").shows(200, "Sign out everywhere", "owner").form("/dashboard/sign-out")
	form.Set("everywhere", "1") // the button
	if a := c.post("/dashboard/sign-out", form); a.status != http.StatusSeeOther {
		t.Errorf("status %d", a.status)
	}
	second.get("/dashboard").shows(401)
	colleague.get("/dashboard").shows(200)
}

func TestSessions_ChangeNotSeenInTime_IsMadeAllTheSame(t *testing.T) {
	s := start(t, baseURL)
	s.sessions.after = fmt.Errorf("a node is away: %w", commands.ErrNotSeen)
	c := s.signedIn("Acme", plan.Growth)
	c.get("/dashboard").shows(200)
	a := c.post("/dashboard/sign-out", nil).shows(503, "You have signed out, but not everywhere yet").lacks("Acme")
	if !strings.Contains(a.header.Get("Set-Cookie"), "Max-Age=0") {
		t.Errorf("the cookie is %q", a.header.Get("Set-Cookie"))
	}
	c.get("/dashboard").shows(401)
}

func TestAccount_ManyRequestsRunning_OthersAreServed(t *testing.T) {
	s := start(t, baseURL)
	c, other := s.signedIn("Acme", plan.Growth), s.signedIn("Bolt", plan.Growth)
	const limit = 8
	s.sessions.held, s.sessions.holding = make(chan struct{}), make(chan struct{}, limit)
	running := make(chan answer)
	for range limit {
		go func() { running <- c.post("/dashboard/sign-out", nil) }()
	}
	for range limit {
		<-s.sessions.holding
	}
	c.get("/dashboard/keys").shows(503, "Too many pages are being loaded")
	other.get("/dashboard/keys").shows(200)
	close(s.sessions.held)
	for range limit {
		if a := <-running; a.status != http.StatusSeeOther {
			t.Errorf("status %d", a.status)
		}
	}
}

func TestForms_OfAnotherSite_AreRefused(t *testing.T) {
	s := start(t, baseURL)
	c := s.signedIn("Acme", plan.Growth)
	form := c.get("/dashboard/keys").form("/dashboard/keys")
	form.Set("name", "ci")
	token := form.Get("form")
	if token == "" {
		t.Fatal("the form has no token")
	}
	for _, f := range []struct {
		header http.Header
		token  string
		ok     bool
	}{
		{http.Header{"Sec-Fetch-Site": {"cross-site"}, "Origin": {"https://evil.example"}}, token, false},
		{http.Header{"Sec-Fetch-Site": {"same-site"}, "Origin": {"http://other.example.com"}}, token, false},
		{http.Header{"Sec-Fetch-Site": {"cross-site"}, "Origin": {"null"}}, token, false},
		{http.Header{"Origin": {"https://evil.example"}}, token, false},
		{http.Header{"Origin": {"null"}}, "", false},
		{http.Header{"Origin": {"null"}}, "guess", false},
		{http.Header{"Origin": {"null"}}, token, true}, // over http, browsers say no more
		{http.Header{"Origin": {baseURL}}, "", true},   // behind a proxy that replaces Host
		{http.Header{"Sec-Fetch-Site": {"same-origin"}}, "", true},
		{http.Header{}, "", true}, // no browser
	} {
		form.Set("form", f.token)
		a := c.send(http.MethodPost, "/dashboard/keys", form, f.header)
		if (a.status == http.StatusForbidden) == f.ok {
			t.Errorf("%v with the token %q: status %d", f.header, f.token, a.status)
		}
		if !f.ok {
			a.shows(403, "comes from another site")
		}
	}
	for _, path := range []string{"/dashboard/sign-out", "/dashboard/keys/k/revoke"} {
		c.send(http.MethodPost, path, url.Values{}, http.Header{"Sec-Fetch-Site": {"cross-site"}}).shows(403)
	}
	c.get("/dashboard").shows(200)

	other := s.signedIn("Mallory", plan.Free)
	link := url.Values{"account": {other.id}, "token": {other.link("owner")}}
	if a := c.send(http.MethodPost, "/dashboard/sign-in", link, http.Header{"Sec-Fetch-Site": {"cross-site"}}).shows(403, "comes from another site"); len(a.header["Set-Cookie"]) > 0 {
		t.Errorf("another site signed a visitor in: %v", a.header)
	}
	if a := c.send(http.MethodPost, "/dashboard/sign-in", link, http.Header{"Origin": {"null"}}); a.status != http.StatusSeeOther {
		t.Errorf("over plain HTTP: status %d", a.status)
	}
}

func TestPages_StoreAway_SayWhatIsAwayAndWhatWorks(t *testing.T) {
	s := start(t, baseURL)
	c := s.signedIn("Acme", plan.Growth)
	c.charge("acme.com", "")
	c.get("/dashboard").shows(200, "49", "Look-up of acme.com")
	s.down.Store(true)
	for _, path := range []string{"/dashboard", "/dashboard/ledger", "/dashboard/statements", "/dashboard/keys"} {
		c.get(path).shows(200, "The event log cannot be reached", "may be missing")
	}
	c.get("/dashboard/ledger").shows(200, "Look-up of acme.com")
	c.get("/dashboard/statements/2026-11").shows(503, "cannot be made now")
	form := c.get("/dashboard/keys").form("/dashboard/keys")
	form.Set("name", "ci")
	if a := c.post("/dashboard/keys", form).shows(503, "The event log cannot be reached", "still served"); a.header.Get("Retry-After") == "" {
		t.Error("no Retry-After")
	}
	s.down.Store(false)
	c.get("/dashboard").shows(200).lacks("may be missing")

	for err, text := range map[error]string{sqlstore.ErrUnavailable: "The database cannot be reached", eventlog.ErrUnavailable: "The event log cannot be reached"} {
		s.sessions.fail(err)
		for _, path := range paths {
			if a := c.get(path).shows(503, text, "still served"); a.header.Get("Retry-After") == "" || len(a.header["Set-Cookie"]) > 0 {
				t.Errorf("%s: header %v", path, a.header)
			}
		}
		c.post("/dashboard/sign-in", url.Values{"account": {c.id}, "token": {"t"}}).shows(503, text)
	}
	s.sessions.fail(nil)
	c.get("/dashboard").shows(200)
}

func TestPaths_UnknownOrWrongMethod_ArePages(t *testing.T) {
	s := start(t, baseURL)
	c := s.signedIn("Acme", plan.Growth)
	c.get("/dashboard/nothing").shows(404, "does not exist")
	c.get("/static/dashboard/style-000000000000.css").shows(404, "does not exist")
	for path, allow := range map[string]string{"/dashboard": "GET, HEAD", "/dashboard/keys": "GET, HEAD, POST", "/dashboard/sign-in": "GET, HEAD, POST"} {
		for _, method := range []string{"PUT", "DELETE", "OPTIONS"} {
			if a := c.send(method, path, nil, nil).shows(405, "cannot do that"); a.header.Get("Allow") != allow {
				t.Errorf("%s %s: Allow %q, want %q", method, path, a.header.Get("Allow"), allow)
			}
		}
	}
	if a := c.get("/dashboard/"); a.status != http.StatusMovedPermanently || a.header.Get("Location") != "/dashboard" {
		t.Errorf("status %d to %q", a.status, a.header.Get("Location"))
	}
	c.post("/dashboard/keys", url.Values{"name": {strings.Repeat("a", 20_000)}}).shows(413, "too large")
	c.send(http.MethodPost, "/dashboard/keys", nil, http.Header{"Content-Type": {"application/x-www-form-urlencoded; x"}}).shows(400, "did not arrive")

	page := c.get("/dashboard")
	for _, n := range append(page.elements("script"), page.elements("link")...) {
		source := sitetest.Attribute(n, "src") + sitetest.Attribute(n, "href")
		if n.FirstChild != nil || source == "" {
			t.Errorf("an element has inline code: %s", n.Data)
			continue
		}
		if strings.HasPrefix(source, "/static/dashboard/") {
			if a := c.get(source); a.status != 200 || len(a.body) == 0 || !strings.Contains(a.header.Get("Cache-Control"), "immutable") {
				t.Errorf("%s: status %d, header %v", source, a.status, a.header)
			}
		}
	}
	page.lacks("style=", "onclick=", "javascript:")
}

// withMail serves a service that sends e-mail.
func withMail(t *testing.T) (*service, *emailtest.Server) {
	t.Helper()
	mails := emailtest.Start(t, emailtest.Config{})
	return startWith(t, map[string]string{"LETTERHEAD_BASE_URL": baseURL, "LETTERHEAD_SMTP_URL": "smtp://" + mails.Addr(), "LETTERHEAD_MAIL_FROM": "Brands <brands@example.com>"}), mails
}

// linkIn returns the path of the link in a message.
func linkIn(t *testing.T, m emailtest.Message) string {
	t.Helper()
	body := testmust.Get(io.ReadAll(quotedprintable.NewReader(strings.NewReader(m.Data[strings.Index(m.Data, "\r\n\r\n")+4:]))))(t)
	link := regexp.MustCompile(regexp.QuoteMeta(baseURL) + `(/dashboard/sign-in\?\S+)`).FindStringSubmatch(string(body))
	if link == nil {
		t.Fatalf("the message has no link:\n%s", body)
	}
	return link[1]
}

func TestSignIn_ByEmail_LinkGoesToAccountsAddressOnly(t *testing.T) {
	s, mails := withMail(t)
	c := s.signedIn("Acme", plan.Growth)
	c.get("/dashboard/notices").shows(200, "You have no address for links")
	_, err := s.node.Operations.SignIns.Commands.SetEmail(t.Context(), operator(), signin.Person{AccountID: c.id, ID: signin.Owner}, "Ann@Example.com")
	s.must(err)
	c.get("/dashboard/notices").shows(200, "ann@example.com")

	visitor := &customer{service: s, client: browser(t)}
	answers := map[string]string{}
	for _, address := range []string{"stranger@example.com", "ANN@example.com"} {
		form := visitor.get("/dashboard/sign-in").shows(200, "Get a link by e-mail").form("/dashboard/sign-in/mail")
		form.Set("email", address)
		a := visitor.send(http.MethodPost, "/dashboard/sign-in/mail", form, http.Header{"Origin": {"null"}})
		answers[fmt.Sprint(a.status, a.header.Get("Location"))] = address
		visitor.get(a.header.Get("Location")).shows(200, "a link is on its way")
	}
	if len(answers) != 1 {
		t.Errorf("the answer reveals whether an address is known: %v", answers)
	}
	testwait.Until(testwait.Timeout, func() bool { return len(mails.Messages()) > 0 })
	if all := mails.Messages(); len(all) != 1 || all[0].To != "ann@example.com" {
		t.Fatalf("messages %+v, want one", all)
	}
	path := linkIn(t, mails.Messages()[0])
	visitor.post("/dashboard/sign-in", visitor.get(path).shows(200, "Sign in to the dashboard").form("/dashboard/sign-in"))
	visitor.get("/dashboard").shows(200, "Balance")
	visitor.post("/dashboard/sign-in", url.Values{"account": {c.id}, "token": {"x"}}).shows(404, "Get a link by e-mail")

	// The address gets one message a minute.
	form := visitor.get("/dashboard/sign-in").form("/dashboard/sign-in/mail")
	form.Set("email", "ann@example.com")
	for range 3 {
		visitor.post("/dashboard/sign-in/mail", form).leadsTo("/dashboard/sign-in?sent=1")
	}
	if all := mails.Messages(); len(all) != 1 {
		t.Errorf("%d messages were sent in a minute", len(all))
	}
	s.advance(time.Minute)
	visitor.post("/dashboard/sign-in/mail", form).leadsTo("/dashboard/sign-in?sent=1")
	testwait.Until(testwait.Timeout, func() bool { return len(mails.Messages()) > 1 })
	if all := mails.Messages(); len(all) != 2 {
		t.Errorf("a minute later %d messages were sent in all, want 2", len(all))
	}
}

func TestSignIn_ByEmail_ManyRequestsOfAClient_InventedAddressesTakeNoMessage(t *testing.T) {
	s, mails := withMail(t)
	c := s.signedIn("Acme", plan.Growth)
	visitor := &customer{service: s, client: browser(t)}
	ask := func(address string) {
		visitor.post("/dashboard/sign-in/mail", url.Values{"email": {address}}).leadsTo("/dashboard/sign-in?sent=1")
	}
	for i := range 30 {
		ask(fmt.Sprintf("stranger%d@example.com", i))
	}
	for i := range 12 {
		address := fmt.Sprintf("ann%d@example.com", i)
		_, err := s.node.Operations.SignIns.Commands.SetEmail(t.Context(), operator(), signin.Person{AccountID: c.id, ID: fmt.Sprintf("p%d", i)}, address)
		s.must(err)
		ask(address)
	}
	testwait.Until(testwait.Timeout, func() bool { return len(mails.Messages()) >= 10 })
	s.advance(time.Minute)
	ask("ann11@example.com") // after those of the last minute, which are sent in their order
	testwait.Until(testwait.Timeout, func() bool {
		return slices.ContainsFunc(mails.Messages(), func(m emailtest.Message) bool { return m.To == "ann11@example.com" })
	})
	if all := mails.Messages(); len(all) != 11 {
		t.Errorf("%d messages were sent, want 10 for the client in the first minute and one in the next", len(all))
	}
}

func TestSignIn_ByEmail_BadRequest_IsRejected(t *testing.T) {
	s, _ := withMail(t)
	visitor := &customer{service: s, client: browser(t)}
	for _, address := range []string{"", "ann", "Ann <ann@example.com>"} {
		a := visitor.post("/dashboard/sign-in/mail", url.Values{"email": {address}}).shows(422)
		if p := a.problemOf("email"); !strings.Contains(p, "e-mail address of your account") || a.form("/dashboard/sign-in/mail").Get("email") != address {
			t.Errorf("%q: the sentence is %q", address, p)
		}
	}
	visitor.send(http.MethodPost, "/dashboard/sign-in/mail", url.Values{"email": {"ann@example.com"}}, http.Header{"Origin": {"https://evil.example"}}).shows(403)
	without := &customer{service: start(t, baseURL), client: browser(t)}
	without.get("/dashboard/sign-in").shows(200, "account login-link").lacks("by e-mail")
	without.post("/dashboard/sign-in/mail", url.Values{"email": {"ann@example.com"}}).shows(404, "sends no links by e-mail")
}

func TestSignIn_ByEmail_AccountClosed_AddressIsErased(t *testing.T) {
	s, _ := withMail(t)
	c := s.signedIn("Acme", plan.Growth)
	_, err := s.node.Operations.SignIns.Commands.SetEmail(t.Context(), operator(), signin.Person{AccountID: c.id, ID: signin.Owner}, "ann@example.com")
	s.must(err)
	_, err = s.node.Operations.Accounts.Close(t.Context(), operator(), c.id)
	s.must(err)
	if emails, err := s.node.Operations.SignIns.Emails(t.Context(), c.id); err != nil || len(emails) > 0 {
		t.Errorf("the addresses are %v, %v", emails, err)
	}
}
