package main

import (
	_ "embed"
	"strings"

	"github.com/spf13/cobra"
)

// examples are the command lines that help texts show, without the name of the program.
//
//go:embed examples.txt
var examples string

// addExamples gives each example to its command.
func addExamples(root *cobra.Command) {
	for line := range strings.SplitSeq(strings.TrimSpace(examples), "\n") {
		c, _, err := root.Find(strings.Fields(line))
		if err != nil {
			panic(err) // Find fails only for a word that follows root and is no command
		}
		if c.Example != "" {
			c.Example += "\n"
		}
		c.Example += "  letterhead " + line
	}
}
