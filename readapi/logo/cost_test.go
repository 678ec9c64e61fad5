package logo_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"image"
	"slices"
	"sync"
	"testing"
	"time"

	"letterhead/internal/imaging"
	"letterhead/internal/resvg"
	"letterhead/internal/testmust"
	"letterhead/internal/variants"
	"letterhead/readapi/logo"
)

// heavy fails above a size, as if drawing took too much.
type heavy struct {
	vectors
	above int
	sizes []int
}

func (h *heavy) Render(ctx context.Context, svg []byte, side int) (*image.NRGBA, error) {
	h.sizes = append(h.sizes, side)
	if side > h.above {
		return nil, imaging.ErrTooLarge
	}
	return h.vectors.Render(ctx, svg, side)
}

func TestDraw_ExpensiveVector_IsDrawnSmaller(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	b := brandOf(iconOf("", w.put(barSVG(t, "#189"), "svg")))
	for _, c := range []struct {
		requested, above int
		tried            []int // the last one is drawn, unless it is above
	}{
		{1024, 1024, []int{1024}},
		{1024, 600, []int{1024, 512}},
		{1000, 300, []int{1000, 500}},
		{1024, 256, []int{1024, 512, 256}},
		{1024, 100, []int{1024, 512, 256}},
		{300, 299, []int{300}},
	} {
		vectors := &heavy{above: c.above}
		p, err := newRenderer(t, w.files, vectors).Draw(t.Context(), b, request(c.requested, imaging.PNG))
		if !slices.Equal(vectors.sizes, c.tried) {
			t.Errorf("requested %d, possible %d: tried %v, want %v", c.requested, c.above, vectors.sizes, c.tried)
		}
		last := c.tried[len(c.tried)-1]
		if last > c.above {
			if !errors.Is(err, logo.ErrNotDrawn) {
				t.Errorf("requested %d, possible %d: %v, want ErrNotDrawn", c.requested, c.above, err)
			}
			continue
		}
		if err != nil || p.Fallback != "" {
			t.Errorf("requested %d, possible %d: %+v, %v", c.requested, c.above, p, err)
			continue
		}
		if info, err := imaging.ProbeWithin(p.Body, imaging.Limits{Pixels: 1 << 20}); err != nil || max(info.Width, info.Height) != last {
			t.Errorf("requested %d, possible %d: %+v, %v; want %d", c.requested, c.above, info, err, last)
		}
	}
}

// late is a renderer that fails at first.
type late struct {
	vectors
	fails []error
}

func (l *late) Render(ctx context.Context, svg []byte, side int) (*image.NRGBA, error) {
	if len(l.fails) > 0 {
		err := l.fails[0]
		l.fails = l.fails[1:]
		return nil, fmt.Errorf("draw svg: %w", err)
	}
	return l.vectors.Render(ctx, svg, side)
}

// After being busy for a while, a machine draws the same image as any other.
// Rule 12.
func TestDraw_TimeIsUp_ReturnsBusyAndKeepsNothing(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	b := brandOf(iconOf("", w.put(barSVG(t, "#189"), "svg"), w.raster(bar(128, 64, black))))
	want := w.draw(b, request(1024, imaging.PNG))
	drawn := testmust.Get(variants.New(variants.Config{}))(t)
	renderer := testmust.Get(logo.NewRenderer(w.files, &late{fails: []error{context.DeadlineExceeded, resvg.ErrBusy}}, drawn))(t)
	for range 2 {
		if p, err := renderer.Draw(t.Context(), b, request(1024, imaging.PNG)); !errors.Is(err, variants.ErrBusy) {
			t.Errorf("Draw without time = %v, %v; want ErrBusy", p, err)
		}
	}
	p, err := renderer.Draw(t.Context(), b, request(1024, imaging.PNG))
	if err != nil || !bytes.Equal(p.Body, want.Body) || p.ETag != want.ETag {
		t.Errorf("Draw with time = %v, %s; want %s", err, p.ETag, want.ETag)
	}
	drawn.Close()
}

// TestDraw_FewSteps_DecideSize draws blurs with few steps, each time with a new renderer and without a
// cache: alone, and concurrently with others. The result does not depend on the time.
// Rule 12.
func TestDraw_FewSteps_DecideSize(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	const steps, timeout = 12 << 18, time.Hour
	blurred := []byte(`<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 100 100"><filter id="f"><feGaussianBlur stdDeviation="9"/></filter>` +
		`<g filter="url(#f)"><rect x="20" y="20" width="60" height="60" fill="#118899"/></g></svg>`)
	b := brandOf(iconOf("", w.put(blurred, "svg")))
	cache := t.TempDir()
	var first []byte
	for range 3 {
		few := testmust.Get(resvg.New(t.Context(), resvg.Config{CacheDir: cache, Steps: steps, Timeout: timeout, Concurrent: 1}))(t)
		drawn := testmust.Get(variants.New(variants.Config{MakeTimeout: time.Minute}))(t)
		renderer := testmust.Get(logo.NewRenderer(w.files, few, drawn))(t)
		var others sync.WaitGroup
		for i := range 3 {
			others.Go(func() {
				if _, err := renderer.Draw(t.Context(), b, request(32+i, imaging.PNG)); err != nil {
					t.Error(err)
				}
			})
		}
		p, err := renderer.Draw(t.Context(), b, request(1024, imaging.PNG))
		others.Wait()
		drawn.Close()
		few.Close(t.Context())
		testmust.Succeed(t, err)
		if info, err := imaging.Probe(p.Body); err != nil || info.Width != 512 && info.Width != 256 {
			t.Errorf("%d pixels, %v; want 512 or 256", info.Width, err)
		}
		if first == nil {
			first = p.Body
		}
		if !bytes.Equal(p.Body, first) {
			t.Error("the same request gave different bytes")
		}
	}
}

// A request that ran out of time at a smaller size does not try the size twice.
func TestDraw_SizeThatTookTooMuch_IsNotRetried(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	b := brandOf(iconOf("", w.put(barSVG(t, "#189"), "svg")))
	vectors := &heavy{above: 600}
	renderer := newRenderer(t, w.files, vectors)
	for _, format := range []imaging.Format{imaging.PNG, imaging.WebP} {
		testmust.Succeed(t, testmust.Err(renderer.Draw(t.Context(), b, request(1024, format))))
	}
	if want := []int{1024, 512, 512}; !slices.Equal(vectors.sizes, want) {
		t.Errorf("tried %v, want %v", vectors.sizes, want)
	}
}
