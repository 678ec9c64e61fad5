package cluster

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// edits change the source files into those of a fictitious next release, with a new data format: CreditsCharged gets a
// version 3 with an upcaster that adds a field, and the ledger gets another version, which shows the field.
var edits = []struct{ file, old, new string }{
	{"eventschemas/codec.go", "const Format = 4\n", "const Format = 5\n"},
	{"eventschemas/events.go", "if no key was used.\n\t\tKeyID string `json:\"key_id,omitempty\"`\n", "if no key was used.\n\t\tKeyID string `json:\"key_id,omitempty\"`\n\t\tCause string `json:\"cause,omitempty\"`\n"},
	{"eventschemas/table.go", "Define[CreditsCharged](chargeNamesItsKey)", `Define[CreditsCharged](chargeNamesItsKey, Change{
			Format: 5,
			Up:     func(v2 []byte) ([]byte, error) { return append([]byte("{\"cause\":\"unknown\","), v2[1:]...), nil },
			Down: func(ev Event) any {
				v2 := ev.(CreditsCharged)
				v2.Cause = ""
				return v2
			},
		})`},
	{"internal/searchindex/candidates.go", "return []Analyzer{{Version: Analysis, Format: 1, Terms: TermsOf, Find: Find}}",
		"return []Analyzer{{Version: Analysis + 1, Format: 5, Terms: TermsOf, Find: Find}, " +
			"{Version: Analysis, Format: 1, Terms: TermsOf, Find: Find}}"},
	{"domain/account/charge.go", "KeyID:              in.KeyID,\n", "KeyID:              in.KeyID,\n\t\tCause:              \"lookup\",\n"},
	{"projections/ledger/ledger.go",
		"return &Model{moved: moved, scanned: maxScanned, Model: projections.NewModel(Name, store, current, previous)}\n", `next := current
	next.Number, next.Format = version+1, 5
	_ = previous
	return &Model{moved: moved, scanned: maxScanned, Model: projections.NewModel(Name, store, next, current)}
`},
	{"projections/ledger/fold.go", "ev.HoldID, ev.Domain\n\t\td.keyID = ev.KeyID\n", "ev.HoldID, ev.Domain\n\t\td.keyID, d.cause = ev.KeyID, ev.Cause\n"},
	{"projections/ledger/fold.go", "\tkeyID                       string\n", "\tkeyID, cause                string\n"},
	{"projections/ledger/fold.go", "\t\tdetail, err := d.encode()\n",
		"\t\tif f.tables.Version > version && d.cause != \"\" {\n\t\t\td.keyID += \" \" + d.cause\n\t\t}\n" +
			"\t\tdetail, err := d.encode()\n"},
}

// The edits must match this tree, also where no services are.
func TestEdits_ThisTree_MatchOnce(t *testing.T) { edited(t, moduleRoot(t)) }

// edited returns the text of each file that the edits change.
func edited(t *testing.T, root string) map[string]string {
	t.Helper()
	texts := map[string]string{}
	for _, e := range edits {
		text, known := texts[e.file]
		if !known {
			text = readFile(t, filepath.Join(root, e.file))
		}
		if strings.Count(text, e.old) != 1 {
			t.Fatalf("%s does not contain %q exactly once: adapt the edits for the next release", e.file, e.old)
		}
		texts[e.file] = strings.Replace(text, e.old, e.new, 1)
	}
	return texts
}

func moduleRoot(t *testing.T) string {
	t.Helper()
	out, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", "letterhead").Output()
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(string(out))
}

func readFile(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
