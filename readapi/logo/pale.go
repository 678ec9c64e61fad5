package logo

import (
	"context"
	"image"

	"letterhead/internal/imaging"
)

// What is kept of a look at a file.
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

// pale says whether a file would hardly be seen on white. It is looked at once, and what was seen is kept among
// the pictures. Errors: those of Draw, and those of isFault.
func (s *Studio) pale(ctx context.Context, from Source) (bool, error) {
	look, err := s.made(ctx, lookAt(from))
	return err == nil && string(look.Body) == looksPale, err
}

// eye looks at files for Choose, and remembers what kept it from looking.
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
		return true // what cannot be drawn is not seen
	}
	e.err = err
	return pale
}
