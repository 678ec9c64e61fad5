package sp500

// Domains lists all domains that facts are known of, in no order.
func Domains() []string {
	out := make([]string, 0, len(byDomain()))
	for d := range byDomain() {
		out = append(out, d)
	}
	return out
}
