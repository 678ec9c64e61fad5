package resvg

// TakeLarge occupies the large memory, as another image would, until release is called.
func (r *Renderer) TakeLarge() (release func()) {
	r.large <- struct{}{}
	return func() { <-r.large }
}
