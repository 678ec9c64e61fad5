package console_test

import (
	"net/url"
	"strings"
	"testing"

	"letterhead/dashboard/site/sitetest"
	"letterhead/domain/operator"
)

func TestSearch_OneHit_LeadsToItsPage(t *testing.T) {
	s := start(t)
	p := s.signedIn(operator.Read)
	id := s.account("Nordwind Energie")
	p.get("/search?q=nordwind+energie").leadsTo("/accounts/" + id)
	p.get("/search?q=" + id).leadsTo("/accounts/" + id)
	for _, text := range []string{"nordw", "energie+nordwind", id[:8]} { // it may be another one that is meant
		p.get("/search?q="+text).shows(200, "Nordwind Energie")
	}
	other := s.account("Nordwind & <Söhne>")
	found := p.get("/search?q=nordwind").shows(200, "Nordwind Energie", "Nordwind & <Söhne>", "account "+id)
	for _, one := range []string{id, other} {
		if !strings.Contains(found.body, `href="/accounts/`+one) {
			t.Errorf("the page has no link to %s", one)
		}
	}
	p.get("/search?q=nordwind+%26+%3Cs%C3%96hne%3E").leadsTo("/accounts/" + other)
	p.get("/").shows(200)
	if body := p.get("/accounts").shows(200).body; !strings.Contains(body, `action="/search"`) {
		t.Error("the page of accounts has no field for the search")
	}
}

func TestSearch_WrongOrUnknownText_HasASentence(t *testing.T) {
	p := start(t).signedIn(operator.Admin)
	for _, text := range []string{"a", strings.Repeat("a", 500), "ab%00", "%FF%FF"} {
		p.get("/search?q="+text).shows(400, "This field")
	}
	p.get("/search").shows(400, "This field is needed: a name")
	for _, text := range []string{"%25%25", "__", "nothing+of+that+name"} {
		p.get("/search?q="+text).shows(200, "Nothing matches")
	}
}

func TestAccounts_ByName_AreListed(t *testing.T) {
	s := start(t)
	p := s.signedIn(operator.Read)
	s.account("Nordwind")
	s.account("Other")
	if rows := sitetest.Rows(p.get("/accounts?q=nord&sort=-spend").shows(200).page); len(rows) != 1 || rows[0][0] != "Nordwind" {
		t.Errorf("accounts by name: %v", rows)
	}
	p.get("/accounts?q=a").shows(400).beside("q", "This field takes 2 to 200 characters of text.")
}

func TestLists_FiltersAndFiles_HaveTheSameRows(t *testing.T) {
	s := start(t)
	id := s.account("Acme")
	s.account("Bolt")
	s.charged(id)
	p := s.signedIn(operator.Admin)
	ledger := "/accounts/" + id + "/ledger"
	p.get(ledger+"?domain=ACM").shows(200, "Look-up of acme.com").lacks("Free credits")
	p.get(ledger+"?from=2100-01-01&to=2000-01-01").shows(400).beside("from", "This field is after")
	p.get(ledger+"?from=2100-01-01").shows(200, "No entry matches.")
	p.get("/accounts?from=2100-01-01").shows(200, "No account matches.")
	p.get("/brands?domain=githu").shows(200, "No brand matches.")
	for path, want := range map[string][]string{
		ledger + "?domain=acm": {"at,revision,type,what,", ",Look-up of acme.com,"},
		"/accounts?q=acme":     {"account.id,account.name,", id + ",Acme,growth,active,"},
		"/payments":            {"payment_id,account_id,"},
		"/brands":              {"domain,status,"},
		"/crawls":              {"domain,at,"},
		"/inbox":               {"id,at,type,"},
		"/actions?stream=" + url.QueryEscape("account-"+id): {"at,what,", ",Account opened,AccountOpened,account-" + id + ",Acme,"},
	} {
		separator := "?"
		if strings.Contains(path, "?") {
			separator = "&"
		}
		a := p.get(path + separator + "format=csv")
		if a.status != 200 || a.header.Get("Content-Type") != "text/csv; charset=utf-8" {
			t.Errorf("%s as a file: status %d, %v", path, a.status, a.header)
		}
		for _, text := range want {
			if !strings.Contains(a.body, text) {
				t.Errorf("%s as a file lacks %q:\n%s", path, text, a.body)
			}
		}
		if strings.Contains(a.body, "Bolt") || strings.Contains(a.body, "Free credits") {
			t.Errorf("%s as a file has rows that the filter leaves out:\n%s", path, a.body)
		}
	}
}
