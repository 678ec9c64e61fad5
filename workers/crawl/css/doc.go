// Package css reads a page's stylesheets and answers what they say of an element: fonts, colors,
// backgrounds, the fill of a drawing. It is a cascade, not a layout: sizes and positions are not computed.
//
// The page is seen on a screen of 1280×800 CSS pixels, with a mouse, a light color scheme and nothing hovered
// over.
//
// What is left out on purpose: :has() and the states of a control (such rules do not apply), the elements
// that CSS makes up except ::before and ::after, @scope, @keyframes, @property, container sizes (a container
// is taken to be as wide as the screen), and the style sheet that a browser brings itself.
//
// Sheets are read once, into rules indexed by the id, class or element name that the last part of their
// selectors asks for. Selectors are compiled and matched only for elements that somebody asks about.
package css
