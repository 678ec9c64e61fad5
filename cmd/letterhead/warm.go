package main

import (
	"errors"
	"fmt"
	"os"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"letterhead/adminapi"
	"letterhead/node"
)

// maxListFile is the maximum size of a list of domains.
const maxListFile = 8 << 20

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
			list, err := readList(args[0])
			if err != nil {
				return err
			}
			method, use, body = "POST", node.ToWrite, map[string]string{"list": list}
		}
		return e.onAPI(use, func(x *client) error {
			var w adminapi.Warming
			if err := x.call(method, "/admin/crawls/warming", body, &w); err != nil {
				return err
			}
			if *asJSON {
				_, err := e.stdout.Write(x.answer)
				return err
			}
			return printWarming(e, w)
		})(cmd, args)
	}
	return c
}

func readList(name string) (string, error) {
	f, err := os.Open(name)
	if err != nil {
		return "", err
	}
	defer f.Close()
	text, err := readAtMost(f, maxListFile)
	if err == nil && !utf8.Valid(text) {
		err = fmt.Errorf("%s is not UTF-8 text; save it as UTF-8", name)
	}
	return string(text), err
}

func printWarming(e *environment, w adminapi.Warming) error {
	if w.Lines != nil {
		if err := e.printf("%d domains accepted, %d lines with a domain of an earlier line, %d lines rejected\n",
			w.Accepted, w.Duplicates, w.Rejected); err != nil {
			return err
		}
		for _, r := range w.First {
			if err := e.printf("  line %d: %s\n", r.Line, r.Reason); err != nil {
				return err
			}
		}
	}
	return e.printf("%s: %d of %d domains examined, %d crawled, %d have a fresh record, %d skipped, %d crawled again\n",
		w.State, w.Examined, w.Accepted, w.Requested, w.Fresh, w.Skipped, w.Repeated)
}
