// Package logofinder finds a brand's logos: it lists what a page offers as one, reads the files, tells what
// each shows, drops what shows the same twice or nothing, and stores the rest in the formats that are
// served. It fetches nothing itself.
//
// Candidates weighs what is declared and what is drawn: icons, linked data, images and drawings of the
// header, backgrounds, parts of sprites. Each has the reasons that its score is the sum of. Read looks at the
// pixels, of a vector as a Renderer draws it. Select chooses; Trials says what became of every candidate.
// Images lists what else of a page is worth keeping.
package logofinder
