//go:build lab

package lab

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"letterhead/internal/testwait"
)

// Limits on the duration of a look-up.
const (
	// quickTime is the limit for sites that answer or fail immediately.
	quickTime = 3 * time.Second
	// heavyTime is the limit for sites with expensive images.
	heavyTime = 5 * time.Second
	// slowTime is the limit for sites that never finish answering: then the crawl times out.
	slowTime = 10 * time.Second
)

const (
	// maxRequests is the limit of requests of one crawl to all hosts.
	maxRequests = 80
	// maxCrawlBytes is how much one crawl reads at most. For a response that the crawler aborts, the kernel accepts up
	// to socketBytes more.
	maxCrawlBytes = 20 << 20
	socketBytes   = 8 << 20
	// maxHeader is the limit of the size of response headers.
	maxHeader = 64 << 10
)

// row describes the expected look-up of one host.
type row struct {
	status       []int // of the first look-up; more than one if it is random
	code         string
	repeatStatus int // status of the second look-up, which makes no requests
	cost         int // credits of the first look-up

	name  string // of the brand; ignored for a failure
	logos logos

	maxTime time.Duration

	required []string // paths that the crawl must request; see request.path
	optional []string // further paths that it may request; a trailing * matches any suffix
	// repeatLimit is how often one path may be requested; 0 means 1.
	repeatLimit int
	// requestLimit is the limit of all requests; 0 means maxRequests.
	requestLimit int
	byteLimit    int64    // limit of the bytes of all responses; 0 means maxCrawlBytes
	otherHosts   []string // other hosts that may be requested
}

// logos states whether a host's record has logos.
type logos int

const (
	none logos = iota
	some
	either // random or dependent on timing
)

// Paths that the crawler requests without a reference to them.
var (
	robotsTxt      = "/robots.txt"
	wellKnownIcons = []string{"/apple-touch-icon.png", "/favicon.ico"}
	// wellKnownPaths are requested if the home page could not be read.
	wellKnownPaths = append([]string{robotsTxt, "/site.webmanifest"}, wellKnownIcons...)
)

func concat(lists ...[]string) []string { return slices.Concat(lists...) }

// withoutTLS returns the paths as request.path returns them for plain HTTP.
func withoutTLS(paths []string) []string {
	var out []string
	for _, p := range paths {
		out = append(out, "http:"+p)
	}
	return out
}

// failure returns the row of a host without a record. The second look-up repeats the status of a failure of the site,
// but answers 503 after a failure of the network, which may be temporary.
func failure(status int, code string, required, optional []string) row {
	repeatStatus := status
	if status == 502 || status == 504 {
		repeatStatus = 503
	}
	maxTime := quickTime
	if status == 504 {
		maxTime = slowTime
	}
	return row{status: []int{status}, code: code, repeatStatus: repeatStatus, maxTime: maxTime, required: required, optional: optional}
}

// found returns the row of a host with a record. The look-up costs a credit if the record has a logo.
func found(name string, l logos, required, optional []string) row {
	r := row{status: []int{200}, repeatStatus: 200, name: name, logos: l, maxTime: quickTime, required: concat([]string{"/", robotsTxt}, required), optional: optional}
	if l == some {
		r.cost = 1
	}
	return r
}

func (r row) withTime(maxTime time.Duration) row { r.maxTime = maxTime; return r }

func (r row) withRepeats(times int) row { r.repeatLimit = times; return r }

func (r row) withHosts(hosts ...string) row { r.otherHosts = hosts; return r }

func (r row) withRequests(n int) row { r.requestLimit = n; return r }

func (r row) withBytes(n int64) row { r.byteLimit = n; return r }

// check looks up a host twice on a server that has not crawled it before, and compares the answers and the traffic with
// the row. If alone is set, no other crawl runs, so all traffic belongs to this host.
func (r row) check(t *testing.T, s *server, host string, alone bool) {
	t.Helper()
	began := time.Now()
	a := s.lookup(t, host, "?refresh=true")
	t.Logf("%s", a)
	r.checkAnswer(t, a)
	if cost := s.charges(t, a.header.Get("X-Request-Id")); cost != r.cost && r.logos != either {
		t.Errorf("the look-up cost %d credits, want %d", cost, r.cost)
	} else if want := a.status == 200 && a.brand.files() > 0; r.logos == either && want != (cost == 1) {
		t.Errorf("the look-up cost %d credits with %d logo files and status %d", cost, a.brand.files(), a.status)
	}
	hosts := append([]string{host, "www." + host}, r.otherHosts...)
	if alone {
		hosts = nil
	}
	r.checkTraffic(t, host, began, hosts)

	second := time.Now()
	b := s.lookup(t, host, "")
	repeatStatus := r.repeatStatus
	if len(r.status) > 1 && a.status == 200 {
		repeatStatus = 200
	}
	if b.status != repeatStatus || b.brand.Error.Code != a.brand.Error.Code {
		t.Errorf("the second look-up answered %s, want %d", b, repeatStatus)
	}
	if b.status == 200 && b.header.Get("X-Cache") != "HIT" {
		t.Errorf("the second look-up answered X-Cache %s, want HIT", b.header.Get("X-Cache"))
	}
	if b.status == 503 && b.header.Get("Retry-After") == "" {
		t.Error("the second look-up answered 503 without Retry-After")
	}
	if b.elapsed > quickTime {
		t.Errorf("the second look-up took %s", b.elapsed)
	}
	if more := requestsSince(t, second, host); len(more) > 0 {
		t.Errorf("the second look-up made requests: %s", summary(more))
	}
}

// checkAnswer compares an answer with the row.
func (r row) checkAnswer(t *testing.T, a answer) {
	t.Helper()
	if !slices.Contains(r.status, a.status) || a.status != 200 && a.brand.Error.Code != r.code {
		t.Errorf("the look-up answered %s, want %v %s: %s", a, r.status, r.code, a.brand.Error.Message)
	}
	if a.elapsed > r.maxTime {
		t.Errorf("the look-up took %s, want at most %s", a.elapsed, r.maxTime)
	}
	if a.status != 200 {
		return
	}
	if a.header.Get("X-Cache") != "MISS" {
		t.Errorf("the crawl answered X-Cache %s, want MISS", a.header.Get("X-Cache"))
	}
	if got := deref(a.brand.Name); got != r.name {
		t.Errorf("name = %q, want %q", got, r.name)
	}
	if have := a.brand.files() > 0; r.logos != either && have != (r.logos == some) {
		t.Errorf("the record has %d logo files, unlike its row", a.brand.files())
	}
	for _, l := range a.brand.Logos {
		for _, f := range l.Formats {
			fetchFile(t, f.Src, f.Format)
		}
	}
}

// checkTraffic compares the traffic of hosts, or all traffic if hosts is empty, with the row.
func (r row) checkTraffic(t *testing.T, host string, began time.Time, hosts []string) {
	t.Helper()
	var seen []request
	var missing string
	testwait.Until(logTimeout, func() bool { // the lab logs a request when its response has ended
		seen = requestsSince(t, began, hosts...)
		missing = r.missing(host, seen)
		return missing == ""
	})
	if missing != "" {
		t.Errorf("%s was not requested", missing)
	}
	times := map[string]int{}
	var bytes int64
	var broken int
	for _, s := range seen {
		bytes += s.Bytes
		if s.Status == 0 || s.Bytes > socketBytes {
			broken++
		}
		switch {
		case s.Host == host || s.Host == "www."+host:
			if s.Host == host && s.Method != "" && !r.allows(s.path()) {
				t.Errorf("%s was requested (status %d)", s.path(), s.Status)
			}
		case !slices.Contains(r.otherHosts, s.Host):
			t.Errorf("host %s received a request for %s", s.Host, s.Path)
		}
		if s.Method != "" {
			key := s.Host + " " + s.path()
			if times[key]++; times[key] == max(r.repeatLimit, 1)+1 {
				t.Errorf("%s was requested %d times", key, times[key])
			}
			if !fromCrawler(s) {
				t.Errorf("%s was requested by %q", s.path(), s.UserAgent)
			}
		}
		if s.Canary {
			t.Errorf("a private address was reached: %+v", s)
		}
	}
	limit := r.requestLimit
	if limit == 0 {
		limit = maxRequests
	}
	if len(seen) > limit {
		t.Errorf("the crawl made %d requests, want at most %d", len(seen), limit)
	}
	most := r.byteLimit
	if most == 0 {
		most = maxCrawlBytes
	}
	if bytes > most+int64(max(broken, 1))*socketBytes {
		t.Errorf("the sites sent %d bytes, but a crawl reads at most %d", bytes, most)
	}
	t.Logf("%d requests, %d bytes: %s", len(seen), bytes, summary(seen))
}

// missing returns a required path that was not requested, or "".
func (r row) missing(host string, seen []request) string {
	for _, path := range r.required {
		if !slices.ContainsFunc(seen, func(s request) bool { return s.Host == host && s.path() == path }) {
			return path
		}
	}
	return ""
}

func (r row) allows(path string) bool {
	return slices.ContainsFunc(concat(r.required, r.optional), func(p string) bool {
		if start, ok := strings.CutSuffix(p, "*"); ok {
			return strings.HasPrefix(path, start)
		}
		return p == path
	})
}

// summary formats requests.
func summary(list []request) string {
	var out []string
	for _, r := range list {
		out = append(out, fmt.Sprintf("%s%s=%d", r.Host, r.path(), r.Status))
	}
	return strings.Join(out, " ")
}
