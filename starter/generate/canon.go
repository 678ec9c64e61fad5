package main

import "letterhead/internal/imaging"

// canonical brings a drawing into the form in which it is stored and served, which is the sanitizer's.
func canonical(svg string) (string, error) {
	clean, _, err := imaging.SanitizeSVG([]byte(svg))
	return string(clean), err
}
