package extract_test

import (
	"testing"

	"letterhead/eventschemas"
	"letterhead/workers/crawl/extract"
)

func TestScore_Fields_CountInThirds(t *testing.T) {
	number := func(n int) *int { return &n }
	name, description := "Acme", "Acme makes instruments of all kinds."
	svg := eventschemas.Logo{Type: "logo", Formats: []eventschemas.Asset{{Format: "svg"}}}
	icon := eventschemas.Logo{Type: "icon", Formats: []eventschemas.Asset{{Format: "png", Width: number(180), Height: number(180)}}}
	for what, x := range map[string]struct {
		record    eventschemas.Record
		low, high float64
	}{
		"name and description only": {eventschemas.Record{Name: &name, Description: &description}, 0.1, 1.0 / 3},
		"an icon only":              {eventschemas.Record{Logos: []eventschemas.Logo{icon}}, 0.05, 1.0 / 3},
		"name, description, icon":   {eventschemas.Record{Name: &name, Description: &description, Logos: []eventschemas.Logo{icon}}, 1.0 / 3, 2.0 / 3},
		"a usual good site": {eventschemas.Record{
			Name: &name, Description: &description, Logos: []eventschemas.Logo{svg, icon}, Colors: make([]eventschemas.Color, 2), Fonts: make([]eventschemas.Font, 1),
			Links: make([]eventschemas.Link, 3), Images: make([]eventschemas.Image, 1),
		}, 2.0 / 3, 1},
	} {
		if got := extract.Score(&x.record, true); got < x.low || got > x.high {
			t.Errorf("%s: %v, want %.2f to %.2f", what, got, x.low, x.high)
		}
	}
}

func TestScore_ComingSoonPage_IsLower(t *testing.T) {
	name, usual, waiting := "Acme", "Acme makes instruments of all kinds.", "Our new website is coming soon. Stay tuned!"
	svg := eventschemas.Logo{Type: "logo", Formats: []eventschemas.Asset{{Format: "svg"}}}
	score := func(description string) float64 {
		return extract.Score(&eventschemas.Record{Name: &name, Description: &description, Logos: []eventschemas.Logo{svg}, Colors: make([]eventschemas.Color, 2)}, true)
	}
	if u, w := score(usual), score(waiting); w > 0.61*u || w < 0.59*u {
		t.Errorf("usual page %v, coming-soon page %v", u, w)
	}
}

// A logo that was derived from another one in white adds no information about the brand; one drawn by the brand does.
func TestScore_ReversedLogo_AddsNothing(t *testing.T) {
	light, dark := "light", "dark"
	score := func(more ...eventschemas.Logo) float64 {
		logos := append([]eventschemas.Logo{{Type: "logo", Theme: &dark, Formats: []eventschemas.Asset{{Format: "svg"}}}}, more...)
		return extract.Score(&eventschemas.Record{Logos: logos}, true)
	}
	white := eventschemas.Logo{Type: "logo", Theme: &light, Formats: []eventschemas.Asset{{Format: "svg"}}}
	reversed := white
	reversed.Tags = []string{eventschemas.TagReversed}
	if alone := score(); score(reversed) != alone || score(white) <= alone {
		t.Errorf("score %v alone, %v with a reversed logo, %v with a white one", alone, score(reversed), score(white))
	}
}
