package lookup

import (
	"fmt"
	"testing"

	"letterhead/domain/brand"
)

func numbered(i int, revision uint64) brand.View {
	return brand.View{ID: fmt.Sprint("id-", i), Domain: fmt.Sprint("domain-", i), Revision: revision}
}

func TestRecent_PastItsLimit_ForgetsTheOldest(t *testing.T) {
	var r recent
	if _, ok := r.domain("id-0"); ok || r.last("domain-0").revision != 0 {
		t.Fatal("an empty recent finds a brand")
	}
	const more = 100
	for i := range maxRecent + more {
		r.note(numbered(i, 2))
		r.note(numbered(i, 2)) // a repeat uses no entry
	}
	if len(r.byID) != maxRecent || len(r.byDomain) != maxRecent || len(r.order) != maxRecent {
		t.Fatalf("%d ids, %d domains, %d answers; want %d, %d and %d", len(r.byID), len(r.byDomain), len(r.order), maxRecent, maxRecent, maxRecent)
	}
	for i := range maxRecent + more {
		domain, ok := r.domain(fmt.Sprint("id-", i))
		if ok != (i >= more) || ok && domain != fmt.Sprint("domain-", i) {
			t.Fatalf("id %d: %q, %v", i, domain, ok)
		}
		if revision := r.last(fmt.Sprint("domain-", i)).revision; (revision == 2) != ok {
			t.Fatalf("domain %d: revision %d", i, revision)
		}
	}
}

// A repeatedly answered brand is remembered at its highest revision, wherever its earlier answers are in the ring.
func TestRecent_NewerAnswer_ReplacesTheOlderOne(t *testing.T) {
	var r recent
	for revision := uint64(1); revision <= 3; revision++ {
		r.note(numbered(0, revision))
	}
	r.note(numbered(0, 2))
	if got := r.last("domain-0").revision; got != 3 {
		t.Fatalf("revision %d, want 3", got)
	}
	for i := 1; i < maxRecent; i++ { // evicts the answers at revisions 1 and 2; that at 3 is next
		r.note(numbered(i, 1))
	}
	if _, ok := r.domain("id-0"); !ok || r.last("domain-0").revision != 3 {
		t.Fatal("a newer answer was forgotten with an older one")
	}
	r.note(numbered(maxRecent, 1))
	if _, ok := r.domain("id-0"); ok || r.last("domain-0").revision != 0 || len(r.byID) != len(r.byDomain) {
		t.Fatal("the oldest answer is remembered past the limit")
	}
}
