package logo_test

import (
	"context"
	"sync"
	"testing"

	"letterhead/eventschemas"
	"letterhead/internal/imaging"
	"letterhead/readapi/logo"
)

// TestDraw_EqualRequests_ShareVariant counts reads: requests of one group use one variant, those of two groups use two.
func TestDraw_EqualRequests_ShareVariant(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	vector := iconOf("dark", w.put(barSVG(t, "#118899"), "svg"))
	raster := iconOf("dark", w.raster(bar(200, 100, teal)))
	light := iconOf("light", raster.Formats...)
	pale := iconOf("light", w.raster(bar(200, 100, white)))
	for _, looked := range []eventschemas.Logo{light, pale} { // an inspection reads the file too, once
		w.draw(brandOf(looked), request(16, imaging.JPEG))
	}
	with := func(size int, format imaging.Format, change func(*logo.Options)) logo.Options {
		o := request(size, format)
		if change != nil {
			change(&o)
		}
		return o
	}
	negotiated := func(o *logo.Options) { o.Negotiated = true }
	dark := func(o *logo.Options) { o.Theme = logo.Dark }
	lit := func(o *logo.Options) { o.Theme = logo.Light }
	symbol := func(o *logo.Options) { o.Type = logo.Symbol }
	bare := func(o *logo.Options) { o.Fallback = logo.Transparent }
	named := brandOf(vector)
	named.Domain, named.Name = "other.example", "Other"
	type request struct {
		of logo.Brand
		o  logo.Options
	}
	for name, group := range map[string][]request{
		"vector as webp": {{brandOf(vector), with(64, imaging.WebP, nil)}, {brandOf(vector), with(64, imaging.WebP, negotiated)}, {brandOf(vector), with(64, imaging.WebP, dark)},
			{brandOf(vector), with(64, imaging.WebP, lit)}, {brandOf(vector), with(64, imaging.WebP, bare)}, {named, with(64, imaging.WebP, nil)}},
		"vector as symbol":   {{brandOf(vector), with(64, imaging.WebP, symbol)}},
		"vector, larger":     {{brandOf(vector), with(65, imaging.WebP, nil)}},
		"vector as png":      {{brandOf(vector), with(64, imaging.PNG, nil)}},
		"vector as svg":      {{brandOf(vector), with(64, imaging.SVG, nil)}, {brandOf(vector), with(512, imaging.SVG, lit)}},
		"vector on white":    {{brandOf(vector), with(64, imaging.JPEG, nil)}, {brandOf(vector), with(64, imaging.JPEG, dark)}},
		"vector on black":    {{brandOf(vector), with(64, imaging.JPEG, lit)}},
		"raster as png":      {{brandOf(raster), with(64, imaging.PNG, nil)}, {brandOf(raster), with(64, imaging.SVG, nil)}, {brandOf(light), with(64, imaging.PNG, nil)}},
		"raster on white":    {{brandOf(raster), with(64, imaging.JPEG, nil)}, {brandOf(light), with(64, imaging.JPEG, dark)}, {brandOf(light), with(64, imaging.JPEG, nil)}},
		"raster on black":    {{brandOf(raster), with(64, imaging.JPEG, lit)}, {brandOf(light), with(64, imaging.JPEG, lit)}},
		"pale on black":      {{brandOf(pale), with(64, imaging.JPEG, nil)}, {brandOf(pale), with(64, imaging.JPEG, lit)}},
		"pale on white":      {{brandOf(pale), with(64, imaging.JPEG, dark)}},
		"raster of its size": {{brandOf(raster), with(200, imaging.WebP, nil)}, {brandOf(raster), with(201, imaging.WebP, nil)}, {brandOf(raster), with(1024, imaging.WebP, nil)}},
		"raster, smaller":    {{brandOf(raster), with(199, imaging.WebP, nil)}},
	} {
		before := w.files.read.Load()
		tag := w.draw(group[0].of, group[0].o).ETag
		if got := w.files.read.Load() - before; got != 1 {
			t.Errorf("%s: read %d times, want once", name, got)
		}
		for _, r := range group[1:] {
			if got := w.draw(r.of, r.o).ETag; got != tag {
				t.Errorf("%s: %+v has a different ETag", name, r.o)
			}
		}
		if got := w.files.read.Load() - before; got != 1 {
			t.Errorf("%s: read %d times for %d requests; want 1", name, got, len(group))
		}
	}
}

// A new page shows one logo to many readers at the same time.
func TestDraw_ConcurrentRequests_DrawOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	b := brandOf(iconOf("dark", w.put(barSVG(t, "#118899"), "svg")))
	tags := make([]string, 32)
	var all sync.WaitGroup
	for i := range tags {
		all.Go(func() {
			p, err := w.Draw(context.Background(), b, request(64, imaging.WebP))
			if err != nil {
				t.Error(err)
			}
			tags[i] = p.ETag
		})
	}
	all.Wait()
	for _, tag := range tags {
		if tag != tags[0] {
			t.Fatalf("ETags differ: %q", tags)
		}
	}
	if got := w.vectors.drawn.Load(); got != 1 {
		t.Errorf("drawn %d times, want 1", got)
	}
}

// TestDraw_CachedVariant_AllocatesLittle limits the allocations of a cached answer: one string and the call of the
// store.
func TestDraw_CachedVariant_AllocatesLittle(t *testing.T) {
	w := newWorld(t)
	b := brandOf(iconOf("light", w.raster(bar(300, 300, teal))), iconOf("dark", w.raster(bar(200, 100, teal)), w.raster(bar(256, 128, teal))))
	o := request(128, imaging.WebP)
	w.draw(b, o)
	if got := testing.AllocsPerRun(100, func() {
		if _, err := w.Draw(t.Context(), b, o); err != nil {
			t.Error(err)
		}
	}); got > 4 {
		t.Errorf("%v allocations", got)
	}
}
