package readapi_test

import (
	"bufio"
	"encoding/json"
	"io"
	"net/http"
	"os"
	"reflect"
	"strconv"
	"strings"
	"testing"

	"letterhead/domain/brand"
	"letterhead/domain/plan"
	"letterhead/internal/testmust"
)

// replayed is a request as a client of the compatible brand API sends it: the names and the order of
// the headers are those of the named HTTP library, and {sk}, {pk} and {id} are replaced by a secret
// key, a publishable key and a brand's id. The lines end in CRLF when sent.
type replayed struct {
	client string
	bytes  string
}

// recordings reads the requests of a file, each below a line with the name of its client.
func recordings(t *testing.T, file string) (all []replayed) {
	t.Helper()
	text := testmust.Get(os.ReadFile(file))(t)
	for part := range strings.SplitSeq(strings.TrimPrefix(string(text), "## "), "\n## ") {
		client, bytes, _ := strings.Cut(part, "\n")
		all = append(all, replayed{client, bytes})
	}
	return all
}

// replay sends a request as often as its connection stays open, but at most twice: a second answer
// shows that the first left the connection in the state that the client expects.
func (c *customer) replay(r replayed, id string) []answer {
	t := c.s.t
	t.Helper()
	bytes := strings.NewReplacer("\n", "\r\n", "{sk}", c.secret, "{pk}", c.publishable, "{id}", id).Replace(r.bytes)
	conn := c.s.dial(bytes)
	defer conn.Close()
	reader := bufio.NewReader(conn)
	var all []answer
	for {
		resp, err := http.ReadResponse(reader, nil)
		c.s.must(err)
		a := readWhole(t, resp)
		all = append(all, a)
		if resp.ContentLength != int64(len(a.body)) || len(resp.TransferEncoding) != 0 || resp.Uncompressed || a.header.Get("Content-Encoding") != "" {
			t.Errorf("%s: length %d of %d bytes, %v, header %v", r.client, resp.ContentLength, len(a.body), resp.TransferEncoding, a.header)
		}
		old := strings.Contains(bytes, " HTTP/1.0\r\n") // its connection ends, and the answer says so: see framingAmbiguous
		if old && !strings.EqualFold(a.header.Get("Connection"), "close") {
			t.Errorf("%s: the connection is kept: header %v", r.client, a.header)
		}
		if closes := strings.Contains(bytes, "Connection: close\r\n") || old; closes {
			if rest, err := io.ReadAll(reader); len(rest) != 0 || err != nil {
				t.Errorf("%s: after the answer %q, %v", r.client, rest, err)
			}
			return all
		}
		if len(all) == 2 {
			return all
		}
		_, err = conn.Write([]byte(bytes))
		c.s.must(err)
	}
}

// field extracts a value from a document as integrations do, by names and numbers.
func field(document any, path string) any {
	for step := range strings.SplitSeq(path, ".") {
		switch inner := document.(type) {
		case map[string]any:
			document = inner[step]
		case []any:
			i, err := strconv.Atoi(step)
			if err != nil || i >= len(inner) {
				return nil
			}
			document = inner[i]
		default:
			return nil
		}
	}
	return document
}

// readAs checks the fields that integrations read.
func (a answer) readAs(t testing.TB, client string, want map[string]any) {
	t.Helper()
	var document any
	if err := json.Unmarshal(a.body, &document); err != nil || a.status != http.StatusOK || !strings.HasPrefix(a.header.Get("Content-Type"), "application/json") {
		t.Errorf("%s: status %d, %q, body %s (%v); want %d and text that begins with %q", client, a.status, a.header.Get("Content-Type"), a.body, err, http.StatusOK, "application/json")
		return
	}
	for path, value := range want {
		if got := field(document, path); !reflect.DeepEqual(got, value) {
			t.Errorf("%s: %s is %v, want %v", client, path, got, value)
		}
	}
}

func TestV2Replay_Lookups_MatchTheirRecordings(t *testing.T) {
	t.Parallel()
	s, c := startWith(t, plan.Free, 50)
	id := s.known("acme.com", record("acme"))
	file := baseURL + "/cdn/" + strings.Repeat("ab", 32)
	answers, clients := 0, recordings(t, "testdata/v2/lookups.txt")
	for _, r := range clients {
		for _, a := range c.replay(r, id) {
			answers++
			a.readAs(t, r.client, map[string]any{
				"id": id, "urn": "urn:letterhead:brand:" + id, "name": "acme", "domain": "acme.com", "claimed": false,
				"description": "What acme does.", "longDescription": "What acme does, at length.", "qualityScore": 0.83, "isNsfw": false,
				"logos.0.type": "logo", "logos.0.theme": "dark", "logos.0.tags": []any{},
				"logos.0.formats.0.src": file + ".svg", "logos.0.formats.0.format": "svg", "logos.0.formats.0.background": "transparent",
				"logos.0.formats.1.src": file + ".png", "logos.0.formats.1.format": "png", "logos.0.formats.1.width": 512.0,
				"logos.0.formats.1.height": 256.0, "logos.0.formats.1.size": 1234.0,
				"colors.0.hex": "#0b57d0", "colors.0.type": "accent", "colors.0.brightness": 81.0,
				"fonts.0.name": "Inter", "fonts.0.type": "title", "fonts.0.origin": "google", "fonts.0.originId": "inter", "fonts.0.weights": []any{400.0, 700.0},
				"images.0.type": "banner", "images.0.formats.0.src": file + ".jpeg", "images.0.formats.0.format": "jpeg",
				"links.0.name": "github", "links.0.url": "https://github.com/acme",
				"company.employees": 51.0, "company.foundedYear": 1999.0, "company.kind": "PRIVATELY_HELD",
				"company.location.city": "Berlin", "company.location.country": "Germany", "company.location.countryCode": "DE",
				"company.industries.0.name": "Software", "company.industries.0.slug": "software", "company.industries.0.score": 0.9,
				"company.industries.0.parent.name": "Technology",
			})
		}
	}
	if b := c.books(); len(b.charges) != answers || b.balance() != int64(50-answers) || answers <= len(clients) {
		t.Errorf("%d charges, balance %d after %d answers to %d clients", len(b.charges), b.balance(), answers, len(clients))
	}
}

func TestV2Replay_Searches_MatchTheirRecordings(t *testing.T) {
	t.Parallel()
	s, c := startWith(t, plan.Free, 50)
	id := s.known("cafe-und-co.de", record("Café & Co"))
	answers := int64(0)
	for _, r := range recordings(t, "testdata/v2/searches.txt") { // each name finds "Café & Co" only
		for _, a := range c.replay(r, id) {
			answers++
			a.readAs(t, r.client, map[string]any{
				"0.brandId": id, "0.name": "Café & Co", "0.domain": "cafe-und-co.de", "0.icon": baseURL + "/logo/cafe-und-co.de",
				"0.claimed": false, "0.qualityScore": 0.83, "1": nil,
			})
			if a.header.Get("Access-Control-Allow-Origin") != "*" {
				t.Errorf("%s: the page cannot read the answer: header %v", r.client, a.header)
			}
		}
	}
	if got := decodeAccount(t, c.get("/v1/me").body).Usage.Searches; got != answers {
		t.Errorf("%d searches are counted after %d answers", got, answers)
	}
	if b := c.books(); len(b.charges) != 0 || b.balance() != 50 {
		t.Errorf("%d charges, balance %d; want 0 and 50", len(b.charges), b.balance())
	}
}

// Integrations read the status, then message at the top of the body.
func TestV2Replay_Errors_MatchTheirRecordings(t *testing.T) {
	t.Parallel()
	s := start(t)
	c, broke := s.account(plan.Free, 50), s.account(plan.Free, 0)
	s.crawler.fails("gone.com", brand.DNS)
	for _, r := range []struct {
		who    *customer
		status int
		code   string
		replayed
	}{
		{c, 404, "domain_not_found", replayed{"axios", "GET /v2/brands/gone.com HTTP/1.1\nAccept: application/json, text/plain, */*\nAuthorization: Bearer {sk}\nUser-Agent: axios/1.21.1\nHost: brands.example.com\nConnection: close\n\n"}},
		{c, 404, "not_found", replayed{"Go, an unencoded URL", "GET /v2/brands/https://acme.com HTTP/1.1\nHost: brands.example.com\nUser-Agent: Go-http-client/1.1\nAuthorization: Bearer {sk}\nConnection: close\n\n"}},
		{c, 404, "not_found", replayed{"curl, another kind of id", "GET /v2/brands/ticker/NKE HTTP/1.1\nHost: brands.example.com\nUser-Agent: curl/7.88.1\nAccept: */*\nAuthorization: Bearer {sk}\nConnection: close\n\n"}},
		{c, 400, "invalid_domain", replayed{"Guzzle, a ticker", "GET /v2/brands/NKE HTTP/1.1\nHost: brands.example.com\nUser-Agent: GuzzleHttp/7\nContent-Type: application/json\nAccept: application/json\nAuthorization: Bearer {sk}\nConnection: close\n\n"}},
		{c, 401, "unauthorized", replayed{"axios without a setting", "GET /v2/brands/acme.com HTTP/1.1\nAccept: application/json, text/plain, */*\nAuthorization: Bearer undefined\nUser-Agent: axios/1.21.1\nHost: brands.example.com\nConnection: close\n\n"}},
		{c, 401, "unauthorized", replayed{"search with a referer for a key", "GET /v2/search/acme HTTP/1.1\nAccept: application/json\nReferer: http://localhost\nUser-Agent: axios/1.21.1\nHost: brands.example.com\nConnection: close\n\n"}},
		{c, 401, "unauthorized", replayed{"search with a secret key in c", "GET /v2/search/acme?c={sk} HTTP/1.1\nHost: brands.example.com\nUser-Agent: curl/7.88.1\nAccept: */*\nConnection: close\n\n"}},
		{c, 403, "forbidden", replayed{"the front end's key on the server", "GET /v2/brands/acme.com HTTP/1.1\nHost: brands.example.com\nUser-Agent: python-requests/2.34.2\nAccept: */*\nAuthorization: Bearer {pk}\nConnection: close\n\n"}},
		{broke, 402, "insufficient_credits", replayed{"requests, no credits", "GET /v2/brands/acme.com/ HTTP/1.1\nHost: brands.example.com\nUser-Agent: python-requests/2.34.2\nAccept: */*\nAuthorization: Bearer {sk}\nConnection: close\n\n"}},
		{c, 405, "invalid_request", replayed{"a label of a bank transaction", "POST /v2/brands/transaction HTTP/1.1\nHost: brands.example.com\nUser-Agent: Go-http-client/1.1\nContent-Length: 32\nAuthorization: Bearer {sk}\nContent-Type: application/json\nConnection: close\n\n" + `{"transactionLabel":"ACME 1234"}`}},
	} {
		t.Log(r.client)
		r.who.replay(r.replayed, "")[0].rejectedV2(t, r.status, r.code)
	}
	for _, who := range []*customer{c, broke} {
		if b := who.books(); len(b.charges) != 0 || len(b.openHolds) != 0 {
			t.Errorf("%d charges, %d holds open; want 0 and 0", len(b.charges), len(b.openHolds))
		}
	}
}
