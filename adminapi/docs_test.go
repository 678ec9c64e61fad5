package adminapi

import (
	"os"
	"strings"
	"testing"

	"letterhead/internal/testmust"
)

// docs/admin.md has a table of operations and scopes.
func TestHandbook_ScopesOfEveryOperation_AreListed(t *testing.T) {
	raw := testmust.Get(os.ReadFile("../docs/admin.md"))(t)
	rows := 0
	for _, method := range []string{"GET", "POST", "PUT", "PATCH", "DELETE"} {
		rows += strings.Count(string(raw), "\n| `"+method+" /")
	}
	if want := len(table()) + 1; rows != want { // and /metrics
		t.Errorf("docs/admin.md has %d operations, want %d", rows, want)
	}
	for _, o := range table() {
		scopes := strings.ReplaceAll(scopesWith(o.requires), " or ", ", ")
		begins, ends := "\n| `"+o.method+" "+o.path+"` | ", " | "+scopes+" |\n"
		_, row, found := strings.Cut(string(raw), begins)
		if line, _, _ := strings.Cut(row, "\n"); !found || !strings.HasSuffix(line+"\n", ends) {
			t.Errorf("docs/admin.md lacks the row of %s %s with %s", o.method, o.path, scopes)
		}
	}
}
