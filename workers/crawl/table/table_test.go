package table_test

import (
	"reflect"
	"strings"
	"testing"

	"letterhead/workers/crawl/table"
)

func TestTable_Sections_AreReadByColumns(t *testing.T) {
	got := table.Must("a\tb\n# why\nc\td\n\n[words]\none two\n#\n[list of one]\n\\d")
	if rows := got.Rows("", 2); !reflect.DeepEqual(rows, [][]string{{"a", "b"}, {"c", "d"}}) {
		t.Errorf("rows are %q", rows)
	}
	if m := got.Map(""); !reflect.DeepEqual(m, map[string]string{"a": "b", "c": "d"}) {
		t.Errorf("the map is %q", m)
	}
	if set := got.Set("words"); !reflect.DeepEqual(set, map[string]bool{"one two": true, "#": true}) {
		t.Errorf("the set is %v", set)
	}
	if any := got.Any("words") + got.Any("list of one"); any != `one two|#\d` {
		t.Errorf("the alternatives are %q", any)
	}
}

func TestParse_MalformedText_IsRejected(t *testing.T) {
	for _, text := range []string{"[a]", "[a]\n[b]\nx", "[a]\nx\n[b]\ny\n[a]\nz", "[]\nx", " x", "x\t", "x\r\n"} {
		if got, err := table.Parse(text); err == nil {
			t.Errorf("%q became %q", text, got)
		}
	}
}

func TestTable_RowsOfAnotherShape_Panic(t *testing.T) {
	got := table.Must("[one]\na\na\n[two]\nb\tc\nb\td\n[spaces]\ne\t f")
	for name, read := range map[string]func(){
		"no list": func() { got.List("none") }, "no rows": func() { got.Rows("none", 2) },
		"one column": func() { got.Map("one") }, "two columns": func() { got.List("two") },
		"two values": func() { got.Map("two") }, "an entry twice": func() { got.Set("one") },
		"space": func() { got.Rows("spaces", 2) }, "no row": func() { table.Must("[a]") },
		"no file": func() { table.Of("none") },
	} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%s: no panic", name)
				}
			}()
			read()
		}()
	}
}

// FuzzParse checks that a table holds all lines of its text that are no comments, and nothing else.
func FuzzParse(f *testing.F) {
	f.Add("[a]\nx\ty\n# z\n\n[b]\n#\n")
	f.Add("x\n[a]\n]\n[")
	f.Fuzz(func(t *testing.T, text string) {
		got, err := table.Parse(text)
		if err != nil {
			return
		}
		rows := 0
		for name, section := range got {
			rows += len(section)
			if name != "" && !strings.Contains("\n"+text, "\n["+name+"]") {
				t.Errorf("section %q is not in the text", name)
			}
		}
		for line := range strings.Lines(text) {
			line = strings.TrimSuffix(line, "\n")
			if line != "" && !strings.HasPrefix(line, "# ") && !(line[0] == '[' && line[len(line)-1] == ']') {
				rows--
			}
		}
		if rows != 0 {
			t.Errorf("%d rows more than lines in %q", rows, text)
		}
	})
}
