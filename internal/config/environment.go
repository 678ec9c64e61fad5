package config

import (
	"fmt"
	"io"
	"os"
	"regexp"
	"strings"

	"letterhead/internal/levenshtein"
)

const (
	// fileSuffix ends the name of the variable that names a file with the value of a setting.
	fileSuffix = "_FILE"
	// maxFileBytes is the maximum size of such a file.
	maxFileBytes = 64 << 10
)

// Value returns the value of a variable, or the content of the file that the variable with the suffix _FILE names,
// without the line break at its end. It returns "" if neither is set. Errors name the file and never its content.
func Value(lookup func(string) (string, bool), name string) (string, error) {
	value, _ := lookup(name)
	path, _ := lookup(name + fileSuffix)
	switch {
	case path == "":
		return value, nil
	case value != "":
		return "", fmt.Errorf("%s%s is set too; unset one of the two", name, fileSuffix)
	}
	b, err := readFile(path)
	if err != nil {
		return "", fmt.Errorf("%s%s: %w", name, fileSuffix, err)
	}
	if value = strings.TrimRight(string(b), "\r\n"); strings.TrimSpace(value) == "" {
		return "", fmt.Errorf("%s%s: %s is empty; write the value into it", name, fileSuffix, path)
	}
	return value, nil
}

func readFile(path string) ([]byte, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() { // reading a pipe could wait forever
		return nil, fmt.Errorf("%s is not a regular file", path)
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, maxFileBytes+1))
	if len(b) > maxFileBytes {
		return nil, fmt.Errorf("%s has more than %d bytes", path, maxFileBytes)
	}
	return b, err
}

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
