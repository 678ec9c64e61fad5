package main

import (
	"math"
	"os"
	"path/filepath"
	"testing"
)

func TestWilson_KnownShares_HaveTheirIntervals(t *testing.T) {
	for _, c := range []struct {
		part, whole int
		low, high   float64
	}{{0, 10, 0, 0.2775}, {5, 10, 0.2366, 0.7634}, {10, 10, 0.7225, 1}, {0, 0, 0, 1}} {
		low, high := wilson(c.part, c.whole)
		if math.Abs(low-c.low) > 1e-4 || math.Abs(high-c.high) > 1e-4 {
			t.Errorf("%d of %d: %.4f to %.4f, want %.4f to %.4f", c.part, c.whole, low, high, c.low, c.high)
		}
	}
}

func TestPeer_EndsOnAPage_IsStartedForTheNext(t *testing.T) {
	folder := t.TempDir()
	const script = `while read -r page; do case "$page" in *crash*) exit 1;; *nonsense*) echo hello;; *) echo '{"name":"Acme"}';; esac; done`
	if err := os.WriteFile(filepath.Join(folder, "peer.sh"), []byte(script), 0o600); err != nil {
		t.Fatal(err)
	}
	p := peer{name: "peer", command: []string{"sh", "peer.sh"}, needs: "peer.sh", jobs: 1}
	all, err := p.run(t.Context(), folder, os.Environ(), []document{{HTML: "a"}, {HTML: "crash"}, {HTML: "b"}, {HTML: "nonsense"}, {HTML: "c"}})
	if err != nil {
		t.Fatal(err)
	}
	for i, failed := range []bool{false, true, false, true, false} {
		if (all[i].Error != "") != failed || (all[i].Name == nil) != failed {
			t.Errorf("page %d: %+v", i, all[i])
		}
	}
	p.needs = "other"
	if _, err := p.run(t.Context(), folder, os.Environ(), nil); err == nil {
		t.Error("a peer that is not installed runs")
	}
}

func TestFound_Score_JudgesWhatTheLabelHas(t *testing.T) {
	l, err := parseLabel([]byte(`{"id":"a","group":"built","url":"https://acme.com/","name":["Acme"],"shareImage":[],"logo":{"accept":["https://acme.com/logo.svg"],"declared":true},"fonts":{"title":[{"name":"Lato","origin":"google"}]},"colors":{"accent":["#0b5fff"]}}`))
	if err != nil {
		t.Fatal(err)
	}
	text := func(s string) *string { return &s }
	got := map[string]Kind{}
	for _, v := range (found{Name: text("ACME"), Image: text("https://acme.com/x.png"), TitleFont: text("Lato"), Accent: text("rgb(11, 95, 250)")}).score(l) {
		got[v.Field] = v.Kind
	}
	for field, want := range map[string]Kind{"name": Right, "share image": Wrong, "logo": Missing, "title font": Right, "accent": Right} {
		if got[field] != want {
			t.Errorf("%s is %q, want %q", field, got[field], want)
		}
	}
	if len(got) != 5 {
		t.Errorf("judged %v", got)
	}
	l.Name = &[]string{} // a page without a name
	for _, v := range (found{Error: "a crash"}).score(l) {
		if v.Kind != Missing {
			t.Errorf("after a failure %s is %q, want %q", v.Field, v.Kind, Missing)
		}
	}
}
