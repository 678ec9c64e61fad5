//go:build lab

package lab

import (
	"net"
	"net/http"
	"strings"
	"testing"
	"time"
)

// TestDeniedNetworks_LookedUp_AreNotCrawled denies the IP addresses of a site that is up. Neither a look-up nor the
// crawl command may reach it.
func TestDeniedNetworks_LookedUp_AreNotCrawled(t *testing.T) {
	const host = "good-lab.com"
	addresses, err := net.DefaultResolver.LookupHost(t.Context(), host)
	if err != nil {
		t.Fatal(err)
	}
	deny := "LETTERHEAD_CRAWL_DENY=" + strings.Join(addresses, ",")
	s := startServer(t, portDeny, deny)
	began := time.Now()
	if a := s.lookup(t, host, ""); a.status != http.StatusBadGateway {
		t.Errorf("the look-up answered %s, want 502", a)
	}
	t.Setenv("LETTERHEAD_CRAWL_DENY", strings.Join(addresses, ","))
	if out, err := s.letterhead("crawl", "--timeout", "5s", "https://"+host+"/"); err == nil {
		t.Errorf("the crawl command succeeded: %s", out)
	}
	if seen := requestsSince(t, began, host); len(seen) > 0 {
		t.Errorf("the site received requests: %s", summary(seen))
	}
}
