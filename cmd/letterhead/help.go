package main

import (
	_ "embed"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"letterhead/domain/account"
)

// helpTexts has a section for each command that has a description or examples: a line with # and its words, the
// description, and the examples as lines with $.
//
//go:embed help.txt
var helpTexts string

// addHelp adds the descriptions and examples to the commands.
func addHelp(root *cobra.Command) {
	values := strings.NewReplacer("{times}", timeForms, "{note bytes}", fmt.Sprint(account.MaxNoteBytes))
	for section := range strings.SplitSeq(strings.TrimPrefix(helpTexts, "# "), "\n# ") {
		words, text, _ := strings.Cut(section, "\n")
		description, examples, some := strings.Cut("\n"+strings.TrimSpace(text), "\n$ ")
		c, rest, err := root.Find(strings.Fields(words))
		if err != nil || len(rest) > 0 {
			panic("help.txt: there is no command " + words)
		}
		if description != "" {
			c.Long = values.Replace(description[1:])
		}
		if some {
			c.Example = "  " + strings.ReplaceAll(examples, "\n$ ", "\n  ")
		}
	}
}
