// Package logofinder finds a brand's logos: it lists the candidates of a page, reads the files, classifies the images,
// drops duplicates and blank images, and stores the rest in the formats that are served. It does not fetch.
//
// Candidates weighs declarations and visible images: icons, linked data, images and drawings of the header,
// backgrounds, parts of sprites. Each has the reasons that add up to its score. Read analyzes the pixels; a vector is
// drawn by a Renderer. Select chooses; Trials reports the result of every candidate. Images lists other images of a
// page that are worth keeping.
package logofinder
