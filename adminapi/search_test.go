package adminapi_test

import (
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"

	"letterhead/commands"
	"letterhead/domain/operator"
	"letterhead/internal/accountnames"
)

type hits struct {
	Hits []struct{ Kind, ID, Title, Path string }
	More bool
}

func (s *service) search(scope operator.Scope, text string) (found hits) {
	s.t.Helper()
	s.send(request{method: "GET", path: "/admin/search?q=" + url.QueryEscape(text), token: s.tok[scope]}).want(http.StatusOK, &found)
	return found
}

// wantHits compares the hits of a search with texts "kind title".
func (s *service) wantHits(scope operator.Scope, text string, want ...string) {
	s.t.Helper()
	var got []string
	for _, h := range s.search(scope, text).Hits {
		got = append(got, h.Kind+" "+h.Title)
	}
	if !slices.Equal(got, want) {
		s.t.Errorf("search for %q with the scope %s: %q, want %q", text, scope, got, want)
	}
}

func TestSearch_FindsEverythingWithANameOrAnID(t *testing.T) {
	s := start(t)
	id := s.open("Quintero Söhne GmbH").Account.ID
	other := s.open("Zebra").Account.ID
	s.send(request{method: "PUT", path: "/admin/accounts/" + id + "/sign-in-emails/owner", body: `{"email":"ann.fields@mail.example"}`}).want(http.StatusOK, nil)
	s.post("/admin/accounts/"+id+"/grants", `{"kind":"topup","credits":5,"payment_id":"pi_77"}`).want(http.StatusOK, nil)
	_, err := s.node.Writers.Accounts.ChargeLookup(t.Context(), commands.ChargeLookup{Request: commands.Request{ID: "req_9", Actor: "account:" + id}, AccountID: id, BrandID: "7c0c2b1e-5a39-5b8d-9a50-0f4a3f1d2c3b", Domain: "acme.com"})
	s.must(err)
	const name = "account Quintero Söhne GmbH"
	for _, text := range []string{"quint", "SOHNE quintero", " gmbh ", id, id[:8], strings.ToUpper(id[:12])} {
		s.wantHits(operator.Read, text, name)
	}
	s.wantHits(operator.Read, id[:7])
	s.wantHits(operator.Support, "ann.fields@mail.example", name)
	s.wantHits(operator.Support, "fiel", name)
	s.wantHits(operator.Support, "ann.fields@mail.exam") // another address
	s.wantHits(operator.Read, "ann.fields@mail.example") // its scope may not read addresses
	s.wantHits(operator.Read, "pi_77", "payment Payment of account "+id)
	s.wantHits(operator.Read, "req_9", "request Request of account "+id)
	if found := s.search(operator.Read, "req_9"); found.Hits[0].Path != "/accounts/"+id+"/requests/req_9" {
		t.Errorf("the request is at %s", found.Hits[0].Path)
	}
	issued, err := s.node.Operations.Tokens.Issue(t.Context(), s.node.Operator(), "Ulrike Ops", operator.Read, noEnd)
	s.must(err)
	s.wantHits(operator.Admin, "ulrike", "operator Ulrike Ops")
	s.wantHits(operator.Read, "ulrike")
	s.wantHits(operator.Read, issued.ID, "operator Operator "+issued.ID)
	s.post("/admin/accounts/"+id+"/close", "").want(http.StatusOK, nil)
	s.wantHits(operator.Admin, "quintero")
	s.wantHits(operator.Admin, "fields")
	s.wantHits(operator.Admin, id, "account "+id)
	s.wantHits(operator.Admin, other, "account Zebra")
}

func TestSearch_WrongText_IsRejected(t *testing.T) {
	s := start(t)
	s.open("Acme")
	for _, query := range []string{"", "?q=", "?q=a", "?q=+a+", "?q=" + strings.Repeat("a", 500), "?q=ab%00", "?q=a%0Ab", "?q=%FFab", "?text=acme", "?q=acme&limit=3"} {
		a := s.get("/admin/search"+query).want(http.StatusBadRequest, nil)
		if !strings.Contains(a.text, "parameter") {
			t.Errorf("%q: %s", query, a.text)
		}
	}
	for _, text := range []string{"%%", "__", "%_%", "ac%e", "a_me", "''", `"x" OR 1`} {
		s.wantHits(operator.Admin, text)
	}
}

func TestAccounts_ByText_AreSelectedSortedAndPaged(t *testing.T) {
	s := start(t)
	var ids []string
	for i := range 5 {
		ids = append(ids, s.open(fmt.Sprint("Nordwind ", i)).Account.ID)
	}
	s.open("Other")
	s.post("/admin/accounts/"+ids[1]+"/suspend", `{"reason":"test"}`).want(http.StatusOK, nil)
	type list struct {
		Accounts []struct{ Account struct{ ID, Name string } }
		Next     string `json:"next_cursor"`
	}
	for query, want := range map[string]string{"": "43210", "&status=suspended": "1", "&as_of=" + "2099-01": ""} {
		got := ""
		for next := ""; ; {
			a := s.get("/admin/accounts?q=nordw&sort=-opened&limit=2" + query + next)
			if want == "" {
				a.want(http.StatusBadRequest, nil)
				break
			}
			var page list
			a.want(http.StatusOK, &page)
			for _, one := range page.Accounts {
				got += strings.TrimPrefix(one.Account.Name, "Nordwind ")
			}
			if page.Next == "" {
				break
			}
			next = "&cursor=" + page.Next
		}
		if got != want {
			t.Errorf("%s: accounts %s, want %s", query, got, want)
		}
	}
	for _, query := range []string{"q=a", "q=", "q=" + strings.Repeat("a", 500), "name=nordwind"} {
		s.get("/admin/accounts?"+query).want(http.StatusBadRequest, nil)
	}
}

// Keys have names, too.
func TestAccounts_ManyOtherNamesMatch_AreFound(t *testing.T) {
	s := start(t)
	var others []accountnames.Entry
	for i := range 1000 {
		others = append(others, accountnames.Entry{ID: fmt.Sprintf("0%07d", i), Name: fmt.Sprint("Nordwind ", i)})
	}
	s.must(s.node.Stores.Names.PutAll(t.Context(), others))
	s.open("Nordwind Zz")
	s.open("Nordwind")
	s.wantHits(operator.Read, "nordwind", "account Nordwind", "account Nordwind Zz")
	var page struct{ Accounts []any }
	s.get("/admin/accounts?q=nordwind").want(http.StatusOK, &page)
	if len(page.Accounts) != 2 {
		t.Errorf("accounts by name: %v", page.Accounts)
	}
}

func TestAccounts_LastOfAPageNoLongerMatches_NextPageContinues(t *testing.T) {
	s := start(t)
	var ids []string
	for i := range 5 {
		ids = append(ids, s.open(fmt.Sprint("Nordwind ", i)).Account.ID)
	}
	type list struct {
		Accounts []struct{ Account struct{ ID string } }
		Next     string `json:"next_cursor"`
	}
	var first, second list
	s.get("/admin/accounts?q=nordw&sort=opened&limit=2").want(http.StatusOK, &first)
	s.post("/admin/accounts/"+ids[1]+"/close", "").want(http.StatusOK, nil)
	s.get("/admin/accounts?q=nordw&sort=opened&limit=2&cursor="+first.Next).want(http.StatusOK, &second)
	if len(second.Accounts) != 2 || second.Accounts[0].Account.ID != ids[2] {
		t.Errorf("the second page is %v, want it to begin with %s", second.Accounts, ids[2])
	}
}
