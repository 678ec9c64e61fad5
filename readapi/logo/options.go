package logo

import (
	"letterhead/internal/imaging"
)

// Sizes that are served, of the longest side in pixels; what lies outside is clamped.
const (
	MinSize     = 16
	MaxSize     = 1024
	DefaultSize = 128
)

// Type is the kind of logo that is asked for.
type Type string

// The types.
const (
	Icon   Type = "icon"
	Symbol Type = "symbol"
	Full   Type = "logo" // wordmark or lockup
)

// Theme is the color of the ink; Any where none was asked for.
type Theme string

// The themes.
const (
	Any   Theme = ""
	Light Theme = "light"
	Dark  Theme = "dark"
)

// Fallback is what stands for a logo that is not there.
type Fallback string

// The fallbacks.
const (
	Monogram    Fallback = "monogram"
	Transparent Fallback = "transparent"
	NotFound    Fallback = "404" // a transparent picture, answered with status 404
)

// Options are a logo as it is asked for.
type Options struct {
	Type Type
	Size int // longest side, MinSize to MaxSize
	// Format is imaging.WebP, PNG, SVG or JPEG. Where it is SVG and there is no vector, a PNG is drawn.
	Format     imaging.Format
	Negotiated bool // the format came from Accept, not from the request's address
	// Theme is the ink, also when it was asked for by the background that the logo is to sit on.
	Theme    Theme
	Fallback Fallback
}

// opposite is the theme for a background: dark ink for a light one.
func opposite(background Theme) Theme {
	switch background {
	case Light:
		return Dark
	case Dark:
		return Light
	default:
		return Any
	}
}
