package logo

import (
	"context"
	"image"

	"letterhead/internal/imaging"
)

// Stored results of inspecting a file.
const (
	looksPale = "pale"
	looksWell = "seen"
)

func paleness(img *image.NRGBA) []byte {
	if imaging.LostOn(img, imaging.White) {
		return []byte(looksPale)
	}
	return []byte(looksWell)
}

// pale reports whether a file would be hardly visible on white. It inspects a file once and caches the
// result with the images. Errors: those of Draw, and those of isFault.
func (s *Studio) pale(ctx context.Context, from Source) (bool, error) {
	look, err := s.made(ctx, lookAt(from))
	return err == nil && string(look.Body) == looksPale, err
}

// eye inspects files for Choose, and remembers the error that prevented it.
type eye struct {
	studio *Studio
	ctx    context.Context
	err    error
}

func (e *eye) pale(s Source) bool {
	if e.err != nil {
		return true
	}
	pale, err := e.studio.pale(e.ctx, s)
	if isFault(err) {
		return true // a file that cannot be drawn is not visible
	}
	e.err = err
	return pale
}
