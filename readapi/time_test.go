package readapi

import "testing"

// Whatever hangs, an answer leaves before its client gives up: what bounds it is added up as it happens, one
// after the other.
func TestEveryAnswerLeavesBeforeItsClientGivesUp(t *testing.T) {
	cfg := Config{}.withDefaults()
	crawls := cfg.RequestTimeout + giveWithin + creditsWithin
	searches := min(cfg.RequestTimeout, quickWithin) + afterwardsWithin + creditsWithin
	if crawls >= clientsGiveUp || searches >= clientsGiveUp {
		t.Errorf("a look-up may take %s and a search %s, and clients wait %s", crawls, searches, clientsGiveUp)
	}
	// Inside the time of the request.
	if besides := cfg.RequestTimeout - cfg.CrawlTimeout; outcomeGrace >= besides || checksWithin >= quickWithin {
		t.Errorf("%s beside a crawl for the grace of its outcome of %s", besides, outcomeGrace)
	}
}
