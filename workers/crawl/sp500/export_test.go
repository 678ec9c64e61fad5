package sp500

// Domains returns all domains of the data set, in no particular order.
func Domains() []string {
	out := make([]string, 0, len(byDomain()))
	for d := range byDomain() {
		out = append(out, d)
	}
	return out
}
