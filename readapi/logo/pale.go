package logo

import (
	"context"
	"image"

	"letterhead/internal/imaging"
)

// Stored results of inspecting a file.
const (
	resultPale    = "pale"
	resultVisible = "seen"
)

func paleness(img *image.NRGBA) []byte {
	if imaging.LostOn(img, imaging.White) {
		return []byte(resultPale)
	}
	return []byte(resultVisible)
}

// pale reports whether a file would be hardly visible on white. It inspects a file once and caches the
// result with the images. Errors: those of Draw, and those of isFault.
func (r *Renderer) pale(ctx context.Context, from Source) (bool, error) {
	result, err := r.get(ctx, inspectionOf(from))
	return err == nil && string(result.Body) == resultPale, err
}

// inspector inspects files for Choose, and keeps the error that prevented it.
type inspector struct {
	renderer *Renderer
	ctx      context.Context
	err      error
}

func (i *inspector) pale(s Source) bool {
	if i.err != nil {
		return true
	}
	pale, err := i.renderer.pale(i.ctx, s)
	if isFault(err) {
		return true // a file that cannot be drawn is not visible
	}
	i.err = err
	return pale
}
