package logo

import "context"

// Cached results of inspecting a file.
const (
	resultYes  = "yes"
	resultNo   = "no"
	resultWeak = "weak"
)

func result(is bool) []byte {
	if is {
		return []byte(resultYes)
	}
	return []byte(resultNo)
}

// pale reports whether a file would be hardly visible on white. It inspects a file once and caches the
// result with the images. Errors: those of Draw, and those of isFault.
func (r *Renderer) pale(ctx context.Context, from Source) (bool, error) {
	made, err := r.get(ctx, inspectionOf(from))
	return err == nil && string(made.Body) == resultYes, err
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
