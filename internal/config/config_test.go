package config

import (
	"strings"
	"testing"
	"time"
)

func env(pairs ...string) func(string) (string, bool) {
	m := map[string]string{}
	for i := 0; i+1 < len(pairs); i += 2 {
		m[pairs[i]] = pairs[i+1]
	}
	return func(k string) (string, bool) { v, ok := m[k]; return v, ok }
}

func TestDefaultsAreUsable(t *testing.T) {
	c, err := Load(env(), nil)
	if err != nil {
		t.Fatal(err)
	}
	if c.BaseURL != "http://127.0.0.1:8080" || !c.Starter || c.CrawlTimeout != 8500*time.Millisecond || c.PlanCrawls["growth"] != 60 {
		t.Fatalf("%+v", c)
	}
	if !strings.Contains(c.UserAgent, "+http://127.0.0.1:8080/bot") {
		t.Fatalf("user agent %q does not say where its owner is", c.UserAgent)
	}
	if !strings.HasPrefix(c.AssetsURL(), "file:///") {
		t.Fatalf("assets %q", c.AssetsURL())
	}
}

func TestEveryBadSettingIsNamedAtOnce(t *testing.T) {
	_, err := Load(env(
		"LETTERHEAD_LISTEN", "8080",
		"LETTERHEAD_BASE_URL", "ftp://x",
		"LETTERHEAD_EVENTSTORE", "esdb://somewhere",
		"LETTERHEAD_CRAWL_WORKERS", "-1",
		"LETTERHEAD_PLAN_CRAWLS", "free",
		"LETTERHEAD_LOG_LEVEL", "loud",
	), nil)
	if err == nil {
		t.Fatal("bad settings were accepted")
	}
	for _, name := range []string{"LISTEN", "BASE_URL", "EVENTSTORE", "CRAWL_WORKERS", "PLAN_CRAWLS", "LOG_LEVEL"} {
		if !strings.Contains(err.Error(), "LETTERHEAD_"+name) {
			t.Errorf("the error does not name LETTERHEAD_%s: %v", name, err)
		}
	}
}

func TestFlagsWinAndTheBaseURLFollowsTheListenAddress(t *testing.T) {
	c, err := Load(env("LETTERHEAD_LISTEN", "127.0.0.1:1"), map[string]string{"LETTERHEAD_LISTEN": "0.0.0.0:9090"})
	if err != nil {
		t.Fatal(err)
	}
	if c.Listen != "0.0.0.0:9090" || c.BaseURL != "http://localhost:9090" {
		t.Fatalf("%s %s", c.Listen, c.BaseURL)
	}
	c, err = Load(env("LETTERHEAD_BASE_URL", "https://brands.example.com/"), nil)
	if err != nil || c.BaseURL != "https://brands.example.com" {
		t.Fatalf("%s %v", c.BaseURL, err)
	}
}
