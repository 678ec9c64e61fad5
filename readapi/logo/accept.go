package logo

import (
	"letterhead/internal/accept"
	"letterhead/internal/imaging"
)

// Negotiate chooses between WebP and PNG by a request's Accept headers. WebP must be named: browsers
// that support it do so, while many clients that send image/* or */* do not support it. If both are
// named the q-values decide, with a preference for WebP if they are equal. PNG is the default.
func Negotiate(headers []string) imaging.Format {
	q := accept.Weights(headers, "image/webp", "image/png")
	if webp, png := q[0], q[1]; webp > 0 && webp >= png {
		return imaging.WebP
	}
	return imaging.PNG
}
