package main

import (
	"fmt"
	"io"
	"slices"
	"text/tabwriter"
	"time"
)

// print writes the tables and the cost of the crawls.
func (r *report) print(w io.Writer) {
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	group := ""
	for _, t := range tally(r.verdicts, r.groups) {
		if t.Group != group {
			group = t.Group
			table.Flush()
			fmt.Fprintf(w, "\n%s\n", group)
			fmt.Fprintln(table, "field\tjudged\tright\tfalse\tmissing\trightly none\tprecision\trecall\tcorrect\t95 %\t")
		}
		low, high := wilson(t.Right+t.None, t.Total())
		fmt.Fprintf(table, "%s\t%d\t%d\t%d\t%d\t%d\t%s\t%s\t%s\t%.0f–%.0f\t\n", t.Field, t.Total(), t.Right,
			t.Wrong, t.Missing, t.None,
			percent(t.Precision()), percent(t.Recall()), percent(t.Share()), 100*low, 100*high)
	}
	table.Flush()
	r.printCost(w)
}

// printMisses lists wrong and missing results. Those of logo files are hundreds.
func (r *report) printMisses(w io.Writer, files bool) {
	list := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	for _, v := range r.verdicts {
		if (v.Kind == Wrong || v.Kind == Missing) && (files || !slices.Contains(fileGroups, v.Group)) {
			fmt.Fprintf(list, "%s/%s\t%s\t%s\tours %s\ttruth %s\n", v.Group, v.ID, v.Field, v.Kind,
				quote(v.Ours), quote(v.Truth))
		}
	}
	list.Flush()
}

// printCost writes the cost of the crawls of recorded and built sites, whose files are complete. CPU time is reported
// for sequential crawls; it includes that of the servers, which is small.
func (r *report) printCost(w io.Writer) {
	var requests, kilobytes, wall, cpu []int
	for _, c := range r.pages {
		if c.result != nil && slices.Contains([]string{recorded, built, fresh, ownPages}, c.label.Group) {
			requests = append(requests, c.stats.Requests)
			kilobytes = append(kilobytes, int(c.stats.Bytes>>10))
			wall = append(wall, int(c.took/time.Millisecond))
			cpu = append(cpu, int(c.cpu/time.Millisecond))
		}
	}
	if len(requests) == 0 {
		return
	}
	fmt.Fprintf(w, "\nper site, median (95th of a hundred): %s requests, %s kB, %s ms",
		middle(requests), middle(kilobytes), middle(wall))
	if r.alone {
		fmt.Fprintf(w, ", %s ms of CPU", middle(cpu))
	}
	fmt.Fprintln(w)
}

func middle(list []int) string {
	slices.Sort(list)
	return fmt.Sprintf("%d (%d)", list[len(list)/2], list[len(list)*95/100])
}
