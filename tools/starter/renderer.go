package main

import (
	"context"
	"fmt"

	"letterhead/internal/imaging"
	"letterhead/internal/resvg"
)

// checkedSide is the size, in pixels, at which logos are checked on pages, the same as in the logo endpoint.
const checkedSide = 128

// renderer draws like the service, to check the visibility of a logo on a page.
type renderer struct {
	ctx     context.Context
	vectors *resvg.Renderer
}

func newRenderer(ctx context.Context) (*renderer, error) {
	vectors, err := resvg.New(ctx, resvg.Config{})
	if err != nil {
		return nil, fmt.Errorf("prepare to draw: %w", err)
	}
	return &renderer{ctx: ctx, vectors: vectors}, nil
}

// lay draws an art and checks it on both pages.
func (e *renderer) lay(a *art) error {
	img, err := e.vectors.Render(e.ctx, []byte(a.svg), checkedSide)
	if err != nil {
		return err
	}
	a.drawn, a.inks, a.lost = img, len(imaging.Analyze(img).Palette), map[imaging.RGB]bool{}
	for _, page := range []imaging.RGB{imaging.White, imaging.DarkPage} {
		a.lost[page] = imaging.LostOn(img, page)
	}
	return nil
}
