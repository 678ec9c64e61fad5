// Package table has the words, names and patterns by which the packages of the crawler read pages, in a text file for
// each of them. Most sections of a file have the name of the variable that is read from it.
//
// A file is a sequence of sections, each below its name in brackets. A line is a row, and tabs separate its columns. A
// line that begins with "# " is a comment, and empty lines are skipped.
package table

import (
	"embed"
	"fmt"
	"strings"
)

// Table has the lines of a file by section. Lines above the first section belong to "".
//
// Its methods panic if a section is missing, or has another form than they read. Packages call them for package
// variables, so that no program and no test starts with such a file.
type Table map[string][]string

//go:embed *.txt
var files embed.FS

// Of returns the table of a package.
func Of(name string) Table {
	text, err := files.ReadFile(name + ".txt")
	if err != nil {
		panic(err)
	}
	return Must(string(text))
}

// Must returns the table of a file's text, and panics if it is malformed.
func Must(text string) Table {
	t, err := Parse(text)
	if err != nil {
		panic(err)
	}
	return t
}

// Parse reads the text of a file. It rejects a section without rows or with two beginnings, and spaces around a row.
func Parse(text string) (Table, error) {
	t, name, rows := Table{}, "", []string(nil)
	end := func() error {
		if _, again := t[name]; again || rows == nil && name != "" {
			return fmt.Errorf("read a table: section %q is empty, or begins twice", name)
		}
		t[name], rows = rows, nil
		return nil
	}
	for line := range strings.SplitSeq(text, "\n") {
		switch {
		case line == "" || strings.HasPrefix(line, "# "):
		case line[0] == '[' && line[len(line)-1] == ']':
			if err := end(); err != nil {
				return nil, err
			}
			name = line[1 : len(line)-1]
		case strings.TrimSpace(line) != line:
			return nil, fmt.Errorf("read a table: space around %q in section %q", line, name)
		default:
			rows = append(rows, line)
		}
	}
	return t, end()
}

// List returns a section of one column.
func (t Table) List(section string) []string {
	rows := t[section]
	if rows == nil {
		panic(fmt.Sprintf("table: no section %q", section))
	}
	for _, row := range rows {
		if strings.Contains(row, "\t") {
			panic(fmt.Sprintf("table: section %q has a row of several columns: %q", section, row))
		}
	}
	return rows
}

// Rows returns the columns of a section, which must be that many in each row.
func (t Table) Rows(section string, columns int) [][]string {
	var out [][]string
	for _, line := range t[section] {
		row := strings.Split(line, "\t")
		if len(row) != columns || strings.Contains(line, " \t") || strings.Contains(line, "\t ") {
			panic(fmt.Sprintf("table: section %q has a row that is not %d columns: %q", section, columns, line))
		}
		out = append(out, row)
	}
	if out == nil {
		panic(fmt.Sprintf("table: no section %q", section))
	}
	return out
}

// Set returns a section of one column as a set, in which no entry occurs twice.
func (t Table) Set(section string) map[string]bool {
	list := t.List(section)
	out := make(map[string]bool, len(list))
	for _, entry := range list {
		if out[entry] {
			panic(fmt.Sprintf("table: section %q has %q twice", section, entry))
		}
		out[entry] = true
	}
	return out
}

// Map returns a section of two columns, whose first column has no value twice.
func (t Table) Map(section string) map[string]string {
	out := map[string]string{}
	for _, row := range t.Rows(section, 2) {
		if _, again := out[row[0]]; again {
			panic(fmt.Sprintf("table: section %q has %q twice", section, row[0]))
		}
		out[row[0]] = row[1]
	}
	return out
}

// Any returns the alternatives of a regular expression, one in each line of a section.
func (t Table) Any(section string) string { return strings.Join(t.List(section), "|") }
