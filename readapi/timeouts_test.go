package readapi

import (
	"testing"
	"time"

	"letterhead/readapi/lookup"
)

// Whatever hangs, an answer is sent before its client times out: the limits along the way are added up.
func TestTimeouts_Sum_IsBelowClientTimeout(t *testing.T) {
	cfg := Config{CrawlTimeout: 8500 * time.Millisecond}.withDefaults() // the default of LETTERHEAD_CRAWL_TIMEOUT
	crawls := cfg.RequestTimeout + lookup.ReturnWithin + creditsWithin
	searches := min(cfg.RequestTimeout, cfg.QuickTimeout) + afterwardsWithin + creditsWithin
	if crawls >= clientTimeout || searches >= clientTimeout {
		t.Errorf("a look-up may take %s and a search %s, and clients wait %s", crawls, searches, clientTimeout)
	}
	// Within the time of the request.
	if rest := cfg.RequestTimeout - cfg.CrawlTimeout; lookup.OutcomeGrace >= rest || checksWithin >= cfg.QuickTimeout {
		t.Errorf("a crawl leaves %s of a request, and its outcome takes %s; or a check takes %s, want less than %s", rest, lookup.OutcomeGrace, checksWithin, cfg.QuickTimeout)
	}
}
