//go:build services

package cluster

import (
	"net/http"
	"net/url"
	"os"
	"testing"
	"time"
)

// Sites of the closed little internet. Each is crawled by one test, so that it is unknown there.
const (
	siteOfTheCrowd   = "good-lab.com"
	siteOfTheKilled  = "dark-lab.com"
	siteOfTheJourney = "bimi-lab.com"
)

// slowSite is longer than any look-up waits.
const slowSite = "60000" // ms

// internet is the closed little internet that the tests may run in.
type internet struct{ control string }

func inLab() bool { return os.Getenv("LAB") == "1" }

// labOnly skips a test that needs pages to be fetched.
func labOnly(t testing.TB) internet {
	t.Helper()
	if !inLab() {
		t.Skip("LAB is not set: no closed internet to crawl")
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

// nowhere is a domain that nobody has registered: its crawl ends, and finds nothing.
func nowhere() string { return "letterhead-" + random() + ".com" }

// crawled says whether a crawler has looked for a domain that nobody has registered: it does not exist, or,
// outside the lab, there is no name server to ask, or none that answers. A crawl that no crawler took up takes
// all the time that it has.
func crawled(a answer) bool {
	switch a.status {
	case http.StatusNotFound, http.StatusBadGateway:
		return true
	case http.StatusGatewayTimeout:
		return !inLab() && a.elapsed < crawlTimeout-2*time.Second
	}
	return false
}
