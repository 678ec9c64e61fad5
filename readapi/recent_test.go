package readapi

import (
	"fmt"
	"testing"
)

func TestOnlyTheLatestAnswersAreRemembered(t *testing.T) {
	var r recent
	if _, ok := r.domain("id-0"); ok {
		t.Fatal("an empty memory remembers")
	}
	const more = 100
	for i := range maxRecent + more {
		r.note(fmt.Sprint("id-", i), fmt.Sprint("domain-", i))
		r.note(fmt.Sprint("id-", i), fmt.Sprint("domain-", i)) // a repeat takes no room
	}
	if len(r.domains) != maxRecent || len(r.order) != maxRecent {
		t.Fatalf("%d domains, %d ids", len(r.domains), len(r.order))
	}
	for i := range maxRecent + more {
		domain, ok := r.domain(fmt.Sprint("id-", i))
		if ok != (i >= more) || ok && domain != fmt.Sprint("domain-", i) {
			t.Fatalf("id %d: %q, %v", i, domain, ok)
		}
	}
}
