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
	Bytes     int64  // of the body, handed to the socket
	UserAgent string `json:"user_agent"`
	TLS       bool
	Canary    bool // a private address was reached
	Note      string
}

const (
	// maxLogLine bounds a line of the log: paths of data in addresses are long.
	maxLogLine = 16 << 20
	// logPatience is how long a line may take that stands for an answer which was broken off.
	logPatience = 3 * time.Second
)

// path writes an address as the tables do: /path over https, http:/path without.
func (r request) path() string {
	if r.TLS {
		return r.Path
	}
	return "http:" + r.Path
}

// traffic is every request that any site of the lab has seen.
func traffic(t testing.TB) []request {
	t.Helper()
	resp, err := client.Get(os.Getenv("LAB_CONTROL") + "/log")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		t.Fatalf("the lab's log: %s", resp.Status)
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

// since is the traffic that began at a moment or later, at some hosts; at all when none is named.
func since(t testing.TB, began time.Time, hosts ...string) []request {
	t.Helper()
	return slices.DeleteFunc(traffic(t), func(r request) bool {
		return r.Time.Before(began) || len(hosts) > 0 && !slices.Contains(hosts, r.Host)
	})
}

// ours reports whether a request introduces itself as the crawler of one of the servers.
func ours(r request) bool {
	return strings.HasPrefix(r.UserAgent, "Mozilla/5.0 (compatible; LetterheadBot/1.0; +http://127.0.0.1:") && strings.HasSuffix(r.UserAgent, "/bot)")
}

// Runs after the other tests, because its file is the last in the folder. Whatever they made the crawlers fetch, no
// private address was reached, and every request named its crawler.
func TestZGuard_AllRequests_ReachedNoPrivateAddress(t *testing.T) {
	all := traffic(t)
	if len(all) == 0 {
		t.Fatal("the lab saw no request at all")
	}
	for _, r := range all {
		if r.Canary {
			t.Errorf("a private address was reached: %+v", r)
		}
		if r.Method != "" && (r.Method != http.MethodGet || !ours(r)) {
			t.Errorf("a %s of %s%s by %q", r.Method, r.Host, r.Path, r.UserAgent)
		}
	}
}

// No test fetched a path of a host that the host's row does not name.
func TestZRows_AllRequests_AreNamed(t *testing.T) {
	rows := maps.Clone(builtIn)
	maps.Copy(rows, sites)
	ways := rows["redirect-private-lab.com"] // the ways to private addresses that TestRedirects_ToPrivateAddresses_AreNotFollowed goes
	ways.may = join(ways.may, []string{"/private/*", "http:/icon.png"})
	rows["redirect-private-lab.com"] = ways
	checked := 0
	for _, r := range traffic(t) {
		row, ok := rows[r.Host]
		if !ok || r.Method == "" {
			continue
		}
		checked++
		if !row.allows(r.path()) {
			t.Errorf("%s was asked for %s", r.Host, r.path())
		}
	}
	if checked == 0 {
		t.Error("no request of any row")
	}
}

func TestZLedger_AfterAllTests_Verifies(t *testing.T) {
	for _, args := range [][]string{{"ledger", "verify"}, {"projections", "verify"}} {
		if _, err := node.letterhead(args...); err != nil {
			t.Error(err)
		}
	}
}
