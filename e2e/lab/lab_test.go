//go:build lab

// Package lab runs the built binary, its guard on, in a closed little internet: real DNS and TLS, recorded
// home pages, and sites that misbehave. `make lab` builds this test and starts it in there.
package lab

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"
)

const (
	readyTimeout  = 60 * time.Second
	clientTimeout = 30 * time.Second
	listen        = "127.0.0.1:18080"
	base          = "http://" + listen
)

var (
	client    = &http.Client{Timeout: clientTimeout}
	data      string
	accountID string
	secret    string
)

func TestMain(m *testing.M) {
	if os.Getenv("LAB") != "1" {
		fmt.Println("this test runs inside the lab only; use make lab")
		os.Exit(1)
	}
	os.Exit(run(m))
}

func letterhead(args ...string) ([]byte, error) {
	cmd := exec.Command(os.Getenv("LETTERHEAD_BINARY"), append([]string{"--data", data}, args...)...)
	var errs bytes.Buffer
	cmd.Stderr = &errs
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("letterhead %s: %w: %s", strings.Join(args, " "), err, errs.String())
	}
	return out, nil
}

func run(m *testing.M) int {
	var err error
	if data, err = os.MkdirTemp("", "lab-data-"); err != nil {
		panic(err)
	}
	defer os.RemoveAll(data)
	logs, err := os.Create(data + ".log")
	if err != nil {
		panic(err)
	}
	defer os.Remove(logs.Name())
	server := exec.Command(os.Getenv("LETTERHEAD_BINARY"), "serve", "--data", data, "--listen", listen)
	// Small limits would make this a test of limits.
	server.Env = append(os.Environ(), "LETTERHEAD_CRAWLS_PER_MINUTE=10000", "LETTERHEAD_PLAN_CRAWLS=free=10,starter=30,growth=60,custom=10000", "LETTERHEAD_REFRESH=off")
	server.Stdout, server.Stderr = logs, logs
	if err := server.Start(); err != nil {
		panic(err)
	}
	defer server.Wait()
	defer server.Process.Kill()
	for deadline := time.Now().Add(readyTimeout); ; {
		resp, err := client.Get(base + "/readyz")
		if err == nil {
			resp.Body.Close()
			if resp.StatusCode == http.StatusOK {
				break
			}
		}
		if time.Now().After(deadline) {
			said, _ := os.ReadFile(logs.Name())
			fmt.Printf("the server did not get ready: %s\n", said)
			return 1
		}
		time.Sleep(50 * time.Millisecond)
	}
	out, err := letterhead("account", "create", "--name", "Lab", "--plan", "custom", "--json")
	if err != nil {
		fmt.Println(err)
		return 1
	}
	var created struct {
		Account struct{ ID string }
		Keys    []struct{ Kind, Key string }
	}
	if err := json.Unmarshal(out, &created); err != nil {
		panic(err)
	}
	accountID = created.Account.ID
	for _, k := range created.Keys {
		if k.Kind == "secret" {
			secret = k.Key
		}
	}
	if _, err := letterhead("credits", "grant", "--account", accountID, "--amount", "1000", "--kind", "adjustment"); err != nil {
		fmt.Println(err)
		return 1
	}
	code := m.Run()
	if code != 0 {
		said, _ := os.ReadFile(logs.Name())
		fmt.Printf("the server's log ends:\n%s\n", said[max(0, len(said)-8000):])
	}
	return code
}

type brand struct {
	Name        *string
	Domain      string
	Description *string
	Status      string
	OGImage     *string
	Links       []struct{ Name, URL string }
	Colors      []struct{ Hex, Type string }
	Logos       []struct {
		Type    string
		Formats []struct {
			Src, Format   string
			Width, Height *int
		}
	}
	Error struct{ Code string }
}

type answer struct {
	status  int
	header  http.Header
	brand   brand
	elapsed time.Duration
}

func lookup(t *testing.T, identifier, query string) answer {
	t.Helper()
	req, err := http.NewRequest(http.MethodGet, base+"/v1/brands/"+identifier+query, nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+secret)
	began := time.Now()
	resp, err := client.Do(req)
	if err != nil {
		t.Fatalf("%s: %v", identifier, err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	a := answer{status: resp.StatusCode, header: resp.Header, elapsed: time.Since(began)}
	if err := json.Unmarshal(body, &a.brand); err != nil {
		t.Fatalf("%s answered %d without JSON: %s", identifier, resp.StatusCode, body)
	}
	return a
}

// charges returns what the ledger says a request cost, and fails when a hold of it did not end.
func charges(t *testing.T, requestID string) int {
	t.Helper()
	out, err := letterhead("ledger", "show", "--account", accountID, "--request-id", requestID, "--json")
	if err != nil {
		t.Fatal(err)
	}
	charged, open := 0, 0
	lines := bufio.NewScanner(bytes.NewReader(out))
	for lines.Scan() {
		var l struct {
			Type   string
			Amount int
		}
		if err := json.Unmarshal(lines.Bytes(), &l); err != nil {
			t.Fatal(err)
		}
		switch l.Type {
		case "CreditsHeld":
			open++
		case "CreditsCharged":
			charged -= l.Amount
			open--
		case "HoldReleased":
			open--
		}
	}
	if open > 0 {
		t.Errorf("request %s left a hold open", requestID)
	}
	return charged
}

// loads fetches a file of the record and returns its bytes.
func loads(t *testing.T, src, format string) []byte {
	t.Helper()
	resp, err := client.Get(src)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != http.StatusOK {
		t.Fatalf("%s: %d %v", src, resp.StatusCode, err)
	}
	want := map[string]string{"svg": "image/svg+xml", "png": "image/png", "webp": "image/webp", "jpeg": "image/jpeg"}[format]
	if got := resp.Header.Get("Content-Type"); got != want {
		t.Errorf("%s is %s, not %s", src, got, want)
	}
	return body
}

func TestRecordedHomePages(t *testing.T) {
	names := map[string]string{
		"archive.org": "Internet Archive", "ard.de": "ARD", "daringfireball.net": "Daring Fireball",
		"github.com": "GitHub", "netflix.com": "Netflix", "random.org": "RANDOM.ORG",
	}
	for domain, name := range names {
		t.Run(domain, func(t *testing.T) {
			t.Parallel()
			a := lookup(t, domain, "?refresh=true")
			if a.status != http.StatusOK || a.header.Get("X-Cache") != "MISS" {
				t.Fatalf("answered %d %s (%s)", a.status, a.header.Get("X-Cache"), a.brand.Error.Code)
			}
			if a.brand.Name == nil || !strings.EqualFold(*a.brand.Name, name) {
				t.Errorf("the name is %v, not %s", deref(a.brand.Name), name)
			}
			if a.brand.Domain != domain {
				t.Errorf("the domain is %s", a.brand.Domain)
			}
			files := 0
			for _, l := range a.brand.Logos {
				for _, f := range l.Formats {
					if len(loads(t, f.Src, f.Format)) > 0 {
						files++
					}
				}
			}
			if files == 0 {
				t.Error("no logo file")
			}
			if cost := charges(t, a.header.Get("X-Request-Id")); cost != 1 {
				t.Errorf("it cost %d credits", cost)
			}
		})
	}
}

func TestTheGoodSiteIsReadAsItIs(t *testing.T) {
	a := lookup(t, "good-lab.com", "")
	if a.status != http.StatusOK {
		t.Fatalf("answered %d %s", a.status, a.brand.Error.Code)
	}
	if deref(a.brand.Name) != "Good Lab" || deref(a.brand.Description) != "Good Lab makes careful instruments for curious people." {
		t.Errorf("name %q, description %q", deref(a.brand.Name), deref(a.brand.Description))
	}
	if deref(a.brand.OGImage) != "https://good-lab.com/og.png" {
		t.Errorf("share image %q", deref(a.brand.OGImage))
	}
	colors := map[string]string{}
	for _, c := range a.brand.Colors {
		colors[c.Hex] = c.Type
	}
	if colors["#0b5fff"] == "" {
		t.Errorf("colors %v lack the brand's #0b5fff", colors)
	}
	links := map[string]string{}
	for _, l := range a.brand.Links {
		links[l.Name] = l.URL
	}
	for name, want := range map[string]string{"linkedin": "good-lab", "twitter": "goodlab", "github": "good-lab", "instagram": "goodlab", "youtube": "goodlab"} {
		if !strings.Contains(links[name], want) {
			t.Errorf("the link to %s is %q", name, links[name])
		}
	}
	formats := map[string]bool{}
	for _, l := range a.brand.Logos {
		for _, f := range l.Formats {
			formats[f.Format] = true
			loads(t, f.Src, f.Format)
		}
	}
	if !formats["svg"] || !formats["png"] || !formats["webp"] {
		t.Errorf("formats %v", formats)
	}
	if cost := charges(t, a.header.Get("X-Request-Id")); cost != 1 {
		t.Errorf("it cost %d credits", cost)
	}
	if b := lookup(t, "good-lab.com", ""); b.header.Get("X-Cache") != "HIT" {
		t.Errorf("the second look-up was a %s", b.header.Get("X-Cache"))
	}
}

// Every kind of trouble has its status, costs nothing, leaves no hold, and ends in time.
func TestTrouble(t *testing.T) {
	type row struct {
		status int
		code   string
	}
	hosts := map[string]row{
		"nxdomain": {404, "domain_not_found"}, "dns-empty": {404, "domain_not_found"},
		"servfail": {502, "fetch_failed"}, "refused": {502, "fetch_failed"}, "unreachable": {502, "fetch_failed"},
		"reset": {502, "fetch_failed"}, "tls-selfsigned": {502, "fetch_failed"}, "tls-expired": {502, "fetch_failed"},
		"tls-wronghost": {502, "fetch_failed"}, "server-error": {502, "fetch_failed"}, "huge-header": {502, "fetch_failed"},
		"redirect-loop": {502, "fetch_failed"}, "redirect-chain": {502, "fetch_failed"}, "redirect-private": {502, "fetch_failed"},
		"dns-private": {502, "fetch_failed"}, "dns-private6": {502, "fetch_failed"},
		"blackhole": {504, "timeout"}, "blackhole-accept": {504, "timeout"}, "slow-headers": {504, "timeout"},
		"forbidden": {422, "fetch_blocked"}, "unauthorized": {422, "fetch_blocked"}, "gone-legal": {422, "fetch_blocked"},
		"linkedin-style-999": {422, "fetch_blocked"}, "cloudflare": {422, "fetch_blocked"}, "captcha-200": {422, "fetch_blocked"},
		"parked": {404, "no_brand_data"}, "default-nginx": {404, "no_brand_data"}, "empty": {404, "no_brand_data"},
		"json": {404, "no_brand_data"}, "pdf": {404, "no_brand_data"},
	}
	for name, want := range hosts {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			host := name + "-lab.com"
			a := lookup(t, host, "")
			if a.status != want.status || a.brand.Error.Code != want.code {
				t.Errorf("answered %d %s after %s, not %d %s", a.status, a.brand.Error.Code, a.elapsed.Round(time.Millisecond), want.status, want.code)
			}
			if a.elapsed > 12*time.Second {
				t.Errorf("took %s; clients give up at 10 s", a.elapsed)
			}
			if cost := charges(t, a.header.Get("X-Request-Id")); cost != 0 {
				t.Errorf("it cost %d credits", cost)
			}
			// The failure is remembered: no second crawl, and the remembered status.
			b := lookup(t, host, "")
			remembered := map[int]int{502: 503, 504: 503, 422: 422, 404: 404}[want.status]
			if b.status != remembered || b.brand.Error.Code != want.code {
				t.Errorf("asked again it answered %d %s, not %d %s", b.status, b.brand.Error.Code, remembered, want.code)
			}
			if b.status == 503 && b.header.Get("Retry-After") == "" {
				t.Error("a 503 without Retry-After")
			}
		})
	}
}

// Pages with something wrong on them still give a record, bounded, without what was wrong.
func TestBadFilesOnGoodPages(t *testing.T) {
	for _, name := range []string{"gzip-bomb", "endless-body", "png-bomb", "ico-bomb", "svg-bomb", "svg-script", "broken-utf8", "utf16", "gb18030", "nested-513", "logo-404", "logo-html", "many-icons", "icon-private", "http-only", "https-only", "cookie-loop", "cross-redirect", "nologo", "slow-body", "dns-mixed", "dns-rebind", "dark"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a := lookup(t, name+"-lab.com", "")
			files := 0
			for _, l := range a.brand.Logos {
				for _, f := range l.Formats {
					files++
					body := string(loads(t, f.Src, f.Format))
					if f.Format == "svg" && regexp.MustCompile(`(?i)<script|javascript:|\bon[a-z]+\s*=|<foreignObject|<!ENTITY|https?://(?:[^w]|w[^w])`).MatchString(body) {
						t.Errorf("a residue in %s: %.300s", f.Src, body)
					}
				}
			}
			cost := charges(t, a.header.Get("X-Request-Id"))
			t.Logf("%d %s, name %q, %d logo files, %d credits, %s", a.status, a.brand.Error.Code, deref(a.brand.Name), files, cost, a.elapsed.Round(time.Millisecond))
			if want := map[bool]int{true: 1, false: 0}[a.status == 200 && files > 0]; cost != want {
				t.Errorf("it cost %d credits with %d logo files and status %d", cost, files, a.status)
			}
			if a.elapsed > 12*time.Second {
				t.Errorf("took %s", a.elapsed)
			}
			switch name {
			case "http-only", "https-only", "utf16", "gb18030", "nested-513", "png-bomb", "ico-bomb", "svg-bomb", "svg-script", "logo-404", "logo-html", "many-icons", "nologo", "cross-redirect", "cookie-loop", "dark", "broken-utf8":
				if a.status != 200 || a.brand.Name == nil {
					t.Errorf("answered %d %s with name %q", a.status, a.brand.Error.Code, deref(a.brand.Name))
				}
			}
		})
	}
}

func TestManyLookUpsOfOneUnknownDomainAreOneCrawl(t *testing.T) {
	var wg sync.WaitGroup
	ids := make([]string, 30)
	for i := range ids {
		wg.Go(func() {
			a := lookup(t, "bimi-lab.com", "")
			ids[i] = a.header.Get("X-Request-Id")
		})
	}
	wg.Wait()
	pages := 0
	for _, r := range requests(t) {
		if r.Host == "bimi-lab.com" && r.Path == "/" && r.TLS != "" {
			pages++
		}
	}
	if pages != 1 {
		t.Errorf("%d look-ups fetched the home page %d times", len(ids), pages)
	}
}

type request struct {
	Host, Path, TLS string
	Canary          bool
}

func requests(t *testing.T) []request {
	t.Helper()
	resp, err := client.Get(os.Getenv("LAB_CONTROL") + "/log")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	var out []request
	lines := bufio.NewScanner(resp.Body)
	lines.Buffer(nil, 16<<20)
	for lines.Scan() {
		var raw map[string]any
		if err := json.Unmarshal(lines.Bytes(), &raw); err != nil {
			t.Fatal(err)
		}
		canary, _ := raw["canary"].(bool)
		out = append(out, request{Host: fmt.Sprint(raw["host"]), Path: fmt.Sprint(raw["path"]), TLS: fmt.Sprint(raw["tls"]), Canary: canary})
	}
	return out
}

// Last by its name: whatever the tests before it made the crawler fetch, no private address was reached.
func TestZCanariesWereNeverTouched(t *testing.T) {
	all := requests(t)
	if len(all) == 0 {
		t.Fatal("the lab saw no request at all")
	}
	for _, r := range all {
		if r.Canary {
			t.Errorf("a private address was reached: %+v", r)
		}
	}
}

func TestZEveryChainHolds(t *testing.T) {
	for _, args := range [][]string{{"ledger", "verify"}, {"projections", "verify"}} {
		if _, err := letterhead(args...); err != nil {
			t.Error(err)
		}
	}
}

func deref(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}
