package logo

import (
	"letterhead/internal/accept"
	"letterhead/internal/imaging"
)

// Limits of the requested longest side, in pixels; other values are clamped.
const (
	MinSize     = 16
	MaxSize     = 1024
	DefaultSize = 128
)

// Type is the kind of logo requested.
type Type string

const (
	Icon   Type = "icon"
	Symbol Type = "symbol"
	Full   Type = "logo" // wordmark or lockup
)

// Theme is the color of the ink; Any if none was requested.
type Theme string

const (
	Any   Theme = ""
	Light Theme = "light"
	Dark  Theme = "dark"
)

// Fallback is the replacement for a missing logo.
type Fallback string

const (
	Monogram    Fallback = "monogram"
	Transparent Fallback = "transparent"
	NotFound    Fallback = "404" // a transparent image with status 404
	// Of profiles only:
	NoImage Fallback = "none"  // text with status 404
	Globe   Fallback = "globe" // a neutral image of 16 by 16 pixels with status 404
)

// Options describe a requested logo.
type Options struct {
	Type Type
	Size int // longest side, MinSize to MaxSize
	// Format is imaging.WebP, PNG, SVG or JPEG. If it is SVG and there is no vector, a PNG is drawn.
	Format     imaging.Format
	Negotiated bool // the format came from Accept, not from the URL
	NoPlate    bool // a plate behind the logo is not wanted
	// Adaptive requests an SVG that follows the color scheme of the page. The other options are for brands without one.
	Adaptive bool
	Gray     bool // without colors; not for SVG, and not together with Background
	// Background is the requested background, on which the logo must be legible; zero if the request has none or a theme.
	// The backgrounds light and dark are themes.
	Background Background
	// Theme is the ink, even if the request named the background on which the logo is shown.
	Theme    Theme
	Fallback Fallback
}

// Background is the color of a page.
type Background struct {
	Color imaging.RGB
	Set   bool
	Named bool // light or dark, which only request the opposite theme
}

// theme returns the ink with more contrast.
func (b Background) theme() Theme {
	switch {
	case !b.Set:
		return Any
	case imaging.Contrast(b.Color, imaging.White) > imaging.Contrast(b.Color, imaging.Black):
		return Light
	default:
		return Dark
	}
}

// The colors of light and auto-light, and of dark and auto-dark.
var namedBackgrounds = map[string]imaging.RGB{string(Light): imaging.White, string(Dark): imaging.DarkPage}

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
