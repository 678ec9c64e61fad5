package web

import (
	"fmt"
	"html/template"

	"letterhead/internal/imaging"
)

// The grounds of the pages' styles with which links have the least contrast, in light and in dark mode.
var lightGround, darkGround = imaging.RGB{R: 0xea, G: 0xf2, B: 0xff}, imaging.RGB{R: 0x16, G: 0x23, B: 0x38}

// Marks returns the rules that give links and buttons a color, where necessary darkened or lightened to be read.
func Marks(c imaging.RGB) template.CSS {
	return template.CSS(fmt.Sprintf(":root{--mark:%s}@media (prefers-color-scheme:dark){:root{--mark:%s}}",
		c.ReadableOn(lightGround).Hex(), c.ReadableOn(darkGround).Hex()))
}
