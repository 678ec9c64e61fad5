package readapi

import (
	"testing"

	"letterhead/readapi/lookup"
)

// Whatever hangs, an answer is sent before its client gives up: the limits along the way are added up.
func TestTimeouts_Sum_IsBelowClientTimeout(t *testing.T) {
	cfg := Config{}.withDefaults()
	crawls := cfg.RequestTimeout + lookup.ReturnWithin + creditsWithin
	searches := min(cfg.RequestTimeout, quickWithin) + afterwardsWithin + creditsWithin
	if crawls >= clientsGiveUp || searches >= clientsGiveUp {
		t.Errorf("a look-up may take %s and a search %s, and clients wait %s", crawls, searches, clientsGiveUp)
	}
	// Within the time of the request.
	if besides := cfg.RequestTimeout - cfg.CrawlTimeout; lookup.OutcomeGrace >= besides || checksWithin >= quickWithin {
		t.Errorf("%s remain beside a crawl, its outcome takes %s", besides, lookup.OutcomeGrace)
	}
}
