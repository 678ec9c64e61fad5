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

// Bounds on the time of a look-up.
const (
	// atOnce is for whatever answers or fails without being waited for.
	atOnce = 3 * time.Second
	// heavy is for pages whose pictures take work.
	heavy = 5 * time.Second
	// clientsGiveUp is when nobody listens anymore.
	clientsGiveUp = 10 * time.Second
)

const (
	// maxRequests bounds what one crawl asks of all hosts.
	maxRequests = 32
	// maxCrawlBytes bounds what one crawl reads, and socketBytes what the kernel takes beside it for one
	// answer that is broken off.
	maxCrawlBytes = 20 << 20
	socketBytes   = 8 << 20
	// maxHeader bounds the head of an answer.
	maxHeader = 64 << 10
)

// row is what is true of a look-up of one host.
type row struct {
	status []int // of the first look-up; more than one where chance decides
	code   string
	again  int // status when it is asked for again: remembered, and nothing is fetched
	cost   int // credits of the first look-up

	name  string // "" is not looked at, of a failure
	logos logos

	within time.Duration

	must []string // paths that are fetched; see request.path
	may  []string // paths that may be fetched beside them; one that ends in * stands for all that begin so
	// repeats is how often one path may be fetched: 1 when it is 0.
	repeats int
	// requests bounds all requests: maxRequests when it is 0.
	requests int
	bytes    int64    // bounds the bytes of all answers: maxCrawlBytes when it is 0
	also     []string // other hosts that may be asked
}

// logos is what a host has to show.
type logos int

const (
	none logos = iota
	some
	either // chance, or the time, decides
)

// Paths that are asked for without being declared.
var (
	rules     = "/robots.txt"
	knownIcon = []string{"/apple-touch-icon.png", "/favicon.ico"}
	// undeclared are those of a home page that was not shown.
	undeclared = append([]string{rules, "/site.webmanifest"}, knownIcon...)
)

func join(lists ...[]string) []string { return slices.Concat(lists...) }

// plain are paths without TLS.
func plain(paths []string) []string {
	var out []string
	for _, p := range paths {
		out = append(out, "http:"+p)
	}
	return out
}

// failure is the row of a host that gives no record. The statuses to answer when asked again are those of the
// specification: an outcome of the site stays what it is, one of the network may pass.
func failure(status int, code string, must, may []string) row {
	again := status
	if status == 502 || status == 504 {
		again = 503
	}
	within := atOnce
	if status == 504 {
		within = clientsGiveUp
	}
	return row{status: []int{status}, code: code, again: again, within: within, must: must, may: may}
}

// found is the row of a host with a record: it costs a credit when there is a logo in it.
func found(name string, l logos, must, may []string) row {
	r := row{status: []int{200}, again: 200, name: name, logos: l, within: atOnce, must: join([]string{"/", rules}, must), may: may}
	if l == some {
		r.cost = 1
	}
	return r
}

func (r row) takes(within time.Duration) row { r.within = within; return r }

func (r row) repeating(times int) row { r.repeats = times; return r }

func (r row) reaching(hosts ...string) row { r.also = hosts; return r }

func (r row) atMost(requests int) row { r.requests = requests; return r }

func (r row) reading(bytes int64) row { r.bytes = bytes; return r }

// check looks a host up twice, at a server that has not crawled it before, and compares everything with its
// row. When it is alone, nothing else crawls meanwhile, and all traffic is its own.
func (r row) check(t *testing.T, s *server, host string, alone bool) {
	t.Helper()
	began := time.Now()
	a := s.lookup(t, host, "?refresh=true")
	t.Logf("%s", a)
	r.answered(t, a)
	if cost := s.charges(t, a.header.Get("X-Request-Id")); cost != r.cost && r.logos != either {
		t.Errorf("it cost %d credits, not %d", cost, r.cost)
	} else if want := a.status == 200 && a.brand.files() > 0; r.logos == either && want != (cost == 1) {
		t.Errorf("it cost %d credits with %d logo files and status %d", cost, a.brand.files(), a.status)
	}
	hosts := append([]string{host, "www." + host}, r.also...)
	if alone {
		hosts = nil
	}
	r.fetched(t, host, began, hosts)

	second := time.Now()
	b := s.lookup(t, host, "")
	again := r.again
	if len(r.status) > 1 && a.status == 200 {
		again = 200
	}
	if b.status != again || b.brand.Error.Code != a.brand.Error.Code {
		t.Errorf("asked again it answered %s, not %d", b, again)
	}
	if b.status == 200 && b.header.Get("X-Cache") != "HIT" {
		t.Errorf("asked again it was a %s", b.header.Get("X-Cache"))
	}
	if b.status == 503 && b.header.Get("Retry-After") == "" {
		t.Error("a 503 without Retry-After")
	}
	if b.elapsed > atOnce {
		t.Errorf("asked again it took %s", b.elapsed)
	}
	if more := since(t, second, host); len(more) > 0 {
		t.Errorf("asked again it fetched %s", shown(more))
	}
}

// answered compares an answer with the row.
func (r row) answered(t *testing.T, a answer) {
	t.Helper()
	if !slices.Contains(r.status, a.status) || a.status != 200 && a.brand.Error.Code != r.code {
		t.Errorf("answered %s, not %v %s: %s", a, r.status, r.code, a.brand.Error.Message)
	}
	if a.elapsed > r.within {
		t.Errorf("took %s, the bound is %s", a.elapsed, r.within)
	}
	if a.status != 200 {
		return
	}
	if a.header.Get("X-Cache") != "MISS" {
		t.Errorf("a crawl answered as a %s", a.header.Get("X-Cache"))
	}
	if got := deref(a.brand.Name); got != r.name {
		t.Errorf("the name is %q, not %q", got, r.name)
	}
	if have := a.brand.files() > 0; r.logos != either && have != (r.logos == some) {
		t.Errorf("%d logo files", a.brand.files())
	}
	for _, l := range a.brand.Logos {
		for _, f := range l.Formats {
			loads(t, f.Src, f.Format)
		}
	}
}

// fetched compares the traffic at some hosts, all when none is named, with the row.
func (r row) fetched(t *testing.T, host string, began time.Time, hosts []string) {
	t.Helper()
	var seen []request
	var missing string
	testwait.Until(logPatience, func() bool { // a line is written when its answer has ended
		seen = since(t, began, hosts...)
		missing = r.missing(host, seen)
		return missing == ""
	})
	if missing != "" {
		t.Errorf("%s was not fetched", missing)
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
				t.Errorf("%s was fetched (%d)", s.path(), s.Status)
			}
		case !slices.Contains(r.also, s.Host):
			t.Errorf("%s was asked for %s", s.Host, s.Path)
		}
		if s.Method != "" {
			key := s.Host + " " + s.path()
			if times[key]++; times[key] == max(r.repeats, 1)+1 {
				t.Errorf("%s was fetched %d times", key, times[key])
			}
			if !ours(s) {
				t.Errorf("%s was fetched by %q", s.path(), s.UserAgent)
			}
		}
		if s.Canary {
			t.Errorf("a private address was reached: %+v", s)
		}
	}
	limit := r.requests
	if limit == 0 {
		limit = maxRequests
	}
	if len(seen) > limit {
		t.Errorf("%d requests, at most %d", len(seen), limit)
	}
	most := r.bytes
	if most == 0 {
		most = maxCrawlBytes
	}
	if bytes > most+int64(max(broken, 1))*socketBytes {
		t.Errorf("%d bytes were sent, at most %d are read", bytes, most)
	}
	t.Logf("%d requests, %d bytes: %s", len(seen), bytes, shown(seen))
}

// missing is a path of the row that no request asked for, or "".
func (r row) missing(host string, seen []request) string {
	for _, path := range r.must {
		if !slices.ContainsFunc(seen, func(s request) bool { return s.Host == host && s.path() == path }) {
			return path
		}
	}
	return ""
}

func (r row) allows(path string) bool {
	return slices.ContainsFunc(join(r.must, r.may), func(p string) bool {
		if start, ok := strings.CutSuffix(p, "*"); ok {
			return strings.HasPrefix(path, start)
		}
		return p == path
	})
}

// shown is traffic in short.
func shown(list []request) string {
	var out []string
	for _, r := range list {
		out = append(out, fmt.Sprintf("%s%s=%d", r.Host, r.path(), r.Status))
	}
	return strings.Join(out, " ")
}
