package main

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"text/tabwriter"

	"github.com/spf13/cobra"
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

// order is a way to sort a list, named by --sort.
type order[T any] struct {
	name    string
	compare func(a, b T) int
}

// by returns the ascending order of a key.
func by[T any, K cmp.Ordered](name string, key func(T) K) order[T] {
	return order[T]{name, func(a, b T) int { return cmp.Compare(key(a), key(b)) }}
}

// addOrders adds the option of a listing's order. The function that it returns parses its value, and returns a function
// that sorts; without the option that changes nothing.
func addOrders[T any](c *cobra.Command, orders ...order[T]) func() (sort func([]T), err error) {
	names := make([]string, len(orders))
	for i, o := range orders {
		names[i] = o.name
	}
	parse := addSortFlag(c, names)
	return func() (func([]T), error) {
		name, descending, err := parse()
		i := slices.Index(names, name)
		if err != nil || i < 0 {
			return func([]T) {}, err
		}
		return func(lines []T) { sortLines(lines, orders[i].compare, descending) }, nil
	}
}

// sortLines sorts lines. Those that are equal keep their order, or reverse it.
func sortLines[T any](lines []T, compare func(a, b T) int, descending bool) {
	slices.SortStableFunc(lines, compare)
	if descending {
		slices.Reverse(lines)
	}
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
