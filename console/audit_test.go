package console_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"letterhead/commands"
	"letterhead/domain/operator"
	"letterhead/domain/proof"
	"letterhead/eventschemas"
	"letterhead/operations"
)

// charged charges an account for a look-up of acme.com, and returns the id of the request.
func (s *service) charged(accountID string) string {
	s.t.Helper()
	by := commands.Request{ID: "req_" + uuid.NewString(), Actor: "account:" + accountID}
	_, err := s.node.Writers.Accounts.ChargeLookup(s.t.Context(), commands.ChargeLookup{Request: by, AccountID: accountID, BrandID: uuid.NewString(), Domain: "acme.com"})
	s.must(err)
	return by.ID
}

func TestReplay_OfAnyAccount_ShowsEachMoment(t *testing.T) {
	s := start(t)
	id := s.account("Acme")
	request := s.charged(id)
	p := s.signedIn(operator.Read)
	page := "/accounts/" + id
	p.get(page).shows(200, "Replay the account from its first event")
	newest := p.get(page+"/replay").shows(200, "Replayed = stored, chain verified to revision 4.", "Balance 49 credits", "After revision 4, the newest", "Look-up of acme.com", "letterhead ledger check proof-")
	for _, link := range []string{page + "/replay?at=3", page + "/requests/" + request, page + "/statements/"} {
		if !strings.Contains(newest.body, `href="`+link) {
			t.Errorf("the replay does not lead to %s", link)
		}
	}
	p.get(page+"/replay?at=1").shows(200, "After revision 1", "Balance 50 credits", "The entry of the ledger has the same balance")
	p.get(page+"/replay?at=9999-12-31T23:59:59Z").shows(200, "Replay of Acme", "After revision 4, the newest", "Replayed = stored")
	p.get(page+"/replay?at=2000-02-29").shows(200, "Replay of Acme", "Before the first event", "had no events yet at 2000-02-29 23:59:59 UTC")
	p.get(page+"/replay?at=2026-02-29T00:00").shows(422, "or a time like 2026-11-30T15:04:05Z")
	if title := "<title>Replay of Acme · Letterhead operators</title>"; !strings.Contains(newest.body, title) {
		t.Errorf("the title is not %s", title)
	}
	p.get(page+"/replay?at=5").shows(422, "its newest revision is 4")
	p.get("/accounts/unknown/replay").shows(404, "There is no account unknown")
	s.browser().get(page+"/replay").shows(401, "not signed in")
}

func TestStory_Charge_LeadsToTheRecordAsItWas(t *testing.T) {
	s := start(t)
	before := "Acme"
	record := eventschemas.Record{Name: &before, Company: eventschemas.EmptyCompany(), QualityScore: 0.5, Complete: true}
	s.imported(record, "catalog 1")
	id := s.account("Acme")
	request := s.charged(id)
	p := s.signedIn(operator.Support)
	p.submit("/brands/acme.com", "/brands/acme.com/override", map[string]string{"field": "name", "value": `"Acme Inc."`, "reason": "test"}).leadsTo("/brands/acme.com?done=override")
	page := "/accounts/" + id + "/requests/" + request
	a := p.get(page).shows(200, "Why was it charged?", "1 credit for this request", "The record of acme.com as it was then")
	_, rest, ok := strings.Cut(a.body, `href="/brands/acme.com?as_of=`)
	at, _, closed := strings.Cut(rest, `"`)
	if !ok || !closed {
		t.Fatalf("the story does not lead to the record:\n%s", a.body)
	}
	p.get("/brands/acme.com?as_of="+at).shows(200, "The record as it was at", `"name": "Acme"`)
	p.get("/brands/acme.com").shows(200, `"name": "Acme Inc."`)
	p.get("/accounts/"+id+"/requests/unknown").shows(404, "no entries of this request")
}

func TestStatement_OfAnyAccount_IsShownAndDownloaded(t *testing.T) {
	s := start(t)
	id := s.account("Acme")
	s.charged(id)
	p := s.signedIn(operator.Read)
	path := "/accounts/" + id + "/statements/" + s.node.Now().UTC().Format("2006-01")
	if a := p.get(path); a.status != http.StatusOK || a.header.Get("Content-Type") != "text/html; charset=utf-8" || !strings.Contains(a.header.Get("Content-Security-Policy"), "style-src 'sha256-") || !strings.Contains(a.body, id) {
		t.Errorf("the page: status %d, %v\n%s", a.status, a.header, a.body)
	}
	p.get(path+"?format=xml").shows(400, "format")
	for format, contentType := range map[string]string{"?format=json": "application/json; charset=utf-8", "?format=csv": "text/csv; charset=utf-8"} {
		a := p.get(path + format)
		if a.status != http.StatusOK || a.header.Get("Content-Type") != contentType || !strings.HasPrefix(a.header.Get("Content-Disposition"), `attachment; filename="statement-`) || !strings.Contains(a.body, id) {
			t.Errorf("%s: status %d, %v\n%s", format, a.status, a.header, a.body)
		}
	}
	p.get("/accounts/"+id+"/statements/nonsense").shows(400, "month")
}

func TestProof_AtTheLastCheckpoint_IsDownloaded(t *testing.T) {
	s := start(t)
	id := s.account("Acme")
	s.charged(id)
	p := s.signedIn(operator.Read)
	month := s.node.Now().UTC().Format("2006-01")
	path := "/accounts/" + id + "/statements/" + month + "/proof"
	p.get(path).shows(409, "POST /admin/ledger/checkpoints")
	made, err := s.node.Operations.Checkpoints.Make(t.Context(), s.node.Operator(), time.Time{}, "")
	s.must(err)
	a := p.get(path)
	if a.status != http.StatusOK || a.header.Get("Content-Type") != "text/plain; charset=utf-8" || a.header.Get("Content-Disposition") != `attachment; filename="proof-`+month+`.txt"` {
		t.Fatalf("status %d, %v\n%s", a.status, a.header, a.body)
	}
	keys, err := operations.PublicLedgerKeys(s.node.Config)
	s.must(err)
	known, err := proof.ParseKeys(keys)
	s.must(err)
	report, err := proof.Check(strings.NewReader(a.body), known, &proof.Earlier{Note: made.Note})
	if err != nil || report.AccountID != id || report.Events != 5 {
		t.Errorf("the proof shows %+v, %v; want 5 events of %s", report, err, id)
	}
	p.get("/accounts/"+id+"/statements/nonsense/proof").shows(400, "month")
	p.get("/accounts/unknown/statements/"+month+"/proof").shows(404, "There is no account")
}
