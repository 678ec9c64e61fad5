package main

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"letterhead/node"
)

// listing is a command that prints the rows of a listing of the admin API.
type listing[T any] struct {
	path   string // of the request; see act
	field  string // of the answer, which has the rows
	page   int    // rows of a request; 0 if the operation has no pages
	titles string // of a table; see newList
	cells  func(*T) []any
	// object returns what --json prints; nil for the row of the answer.
	object func(row[T]) any
	keep   func(*T) bool // nil for all rows
	orders []order[T]    // for --sort, of a listing with one page; nil if the API sorts
}

// Rows of a request.
const (
	somePages = 500
	wholePage = 1 << 30 // for a listing that is sorted
)

// row is a row of a listing, as it was answered and as a value.
type row[T any] struct {
	text  json.RawMessage
	value T
}

// order is a way to sort a listing, named by --sort.
type order[T any] struct {
	name    string
	compare func(a, b *T) int
}

// by returns the ascending order of a key.
func by[T any, K cmp.Ordered](name string, key func(*T) K) order[T] {
	return order[T]{name, func(a, b *T) int { return cmp.Compare(key(a), key(b)) }}
}

// command makes a command print the listing. It adds the options --json and, with orders, --sort.
func (l listing[T]) command(e *environment, c *cobra.Command) *cobra.Command {
	var sort func([]row[T], pageRest) error
	if l.orders != nil {
		sort = l.sortFlag(c)
	}
	asJSON := jsonFlag(c)
	e.completeAccounts(c, l.path)
	c.RunE = e.onAPI(node.ToRead, func(x *client) error { return l.list(x, e, *asJSON, sort) })
	return c
}

// list prints the listing, each page sorted by sort unless that is nil. A provisional table has a line that says so.
func (l listing[T]) list(x *client, e *environment, asJSON bool, sort func([]row[T], pageRest) error) error {
	shown := list{}
	err := l.pages(x, func(rows []row[T], rest pageRest) error {
		if sort != nil {
			if err := sort(rows, rest); err != nil {
				return err
			}
		}
		if shown.out == nil {
			if rest.Provisional && !asJSON {
				fmt.Fprintf(e.stdout, "as of %s (provisional)\n", rest.AsOf.Format(time.RFC3339Nano))
			}
			if rest.More {
				fmt.Fprintln(e.stderr, "note: more may match; give more of the name")
			}
			shown = newList(e.stdout, asJSON, l.titles)
		}
		return l.add(shown, rows)
	})
	if err != nil {
		return err
	}
	return shown.end()
}

// pages requests the listing to its end, and passes each page on.
func (l listing[T]) pages(x *client, do func([]row[T], pageRest) error) error {
	path, query, err := x.fill(l.path)
	if err != nil {
		return err
	}
	return l.read(x, path, query, do)
}

// read is pages of a path and a query.
func (l listing[T]) read(x *client, path string, query map[string]any, do func([]row[T], pageRest) error) error {
	if l.page > 0 {
		query["limit"] = l.page
	}
	for {
		var fields map[string]json.RawMessage
		if err := x.call("GET", withQuery(path, query), nil, &fields); err != nil {
			return err
		}
		var rest pageRest
		var texts []json.RawMessage
		if err := cmp.Or(json.Unmarshal(x.answer, &rest), json.Unmarshal(fields[l.field], &texts)); err != nil {
			return err
		}
		rows := make([]row[T], 0, len(texts))
		for _, text := range texts {
			r := row[T]{text: text}
			if err := json.Unmarshal(text, &r.value); err != nil {
				return err
			}
			if l.keep == nil || l.keep(&r.value) {
				rows = append(rows, r)
			}
		}
		if err := do(rows, rest); err != nil || rest.Next == "" {
			return err
		}
		query["cursor"] = rest.Next
	}
}

// pageRest is what a page of a listing has besides its rows.
type pageRest struct {
	Next        string    `json:"next_cursor"`
	AsOf        time.Time `json:"as_of"`
	Provisional bool      `json:"provisional"`
	More        bool      `json:"more"` // may match
}

func (l listing[T]) add(shown list, rows []row[T]) error {
	for i := range rows {
		var object any = rows[i].text
		if l.object != nil {
			object = l.object(rows[i])
		}
		if err := shown.add(object, l.cells(&rows[i].value)...); err != nil {
			return err
		}
	}
	return nil
}

// without returns the JSON object of a row without a field, with the others in the order of their names.
func (r row[T]) without(field string) any {
	var object map[string]json.RawMessage
	if err := json.Unmarshal(r.text, &object); err != nil {
		return r.text
	}
	maps.DeleteFunc(object, func(name string, _ json.RawMessage) bool { return name == field })
	return object
}

// sortFlag adds the option of the order, and returns what sorts rows by its value. Equal rows keep their order, or
// reverse it.
func (l listing[T]) sortFlag(c *cobra.Command) func([]row[T], pageRest) error {
	names := make([]string, len(l.orders))
	for i, o := range l.orders {
		names[i] = o.name
	}
	sort := sortFlag(c, names)
	notSent(c, "sort")
	return func(rows []row[T], _ pageRest) error {
		name, descending := strings.CutPrefix(*sort, "-")
		i := slices.Index(names, name)
		switch {
		case *sort == "":
			return nil
		case i < 0:
			return misuse("--sort is one of %s, not %q", strings.Join(names, ", "), *sort)
		}
		slices.SortStableFunc(rows, func(a, b row[T]) int { return l.orders[i].compare(&a.value, &b.value) })
		if descending {
			slices.Reverse(rows)
		}
		return nil
	}
}

// sortFlag adds the option of the order of a listing.
func sortFlag(c *cobra.Command, orders []string) *string {
	return c.Flags().String("sort", "", "order: "+strings.Join(orders, ", ")+
		"; with a minus sign, such as -"+orders[1]+", in descending order")
}

// asOfFlag adds the option of a past moment.
func asOfFlag(c *cobra.Command) *string {
	return c.Flags().String("as-of", "", "at a past moment, or at the end of a month or a day: "+timeForms)
}

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
	_, err := fmt.Fprintf(table, strings.TrimPrefix(strings.Repeat("\t%v", len(cells)), "\t")+"\n", cells...)
	return err
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
