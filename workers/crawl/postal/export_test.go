package postal

// All returns the 249 countries, in the order of their English names.
func All() []Country { return append([]Country(nil), gazette().all...) }
