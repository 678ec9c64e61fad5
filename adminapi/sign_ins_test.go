package adminapi_test

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"letterhead/commands"
	domain "letterhead/domain/account"
	"letterhead/domain/operator"
	"letterhead/domain/signin"
	"letterhead/projections/sessions"
)

// loginLink is a link as the API answers it.
type loginLink struct {
	URL       string
	ExpiresAt time.Time `json:"expires_at"`
}

// enter begins a session with a link, and returns the hash of its token.
func (s *service) enter(link, accountID string) (hash [sha256.Size]byte, begun signin.Session, err error) {
	s.t.Helper()
	u, err := url.Parse(link)
	s.must(err)
	token := u.Query().Get("token")
	if u.Host != "brands.example.com" || u.Path != "/dashboard/sign-in" || u.Query().Get("account") != accountID || len(u.Query()) != 2 {
		s.t.Errorf("the link is %s", strings.ReplaceAll(link, token, "TOKEN"))
	}
	session, begun, err := s.node.Operations.SignIns.Enter(s.t.Context(), byCustomer(accountID), accountID, token)
	return sha256.Sum256([]byte(session)), begun, err
}

func byCustomer(accountID string) commands.Request {
	return commands.Request{ID: "r-" + accountID[:8], Actor: "account:" + accountID}
}

// Rule 9.
func TestLoginLink_SignsInOnce_UntilSignedOut(t *testing.T) {
	s := start(t)
	id := s.open("Acme").Account.ID
	path := "/admin/accounts/" + id + "/login-link"
	var link loginLink
	s.send(request{method: "POST", path: path, token: s.tok[operator.Support]}).want(http.StatusCreated, &link)
	hash, begun, err := s.enter(link.URL, id)
	if err != nil || begun.Person != signin.Owner || begun.AccountID != id {
		t.Fatalf("entered: %+v, %v", begun, err)
	}
	if _, _, err := s.enter(link.URL, id); !errors.Is(err, signin.ErrLinkUsed) {
		t.Errorf("the link again: %v, want %v", err, signin.ErrLinkUsed)
	}
	if found, err := s.node.Models.Sessions.ByHash(t.Context(), hash, s.node.Now()); err != nil || *found != begun {
		t.Errorf("the session is %+v, %v, want %+v", found, err, begun)
	}
	s.must(s.node.Operations.SignIns.SignOut(t.Context(), byCustomer(id), id, begun.ID))
	if found, err := s.node.Models.Sessions.ByHash(t.Context(), hash, s.node.Now()); !errors.Is(err, sessions.ErrNotFound) {
		t.Errorf("after the sign-out: %+v, %v", found, err)
	}

	first := request{method: "POST", path: path, body: `{"person":"p2"}`, key: "link"}
	var repeated loginLink
	s.send(first).want(http.StatusCreated, &link)
	s.send(first).want(http.StatusCreated, &repeated)
	if link.URL == "" || repeated.URL != "" || !repeated.ExpiresAt.Equal(link.ExpiresAt) {
		t.Errorf("the repeat has a link: %t; it expires at %s, want %s", repeated.URL != "", repeated.ExpiresAt, link.ExpiresAt)
	}
	if _, begun, err := s.enter(link.URL, id); err != nil || begun.Person != "p2" {
		t.Errorf("entered: %+v, %v", begun, err)
	}
}

func TestSignOut_OfPersonAndOfAll_EndsSessionsAndLinks(t *testing.T) {
	s := start(t)
	id := s.open("Acme").Account.ID
	path := "/admin/accounts/" + id
	link := func(person string) string {
		var l loginLink
		s.post(path+"/login-link", `{"person":"`+person+`"}`).want(http.StatusCreated, &l)
		return l.URL
	}
	session := func(person string) [sha256.Size]byte {
		hash, _, err := s.enter(link(person), id)
		s.must(err)
		return hash
	}
	isOpen := func(hash [sha256.Size]byte) bool {
		_, err := s.node.Models.Sessions.ByHash(t.Context(), hash, time.Now())
		if err != nil && !errors.Is(err, sessions.ErrNotFound) {
			t.Fatal(err)
		}
		return err == nil
	}
	first, second, unused := session("owner"), session("p2"), link("p2")
	var done struct {
		Account  string
		Repeated bool
	}
	s.send(request{method: "POST", path: path + "/sign-out", body: `{"person":"p2"}`, token: s.tok[operator.Support]}).want(http.StatusOK, &done)
	if done.Account != id || done.Repeated || !isOpen(first) || isOpen(second) {
		t.Errorf("after p2 was signed out: %+v, open: %t and %t, want the owner's only", done, isOpen(first), isOpen(second))
	}
	if _, _, err := s.enter(unused, id); !errors.Is(err, signin.ErrLinkExpired) {
		t.Errorf("an unused link of p2: %v, want %v", err, signin.ErrLinkExpired)
	}
	s.post(path+"/sign-out", `{"person":"p2"}`).want(http.StatusOK, &done)
	if !done.Repeated {
		t.Error("a second time something was left to end")
	}
	s.post(path+"/sign-out", "").want(http.StatusOK, nil)
	if isOpen(first) {
		t.Error("after all were signed out the owner's session is open")
	}
	s.post(path+"/sign-out", `{"person":"Bob Smith"}`).rejected(http.StatusBadRequest, "must not be a name")
	s.post("/admin/accounts/none/sign-out", "").rejected(http.StatusNotFound, "none")
}

func TestSignInEmails_AreSetListedAndErased(t *testing.T) {
	s := start(t)
	id := s.open("Acme").Account.ID
	path := "/admin/accounts/" + id + "/sign-in-emails"
	support := s.tok[operator.Support]
	type email struct {
		Person string
		Email  *string
	}
	for i, step := range []struct{ person, sent, set, listed string }{
		{"p2", "Bob@example.com", "bob@example.com", "p2 bob@example.com;"},
		{"owner", "Ann@Example.com", "ann@example.com", "owner ann@example.com;p2 bob@example.com;"},
		{"p2", "", "", "owner ann@example.com;"},
	} {
		var set, repeated email
		var shown struct {
			Emails []email `json:"sign_in_emails"`
		}
		change := request{method: "PUT", path: path + "/" + step.person, body: `{"email":"` + step.sent + `"}`, token: support, key: fmt.Sprint("change-", i)}
		s.send(change).want(http.StatusOK, &set)
		s.send(request{method: "GET", path: path, token: support}).want(http.StatusOK, &shown)
		listed := ""
		for _, e := range shown.Emails {
			listed += e.Person + " " + *e.Email + ";"
		}
		if set.Person != step.person || set.Email == nil || *set.Email != step.set || listed != step.listed {
			t.Errorf("set: %+v, then listed: %q; want %+v", set, listed, step)
		}
		if s.send(change).want(http.StatusOK, &repeated); repeated.Email != nil || repeated.Person != step.person {
			t.Errorf("the repeat is %+v", repeated)
		}
	}
	put := func(path, body string) answer { return s.send(request{method: "PUT", path: path, body: body}) }
	put(path+"/owner", `{"email":"ann"}`).rejected(http.StatusBadRequest, "ann@example.com")
	put(path+"/Ann", `{"email":"ann@example.com"}`).rejected(http.StatusBadRequest, "must not be a name")
	put("/admin/accounts/none/sign-in-emails/owner", `{"email":""}`).rejected(http.StatusNotFound, "none")
	s.send(request{method: "GET", path: path, token: s.tok[operator.Read]}).rejected(http.StatusForbidden, "support")
}

func TestLoginLink_BadRequest_IsRejected(t *testing.T) {
	s := start(t)
	id := s.open("Acme").Account.ID
	path := "/admin/accounts/" + id + "/login-link"
	for _, body := range []string{`{"person":"jane@example.com"}`, `{"person":""}`, `{"person":7}`, `{"name":"Jane"}`} {
		s.post(path, body).rejected(http.StatusBadRequest, "")
	}
	s.post(path, `{"person":"Jane"}`).rejected(http.StatusBadRequest, "not be a name")
	s.post("/admin/accounts/none/login-link", "").rejected(http.StatusNotFound, "none")
	for range signin.MaxOpenLinks {
		s.post(path, "").want(http.StatusCreated, nil)
	}
	s.post(path, "").rejected(http.StatusConflict, "wait 15 minutes")
}

// Rule 9.
func TestCloseAccount_EndsSessionsAndLinks(t *testing.T) {
	s := start(t)
	id := s.open("Acme").Account.ID
	path := "/admin/accounts/" + id
	var used, unused loginLink
	s.post(path+"/login-link", "").want(http.StatusCreated, &used)
	s.post(path+"/login-link", "").want(http.StatusCreated, &unused)
	hash, _, err := s.enter(used.URL, id)
	s.must(err)
	if a := s.post(path+"/close", "").want(http.StatusOK, nil); a.header.Get("X-Unconfirmed") != "" {
		t.Error("the closing is not confirmed")
	}
	if found, err := s.node.Models.Sessions.ByHash(t.Context(), hash, s.node.Now()); !errors.Is(err, sessions.ErrNotFound) {
		t.Errorf("after the account was closed: %+v, %v", found, err)
	}
	if _, _, err := s.enter(unused.URL, id); !errors.Is(err, signin.ErrLinkExpired) {
		t.Errorf("a link of the closed account: %v, want %v", err, signin.ErrLinkExpired)
	}
	s.post(path+"/login-link", "").rejected(http.StatusConflict, "closed")
	if _, _, err := s.node.Writers.SignIns.IssueLink(t.Context(), byCustomer(id), id, ""); !errors.Is(err, domain.ErrClosed) {
		t.Errorf("another link: %v, want %v", err, domain.ErrClosed)
	}
}

// Rule 9.
func TestNodes_SignOutOnOne_OtherRejectsSession(t *testing.T) {
	one, other := startTwo(t)
	id := one.open("Acme").Account.ID
	for i := range 5 {
		var link loginLink
		one.post("/admin/accounts/"+id+"/login-link", "").want(http.StatusCreated, &link)
		hash, begun, err := other.enter(link.URL, id)
		one.must(err)
		if _, _, err := one.enter(link.URL, id); !errors.Is(err, signin.ErrLinkUsed) {
			t.Errorf("the link on the other node: %v, want %v", err, signin.ErrLinkUsed)
		}
		for _, n := range []*service{one, other} {
			_, err := n.node.Models.Sessions.ByHash(t.Context(), hash, n.node.Now())
			n.must(err)
		}
		if i%2 == 0 {
			one.must(one.node.Operations.SignIns.SignOut(t.Context(), byCustomer(id), id, begun.ID))
		} else {
			_, err := one.node.Operations.SignIns.SignOutEverywhere(t.Context(), byCustomer(id), id, signin.Owner)
			one.must(err)
		}
		for _, n := range []*service{other, one} {
			if found, err := n.node.Models.Sessions.ByHash(t.Context(), hash, n.node.Now()); !errors.Is(err, sessions.ErrNotFound) {
				t.Errorf("after the sign-out: %+v, %v", found, err)
			}
		}
	}
}
