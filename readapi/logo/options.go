package logo

import (
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
)

// Options describe a requested logo.
type Options struct {
	Type Type
	Size int // longest side, MinSize to MaxSize
	// Format is imaging.WebP, PNG, SVG or JPEG. If it is SVG and there is no vector, a PNG is drawn.
	Format     imaging.Format
	Negotiated bool // the format came from Accept, not from the URL
	// Theme is the ink, even if the request named the background on which the logo is shown.
	Theme    Theme
	Fallback Fallback
}

// opposite returns the theme for a background: dark ink for a light one.
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
