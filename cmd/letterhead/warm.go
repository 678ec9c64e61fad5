package main

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"letterhead/node"
	"letterhead/operations"
)

// maxListFile is the maximum size of a list of domains: its JSON form may be twice as large, and the API reads 8 MiB.
const maxListFile = 4 << 20

func warmCommand(e *environment) *cobra.Command {
	c := &cobra.Command{Use: "warm [FILE]", Short: "Crawl a list of domains in the background, or show its progress",
		Args: cobra.MaximumNArgs(1)}
	asJSON := jsonFlag(c)
	cancel := c.Flags().Bool("cancel", false, "request no further crawls for the list")
	c.RunE = func(cmd *cobra.Command, args []string) error {
		method, use, body := "GET", node.ToRead, any(nil)
		switch {
		case *cancel && len(args) > 0:
			return usageError{errors.New("give either a file or --cancel")}
		case *cancel:
			method, use = "DELETE", node.ToWrite
		case len(args) > 0:
			list, err := readAtMost(args[0], maxListFile)
			if err != nil {
				return err
			}
			method, use, body = "POST", node.ToWrite, map[string]string{"list": string(list)}
		}
		return e.onAPI(use, func(x *client) error {
			var w operations.Warmed
			err := x.call(method, "/admin/crawls/warming", body, &w)
			switch {
			case err != nil:
				return err
			case *asJSON:
				_, err := e.stdout.Write(x.answer)
				return err
			}
			var text []byte
			if w.DomainList != nil {
				text = fmt.Appendf(text, "%d domains accepted, %d duplicate lines, %d lines rejected\n", w.Accepted,
					w.Duplicates, w.Rejected)
				for _, r := range w.First {
					text = fmt.Appendf(text, "  line %d: %s\n", r.Line, r.Reason)
				}
			}
			return e.printf("%s%s: %d of %d domains examined, %d crawled, %d have a fresh record, %d skipped, %d crawled again\n",
				text, w.State, w.Examined, w.Accepted, w.Requested, w.Fresh, w.Skipped, w.Repeated)
		})(cmd, args)
	}
	return c
}
