package main

import "letterhead/internal/imaging"

// canonical converts a drawing to the sanitizer's form, in which it is stored
// and served.
func canonical(svg string) (string, error) {
	clean, _, err := imaging.SanitizeSVG([]byte(svg))
	return string(clean), err
}
