package config

import (
	"regexp"
	"strings"

	"letterhead/internal/levenshtein"
)

const (
	prefix = "LETTERHEAD_"
	// lettersPerTypo is the number of letters of a name for which a suggested setting may differ by one edit.
	lettersPerTypo = 3
)

// Unknown is a variable that looks like a setting but is not one.
type Unknown struct {
	Name    string
	Nearest string // the setting that was probably meant; "" if none is similar
}

// LogAttrs returns the variable and, if there is one, the nearest setting, for slog.
func (u Unknown) LogAttrs() []any {
	attrs := []any{"variable", u.Name}
	if u.Nearest != "" {
		attrs = append(attrs, "nearest_setting", u.Nearest)
	}
	return attrs
}

// Kubernetes gives a pod variables for each Service of its namespace. Those of a Service named letterhead,
// or letterhead-…, look like settings.
var (
	serviceName  = regexp.MustCompile(`_SERVICE_(HOST|PORT(_\w+)?)$|_PORT_\d+_(TCP|UDP|SCTP)(_(PROTO|PORT|ADDR))?$`)
	servicePort  = regexp.MustCompile(`_PORT$`)
	serviceValue = regexp.MustCompile(`^(tcp|udp|sctp)://`)
)

// UnknownSettings returns the variables of an environment (in the form of os.Environ) that look like
// settings but are not, in the same order. It omits variables of tests (LETTERHEAD_TEST_…), of the command
// migrate (LETTERHEAD_MIGRATE_…) and of Kubernetes Services.
func UnknownSettings(environ []string) []Unknown {
	var names []string
	known := map[string]bool{}
	for _, s := range Settings() {
		names = append(names, s.Name)
		known[s.Name] = true
	}
	var out []Unknown
	for _, variable := range environ {
		name, value, _ := strings.Cut(variable, "=")
		switch {
		case !strings.HasPrefix(name, prefix), known[name], known[strings.TrimSuffix(name, fileSuffix)],
			strings.HasPrefix(name, prefix+"TEST_"),
			strings.HasPrefix(name, prefix+"MIGRATE_"),
			serviceName.MatchString(name), servicePort.MatchString(name) && serviceValue.MatchString(value):
			continue
		}
		out = append(out, Unknown{Name: name, Nearest: nearest(name, names)})
	}
	return out
}

// nearest returns the setting with the fewest edits, or "" if none is similar.
func nearest(name string, names []string) string {
	best, least := "", (len(name)-len(prefix))/lettersPerTypo+1
	for _, candidate := range names {
		if d := levenshtein.Distance(name, candidate); d < least {
			best, least = candidate, d
		}
	}
	return best
}
