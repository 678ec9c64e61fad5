//go:build services

package cluster

import (
	"net/http"
	"net/url"
	"os"
	"testing"
	"time"
)

// Sites of the lab's isolated network. Only one test crawls each of them, so the site is unknown to that test.
const (
	siteOfTheCrowd   = "good-lab.com"
	siteOfTheKilled  = "dark-lab.com"
	siteOfTheJourney = "bimi-lab.com"
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

// behaves makes a site answer in another way; ms is for mode slow.
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

// nowhere is an unregistered domain. Its crawl ends without a record.
func nowhere() string { return "letterhead-" + random() + ".com" }

// crawled reports whether a crawler has tried an unregistered domain. The domain does not exist, or, outside the lab,
// no name server answers. A crawl that no crawler starts runs into its timeout.
func crawled(a answer) bool {
	switch a.status {
	case http.StatusNotFound, http.StatusBadGateway:
		return true
	case http.StatusGatewayTimeout:
		return !inLab() && a.elapsed < crawlTimeout-2*time.Second
	}
	return false
}
