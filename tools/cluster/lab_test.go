//go:build services

package cluster

import (
	"net/http"
	"net/url"
	"os"
	"testing"
	"time"
)

// Sites of the lab's isolated network. Each is crawled by only one test, so it is an unknown domain for that test.
const (
	siteOfMixed         = "cross-redirect-lab.com"
	siteOfManyLookups   = "good-lab.com"
	siteOfKilledCrawler = "dark-lab.com"
	siteOfJourney       = "bimi-lab.com"
)

// slowSite is a delay longer than any look-up waits.
const slowSite = "60000" // ms

// internet is the isolated network of the lab, in which the tests may run.
type internet struct{ control string }

func inLab() bool { return os.Getenv("LAB") == "1" }

// labOnly skips a test that needs pages to be fetched.
func labOnly(t testing.TB) internet {
	t.Helper()
	if !inLab() {
		t.Skip("LAB is not set: the test needs the lab's isolated network")
	}
	return internet{os.Getenv("LAB_CONTROL")}
}

// behaves changes how a site answers. ms is the delay for mode slow.
func (i internet) behaves(t testing.TB, site, mode, ms string) {
	t.Helper()
	client := http.Client{Timeout: 5 * time.Second}
	resp, err := client.Post(i.control+"/behaviour?"+url.Values{"host": {site}, "mode": {mode}, "ms": {ms}}.Encode(), "", nil)
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	if resp.StatusCode >= http.StatusBadRequest {
		t.Fatalf("the lab answered %s", resp.Status)
	}
}

// nowhere returns an unregistered domain. Its crawl ends without a record.
func nowhere() string { return "letterhead-" + random() + ".com" }

// crawled reports whether the answer shows that a crawler has tried an unregistered domain: the domain does not exist,
// or, outside the lab, no name server answered. A crawl that no crawler starts ends with a timeout instead.
func crawled(a answer) bool {
	switch a.status {
	case http.StatusNotFound, http.StatusBadGateway:
		return true
	case http.StatusGatewayTimeout:
		return !inLab() && a.elapsed < crawlTimeout-2*time.Second
	}
	return false
}
