package main

import "letterhead/internal/svg"

// canonical converts a drawing to the sanitizer's form, in which it is stored and served.
func canonical(drawing string) (string, error) {
	clean, _, err := svg.Sanitize([]byte(drawing))
	return string(clean), err
}
