package resvg

// TakeLarge takes the room for a large memory, like another image, until release is called.
func (r *Renderer) TakeLarge() (release func()) {
	r.large <- struct{}{}
	return func() { <-r.large }
}
