package journal

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"letterhead/domain/books"
)

const maxChartBytes = 64 << 10

// codePattern is the form of a code; all formats take it.
var codePattern = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,31}$`)

// Chart is the code of each ledger account in an export, indexed by books.LedgerAccount. Without a file, the code is
// the account's name.
type Chart [len(books.Chart)]string

// DefaultChart returns the names of the ledger accounts.
func DefaultChart() (c Chart) {
	for i, entry := range books.Chart {
		c[i] = entry.Name
	}
	return c
}

// ReadChart reads a YAML file that maps names of ledger accounts to the codes of the user's general ledger, such as
// "revenue: 4000". Accounts that it does not name keep their names.
func ReadChart(r io.Reader) (Chart, error) {
	names := DefaultChart()
	c := names
	text, err := io.ReadAll(io.LimitReader(r, maxChartBytes+1))
	if err != nil {
		return c, err
	}
	if len(text) > maxChartBytes {
		return c, fmt.Errorf("it has more than %d bytes", maxChartBytes)
	}
	var doc yaml.Node
	documents := yaml.NewDecoder(bytes.NewReader(text))
	if err := documents.Decode(&doc); errors.Is(err, io.EOF) {
		return c, nil
	} else if err != nil {
		return c, fmt.Errorf("it must be YAML with lines like %q: %w", "revenue: 4000", err)
	}
	if err := documents.Decode(new(yaml.Node)); !errors.Is(err, io.EOF) {
		return c, errors.New("it has a second YAML document (after ---)")
	}
	lines := doc.Content[0]
	if lines.Kind != yaml.MappingNode {
		return c, errors.New(`it must be YAML with lines like "revenue: 4000"`)
	}
	named := map[string]bool{}
	for i := 0; i < len(lines.Content); i += 2 {
		name, code := lines.Content[i], lines.Content[i+1]
		at := slices.IndexFunc(books.Chart[:], func(e books.ChartEntry) bool { return e.Name == name.Value })
		switch {
		case at < 0:
			return c, fmt.Errorf("line %d: there is no ledger account %q; the names are %s",
				name.Line, name.Value, strings.Join(names[:], ", "))
		case named[name.Value]:
			return c, fmt.Errorf("line %d: %s has a code already", name.Line, name.Value)
		case code.Kind != yaml.ScalarNode || !codePattern.MatchString(code.Value):
			return c, fmt.Errorf("line %d: the code of %s must have 1 to 32 letters, digits, dots, underscores and dashes, and begin with a letter or digit",
				code.Line, name.Value)
		}
		named[name.Value] = true
		c[at] = code.Value
	}
	for i, code := range c {
		if j := slices.IndexFunc(c[:i], func(other string) bool { return strings.EqualFold(code, other) }); j >= 0 {
			return c, fmt.Errorf("%s and %s have the same code %s", books.Chart[j].Name, books.Chart[i].Name, code)
		}
	}
	return c, nil
}
