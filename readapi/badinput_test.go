package readapi_test

import (
	"bufio"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"letterhead/domain/brand"
	"letterhead/domain/plan"
)

// mistakes returns the keys that typing errors make of one: each character replaced by every other and by some that no
// key contains, omitted, or followed by another; and each two adjacent characters swapped.
func mistakes(key string) []string {
	const base62 = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
	var wrong []string
	add := func(changed string) {
		if changed != key {
			wrong = append(wrong, changed)
		}
	}
	for at := range len(key) {
		for _, c := range base62 + "-_+/. ,;\"" {
			if c == ' ' && (at == 0 || at == len(key)-1) {
				continue // results in a shorter key, which is covered below
			}
			add(key[:at] + string(c) + key[at+1:])
		}
		add(key[:at] + key[at+1:])
		for _, c := range []string{"0", "z", key[at : at+1], "é"} {
			add(key[:at+1] + c + key[at+1:])
		}
		for other := at + 1; other < len(key); other++ {
			swapped := []byte(key)
			swapped[at], swapped[other] = swapped[other], swapped[at]
			add(string(swapped))
		}
	}
	return wrong
}

// TestKey_Mistyped_Is401 sends the keys one after the other on one connection. None of them takes a
// unit of the account's minute.
func TestKey_Mistyped_Is401(t *testing.T) {
	t.Parallel()
	s, c := startWith(t, plan.Free, 50)
	for path, key := range map[string]string{"/v1/me": c.secret, "/v1/search?q=acme": c.publishable} {
		wrong := mistakes(key)
		conn := s.dial("")
		defer conn.Close()
		go func() {
			w := bufio.NewWriter(conn)
			for _, k := range wrong {
				fmt.Fprintf(w, "GET %s HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer %s\r\n\r\n", path, k)
			}
			w.Flush()
		}()
		r := bufio.NewReader(conn)
		for _, k := range wrong {
			s.must(conn.SetDeadline(time.Now().Add(waitLimit))) // for each answer, because there are thousands
			resp, err := http.ReadResponse(r, nil)
			if err != nil {
				t.Fatalf("%q: %v", k, err)
			}
			body, err := io.ReadAll(resp.Body)
			s.must(err)
			if resp.StatusCode != http.StatusUnauthorized || resp.Header.Get("WWW-Authenticate") != "Bearer" || !strings.Contains(string(body), `"unauthorized"`) {
				t.Errorf("%q instead of %q: status %d, %s", k, key, resp.StatusCode, body)
			}
		}
		t.Logf("%d mistyped keys on %s", len(wrong), path)
	}
	if left := c.get("/v1/me").ok(t).Get("X-RateLimit-Remaining"); left != "59" {
		t.Errorf("X-RateLimit-Remaining %s, want %q", left, "59")
	}
}

// TestKey_InURL_IsNeitherUsedNorLogged covers every path and header.
func TestKey_InURL_IsNeitherUsedNorLogged(t *testing.T) {
	t.Parallel()
	s := start(t)
	s.known("acme.com", record("acme"))
	victim, other := s.account(plan.Free, 50), s.account(plan.Custom, 50)
	keys := []string{victim.secret, victim.publishable}
	for _, path := range []string{"/v1/brands/acme.com", "/v1/search?q=acme", "/v1/me"} {
		for _, name := range []string{"key", "c", "api_key", "access_token"} {
			for _, key := range keys {
				with := path + "?" + name + "=" + key
				if strings.Contains(path, "?") {
					with = path + "&" + name + "=" + key
				}
				a := s.send(request{path: with})
				a.rejected(t, http.StatusUnauthorized, "unauthorized")
				if a.header.Get("X-RateLimit-Limit") != "" {
					t.Errorf("%s: the key was read: header %v", path, a.header)
				}
				if h := s.send(request{path: with, header: bearer(other.secret)}).ok(t); h.Get("X-RateLimit-Limit") != "3000" {
					t.Errorf("%s: the key in the URL was used: %v", path, h)
				}
				s.send(request{path: with, header: bearer(mistyped(other.secret))}).rejected(t, http.StatusUnauthorized, "unauthorized")
			}
		}
	}
	// The same if it is all or part of a path, is redirected, or comes with an unsupported method.
	for _, r := range []request{
		{path: "/" + victim.secret}, {path: "/v1/brands/" + victim.secret}, {path: "/v1//me?key=" + victim.secret},
		{path: "/v1/brands/" + victim.secret, header: bearer(other.secret)}, {path: "/cdn/" + victim.secret + ".png?key=" + victim.secret},
		{path: "/v1/me?key=" + victim.secret, method: "BREW"}, {path: "/docs/errors?key=" + victim.secret},
		{path: "/v1/me", header: http.Header{"X-Request-Id": {victim.secret}, "User-Agent": {victim.secret}, "Referer": {"https://x/?key=" + victim.secret}}},
	} {
		if a := s.send(r); a.status == http.StatusOK && r.path != "/docs/errors?key="+victim.secret {
			t.Errorf("%s was not rejected", strings.ReplaceAll(r.path, victim.secret, "<key>"))
		}
	}
	seen := s.logs.all() + s.scrape()
	for _, key := range append(keys, other.secret) {
		if strings.Contains(seen, key) || strings.Contains(seen, key[6:38]) {
			t.Error("the log or the metrics contain a key")
		}
	}
	if b := victim.books(); len(b.charges) != 0 || b.holds != 0 {
		t.Errorf("%d charges, %d holds; want 0 and 0", len(b.charges), b.holds)
	}
	if left := victim.get("/v1/me").ok(t).Get("X-RateLimit-Remaining"); left != "59" {
		t.Errorf("X-RateLimit-Remaining %s, want %q", left, "59")
	}
}

// TestKey_SeveralHeaders_Is401UnlessEqual sends headers as raw bytes, because clients normalize them.
func TestKey_SeveralHeaders_Is401UnlessEqual(t *testing.T) {
	t.Parallel()
	inBubble(t, func(s *service) {
		c, other := s.account(plan.Custom, 50), s.account(plan.Custom, 50)
		mine, theirs := c.secret, other.secret
		for _, c := range []struct{ name, headers, want string }{
			{"names have no case", "aUTHORIZATION: Bearer " + mine, "200"},
			{"nor has the scheme", "Authorization: bEARER " + mine, "200"},
			{"spaces around", "Authorization:  Bearer   " + mine + " \t ", "200"},
			{"X-Api-Key", "x-api-key:\t" + mine, "200"},
			{"both the same", "X-Api-Key: " + mine + "\r\nAuthorization: Bearer " + mine, "200"},
			{"both, different", "X-Api-Key: " + mine + "\r\nAuthorization: Bearer " + theirs, "401"},
			{"a good and a bad one", "X-Api-Key: " + mine + "\r\nAuthorization: Bearer " + mistyped(mine), "401"},
			{"a bad and a good one", "X-Api-Key: " + mistyped(mine) + "\r\nAuthorization: Bearer " + mine, "401"},
			{"beside a gateway's token", "X-Api-Key: " + mine + "\r\nAuthorization: Bearer eyJhbGciOi.x.y", "200"},
			{"beside two gateways' tokens", "X-Api-Key: " + mine + "\r\nAuthorization: Basic eDp5\r\nAuthorization: Bearer eyJhbGciOi.x.y", "200"},
			{"a bad one beside a gateway's token", "X-Api-Key: " + mistyped(mine) + "\r\nAuthorization: Bearer eyJhbGciOi.x.y", "401"},
			{"a gateway's token alone", "Authorization: Bearer eyJhbGciOi.x.y", "401"},
			{"another's without a scheme", "X-Api-Key: " + mine + "\r\nAuthorization: " + theirs, "401"},
			{"another's in another scheme", "X-Api-Key: " + mine + "\r\nAuthorization: Token  " + theirs, "401"},
			{"a foreign key in X-Api-Key", "X-Api-Key: eyJhbGciOi\r\nAuthorization: Bearer " + mine, "401"},
			{"twice", "Authorization: Bearer " + mine + "\r\nAuthorization: Bearer " + mine, "401"},
			{"twice in two spellings", "authorization: Bearer " + mine + "\r\nAUTHORIZATION: Bearer " + theirs, "401"},
			{"twice, once empty", "X-Api-Key: " + mine + "\r\nX-Api-Key:", "401"},
			{"two in one header", "Authorization: Bearer " + mine + ", Bearer " + theirs, "401"},
			{"two in one X-Api-Key", "X-Api-Key: " + mine + "," + mine, "401"},
			{"something behind it", "Authorization: Bearer " + mine + " x", "401"},
			{"a tab before it", "Authorization: Bearer\t" + mine, "401"},
			{"no scheme", "Authorization: " + mine, "401"},
			{"scheme twice", "Authorization: Bearer Bearer " + mine, "401"},
			{"in quotes", `Authorization: Bearer "` + mine + `"`, "401"},
			{"folded", "Authorization: Bearer " + mine[:20] + "\r\n " + mine[20:], "401"},
			{"percent-encoded", "Authorization: Bearer " + strings.Replace(mine, "_", "%5F", 1), "401"},
			{"in full width", "Authorization: Bearer " + strings.Replace(mine, "lh", "ｌｈ", 1), "401"},
			{"as a user's name", "Authorization: Basic " + mine, "401"},
			{"as a cookie", "Cookie: key=" + mine + "; Authorization=Bearer " + mine, "401"},
			{"for the proxy", "Proxy-Authorization: Bearer " + mine, "401"},
			{"an underscore", "X_Api_Key: " + mine, "401"},
			{"beside an empty X-Api-Key", "X-Api-Key:\r\nAuthorization: Bearer " + mine, "200"},
			{"beside two other schemes", "X-Api-Key: " + mine + "\r\nAuthorization: Negotiate YII=" +
				"\r\nAuthorization: Digest username=\"" + theirs + "\"", "200"},
			{"beside a scheme alone", "X-Api-Key: " + mine + "\r\nAuthorization: Negotiate", "200"},
			{"the same in another scheme", "X-Api-Key: " + mine + "\r\nAuthorization: Token " + mine, "200"},
			{"the same without a scheme", "X-Api-Key: " + mine + "\r\nAuthorization: " + mine, "200"},
			{"another's behind a tab", "X-Api-Key: " + mine + "\r\nAuthorization: Bearer\t" + theirs, "401"},
			{"another's in the second header", "X-Api-Key: " + mine + "\r\nAuthorization: Basic x" +
				"\r\nAuthorization: Bearer " + theirs, "401"},
			{"the same, once twice", "Authorization: Bearer " + mine + "\r\nX-Api-Key: " + mine +
				"\r\nX-Api-Key: " + mine, "401"},
			{"a second header of a gateway", "Authorization: Basic x\r\nAuthorization: Bearer " + mine, "401"},
			{"in another scheme", "Authorization: Token " + mine, "401"},
			{"a scheme alone", "Authorization: Bearer", "401"},
			{"ten thousand characters", "Authorization: Bearer " + mine + strings.Repeat("0", 10_000), "401"},
			{"a NUL behind it", "Authorization: Bearer " + mine + "\x00", "400"},
			{"a space before the colon", "X-Api-Key : " + mine, "400"},
		} {
			if got := s.bytes("GET /v1/me HTTP/1.1\r\nHost: x\r\nConnection: close\r\n" + c.headers + "\r\n\r\n"); got != c.want {
				s.t.Errorf("%s: %s, want %s", c.name, got, c.want)
			}
		}
	})
}

// everyMethod lists methods that clients may send.
var everyMethod = []string{"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "PROPFIND", "BREW"}

var pathParameter = regexp.MustCompile(`\{[^}]*\}`)

// paths returns the API's paths, with a value for each parameter.
func (s *service) paths() map[string]bool {
	s.t.Helper()
	routes, err := s.api.Routes()
	s.must(err)
	values := map[string]string{"{page}": "errors", "{id}": brand.ID("acme.com").String(), "{file}": strings.Repeat("0", 64) + ".svg"}
	paths := map[string]bool{}
	for _, route := range routes {
		if route == "/compat/" { // forms of other services, which the description cannot express; TestProfiles_… ask them
			continue
		}
		path := pathParameter.ReplaceAllStringFunc(route, func(name string) string {
			if value, ok := values[name]; ok {
				return value
			}
			return "acme.com"
		})
		paths[path] = true
	}
	if len(paths) < 4 {
		s.t.Fatalf("only %d paths: %v; want at least 4", len(paths), paths)
	}
	return paths
}

// The methods in a path's Allow header are answered, and no others.
func TestOptions_EveryPath_AllowsWhatItAnswers(t *testing.T) {
	t.Parallel()
	s := start(t)
	known := map[string]string{
		"/v1/brands/acme.com": "GET, HEAD, OPTIONS", "/v1/search": "GET, HEAD, OPTIONS", "/v1/me": "GET, HEAD, OPTIONS", "/docs/errors": "GET, HEAD, OPTIONS",
		"/mcp": "POST, OPTIONS", // in the order that clients are promised
	}
	paths := s.paths()
	for path := range known {
		if !paths[path] {
			t.Errorf("%s is not a path of the API", path)
		}
	}
	for path := range paths {
		allow := s.send(request{method: "BREW", path: path}).header.Get("Allow")
		if want := known[path]; allow == "" || want != "" && allow != want {
			t.Errorf("%s allows %q, want %q", path, allow, want)
			continue
		}
		listed := strings.Split(allow, ", ")
		if !slices.IsSorted(listed) && known[path] == "" || !slices.Contains(listed, "OPTIONS") {
			t.Errorf("%s allows %q", path, allow)
		}
		for _, method := range everyMethod {
			a := s.send(request{method: method, path: path})
			if a.header.Get("X-Request-Id") == "" {
				t.Errorf("%s %s: no request id", method, path)
			}
			switch allowed := slices.Contains(listed, method); {
			case method == "OPTIONS":
				if a.status != http.StatusNoContent || a.header.Get("Allow") != allow || len(a.body) != 0 {
					t.Errorf("OPTIONS %s: status %d, Allow %q", path, a.status, a.header.Get("Allow"))
				}
			case allowed:
				if a.status == http.StatusMethodNotAllowed || a.status >= 500 {
					t.Errorf("%s %s: status %d", method, path, a.status)
				}
			default:
				if a.status != http.StatusMethodNotAllowed || a.header.Get("Allow") != allow || a.header.Get("Cache-Control") != "no-store" {
					t.Errorf("%s %s: status %d, headers %v", method, path, a.status, a.header)
				}
			}
		}
	}
}
