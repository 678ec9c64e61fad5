package commands

import (
	"fmt"
	"testing"
	"time"

	"letterhead/commands/streamwriter"
	"letterhead/eventschemas"
)

// A domain that is charged repeatedly uses one entry and evicts no other.
func TestAnswers_BusyDomain_EvictsNoOther(t *testing.T) {
	w := newWorld(t)
	a, b := w.writer(AccountWriterConfig{Config: streamwriter.Config{Shared: true}}), w.writer(AccountWriterConfig{Config: streamwriter.Config{Shared: true}})
	id := w.opened(a, 2*maxAnswers)
	at := func(domain string, revision uint64) ChargeLookup {
		in := w.lookup(id)
		in.Domain, in.RecordRevision = domain, revision
		return in
	}
	w.ok(a.ChargeLookup(t.Context(), at("acme.com", 7)))
	for range maxAnswers + 1 {
		w.ok(a.ChargeLookup(t.Context(), at("busy.com", 1)))
	}
	w.fails(ErrOlderRecord)(b.ChargeLookup(t.Context(), at("acme.com", 5)))
}

// If there are too many domains, the least recently charged one is dropped, even if it was not the first to be charged.
// After answersFor all domains are dropped.
func TestAnswers_Full_ForgetsLeastRecentlyCharged(t *testing.T) {
	s, now := newAnswers(), time.Now()
	charged := func(domain string, revision uint64) {
		s.note(eventschemas.CreditsCharged{Domain: domain, RecordRevision: revision}, now)
	}
	for i := range maxAnswers {
		charged(fmt.Sprint(i, ".com"), 7)
	}
	charged("0.com", 6) // now the latest, at its highest revision
	charged("new.com", 7)
	for domain, known := range map[string]bool{"0.com": true, "1.com": false, "2.com": true, "new.com": true} {
		if s.newer(domain, 6, now) != known {
			t.Errorf("%s is remembered: %v", domain, !known)
		}
	}
	if len(s.domains) != maxAnswers || s.order.Len() != maxAnswers {
		t.Errorf("%d domains, %d in order", len(s.domains), s.order.Len())
	}
	now = now.Add(answersFor - time.Second)
	charged("0.com", 7)
	now = now.Add(time.Second)
	charged("later.com", 7)
	if s.newer("2.com", 6, now) || !s.newer("0.com", 6, now) || len(s.domains) != 2 || s.order.Len() != 2 {
		t.Errorf("%d domains are remembered after answersFor", len(s.domains))
	}
}
