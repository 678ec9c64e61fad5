//go:build lab

package lab

import (
	"bufio"
	"encoding/json"
	"maps"
	"net/http"
	"os"
	"slices"
	"strings"
	"testing"
	"time"
)

// request is a line of the lab's request log.
type request struct {
	Time      time.Time
	Host      string
	Method    string
	Path      string // with the query
	Status    int
	Bytes     int64  // of the body, written to the socket
	UserAgent string `json:"user_agent"`
	TLS       bool
	Canary    bool // a private address was reached
	Note      string
}

const (
	// maxLogLine is the limit of a line of the log. Paths may contain long data.
	maxLogLine = 16 << 20
	// logTimeout is how long the log line of an aborted response may be delayed.
	logTimeout = 3 * time.Second
)

// path returns the path as the rows write it: /path for HTTPS, http:/path for plain HTTP.
func (r request) path() string {
	if r.TLS {
		return r.Path
	}
	return "http:" + r.Path
}

// allRequests returns all requests that the sites of the lab have received.
func allRequests(t testing.TB) []request {
	t.Helper()
	resp, err := client.Get(os.Getenv("LAB_CONTROL") + "/log")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		t.Fatalf("the lab's request log: %s", resp.Status)
	}
	var out []request
	lines := bufio.NewScanner(resp.Body)
	lines.Buffer(nil, maxLogLine)
	for lines.Scan() {
		var r request
		if err := json.Unmarshal(lines.Bytes(), &r); err != nil {
			t.Fatal(err)
		}
		out = append(out, r)
	}
	if err := lines.Err(); err != nil {
		t.Fatal(err)
	}
	return out
}

// requestsSince returns the requests that began at a time or later, to the given hosts or, without hosts, to all.
func requestsSince(t testing.TB, began time.Time, hosts ...string) []request {
	t.Helper()
	return slices.DeleteFunc(allRequests(t), func(r request) bool {
		return r.Time.Before(began) || len(hosts) > 0 && !slices.Contains(hosts, r.Host)
	})
}

// fromCrawler reports whether the user agent of a request is the crawler of a server.
func fromCrawler(r request) bool {
	return strings.HasPrefix(r.UserAgent, "Mozilla/5.0 (compatible; LetterheadBot/1.0; +http://127.0.0.1:") && strings.HasSuffix(r.UserAgent, "/bot)")
}

// The tests of this file run last because their file is the last in the folder. No test made a crawler reach a private
// address, and every request named the crawler.
// Rule 11.
func TestZGuard_AllRequests_ReachedNoPrivateAddress(t *testing.T) {
	all := allRequests(t)
	if len(all) == 0 {
		t.Fatal("the lab received no requests")
	}
	for _, r := range all {
		if r.Canary {
			t.Errorf("a private address was reached: %+v", r)
		}
		if r.Method != "" && (r.Method != http.MethodGet || !fromCrawler(r)) {
			t.Errorf("unexpected request %s %s%s by %q", r.Method, r.Host, r.Path, r.UserAgent)
		}
	}
}

// No test requested a path of a host that the host's row does not allow.
func TestZRows_AllRequests_AreNamed(t *testing.T) {
	rows := maps.Clone(builtIn)
	maps.Copy(rows, sites)
	redirects := rows["redirect-private-lab.com"] // also crawled by TestRedirects_ToPrivateAddresses_AreNotFollowed
	redirects.optional = concat(redirects.optional, []string{"/private/*", "http:/icon.png"})
	rows["redirect-private-lab.com"] = redirects
	checked := 0
	for _, r := range allRequests(t) {
		row, ok := rows[r.Host]
		if !ok || r.Method == "" {
			continue
		}
		checked++
		if !row.allows(r.path()) {
			t.Errorf("host %s received a request for %s, which its row does not allow", r.Host, r.path())
		}
	}
	if checked == 0 {
		t.Error("no request went to a host with a row")
	}
}

func TestZLedger_AfterAllTests_Verifies(t *testing.T) {
	for _, args := range [][]string{{"ledger", "verify"}, {"projections", "verify"}} {
		if _, err := node.letterhead(args...); err != nil {
			t.Error(err)
		}
	}
}
