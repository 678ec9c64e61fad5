// Package css reads the stylesheets of a page or of an SVG file and evaluates them for an element: fonts, colors,
// backgrounds, the fill of a drawing. It is a cascade, not a layout: sizes and positions are not computed.
//
// The page is shown on a screen of 1280×800 CSS pixels, with a mouse, a light color scheme and no hovered element.
//
// The package intentionally omits :has() and the states of a control (such rules do not apply), pseudo-elements other
// than ::before and ::after, @scope, @keyframes, @property, container sizes (a container is as wide as the screen), and
// the browser's own style sheet.
//
// Sheets are read once, into rules indexed by the id, class or element name of the last part of their selectors.
// Selectors are compiled and matched only for elements that are queried.
package css
