package main

import (
	"fmt"
	"io"
	"text/tabwriter"
)

// list prints objects, each as a line of JSON or as a row of a table.
type list struct {
	out   io.Writer
	table *tabwriter.Writer // nil for JSON
}

// newList begins a list. Tabs separate the titles of a table.
func newList(out io.Writer, asJSON bool, titles string) list {
	if asJSON {
		return list{out: out}
	}
	l := list{out, newTable(out)}
	fmt.Fprintln(l.table, titles)
	return l
}

// add prints an object as JSON, or its cells.
func (l list) add(object any, cells ...any) error {
	if l.table == nil {
		return printJSON(l.out, object)
	}
	return addRow(l.table, cells)
}

// end prints the table, whose columns are as wide as their widest cells.
func (l list) end() error {
	if l.table == nil {
		return nil
	}
	return l.table.Flush()
}

// newTable returns a writer that aligns cells, which tabs separate.
func newTable(w io.Writer) *tabwriter.Writer { return tabwriter.NewWriter(w, 0, 4, 2, ' ', 0) }

func addRow(table *tabwriter.Writer, cells []any) error {
	for i, cell := range cells {
		end := "\t"
		if i == len(cells)-1 {
			end = "\n"
		}
		if _, err := fmt.Fprint(table, cell, end); err != nil {
			return err
		}
	}
	return nil
}

// section prints a table with a title line, unless it has no lines.
func section[T any](table *tabwriter.Writer, titles string, lines []T, cells func(T) []any) {
	if len(lines) == 0 {
		return
	}
	table.Flush()
	fmt.Fprintf(table, "\n%s\n", titles)
	for _, line := range lines {
		_ = addRow(table, cells(line)) // the last Flush fails, too
	}
}
