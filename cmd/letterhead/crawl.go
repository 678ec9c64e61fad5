package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"time"

	"github.com/spf13/cobra"

	"letterhead/domain/brand"
	"letterhead/eventschemas"
	"letterhead/internal/config"
	"letterhead/internal/disk"
	"letterhead/node"
	"letterhead/operations"
	"letterhead/projections/brands"
	"letterhead/workers/crawl"
	"letterhead/workers/crawl/report"
)

// maxPageFile is the maximum size of a saved page: as much as a crawl reads of a home page.
const maxPageFile = 3 << 20

func crawlCommand(e *environment) *cobra.Command {
	c := &cobra.Command{Use: "crawl URL | --file PAGE --url URL", Short: "Show what a crawl finds, without storing it",
		Args: exactArgs("[URL]")}
	var o crawlOptions
	c.Flags().StringVar(&o.file, "file", "", "a saved page to read instead of fetching")
	c.Flags().StringVar(&o.address, "url", "", "URL of the saved page")
	c.Flags().DurationVar(&o.timeout, "timeout", crawl.DefaultAllowed, "how long the crawl may take")
	c.Flags().BoolVar(&o.explain, "explain", false, "print the candidates with their scores instead of the record")
	c.Flags().StringVar(&o.report, "report", "", "write the candidates with their images to an HTML file")
	c.Flags().StringVar(&e.renderer, "renderer", "",
		"browser for pages that are empty without their scripts: off or chromium (LETTERHEAD_RENDERER)")
	asJSON := jsonFlag(c)
	c.RunE = func(cmd *cobra.Command, args []string) error {
		if *asJSON && o.explain {
			return misuse("--explain prints text and cannot be used with --json, which includes the evidence already")
		}
		if len(args) == 1 {
			o.target = args[0]
		}
		cfg, err := e.config()
		if err != nil {
			return err
		}
		shown, err := crawlOnce(cmd.Context(), e, cfg, o)
		if err != nil {
			return err
		}
		if o.report != "" {
			html := func(w io.Writer) error { return report.HTML(w, shown) }
			if err := writeWhole(o.report, html); err != nil {
				return fmt.Errorf("write the report: %w", err)
			}
			fmt.Fprintf(e.stderr, "report written to %s\n", o.report)
		}
		if o.explain {
			return report.Text(e.stdout, shown)
		}
		return printCrawl(e.stdout, shown.Domain, shown.Result, cfg.BaseURL, *asJSON)
	}
	return c
}

// crawlOptions are the flags of the crawl command.
type crawlOptions struct {
	target, file, address, report string
	timeout                       time.Duration
	explain                       bool
}

// crawlOnce crawls a target, or reads a saved page.
func crawlOnce(ctx context.Context, e *environment, cfg config.Config, o crawlOptions) (report.Crawl, error) {
	saved := o.file != "" && o.address != "" && o.target == ""
	if !saved && (o.file != "" || o.address != "" || o.target == "") {
		return report.Crawl{}, misuse("give one URL, or --file together with --url")
	}
	if saved && e.renderer != "" {
		return report.Crawl{}, misuse("--renderer runs the scripts of fetched pages; the scripts of a saved page are not run")
	}
	name := o.target
	if saved {
		name = o.address
	}
	id, err := brand.ParseIdentifier(name)
	if err != nil {
		return report.Crawl{}, usageError{Err: err}
	}
	once := node.Crawl{Domain: id.Domain, Target: o.target, Timeout: o.timeout}
	if saved {
		body, err := readAtMost(o.file, maxPageFile)
		if err != nil {
			return report.Crawl{}, err
		}
		once.Page = &crawl.SavedPage{URL: o.address, Body: body}
	}
	return node.CrawlOnce(ctx, cfg, e.stderr, once)
}

func readAtMost(name string, max int64) ([]byte, error) {
	return readFile(name, func(r io.Reader) ([]byte, error) {
		body, err := io.ReadAll(io.LimitReader(r, max+1))
		if err == nil && int64(len(body)) > max {
			err = fmt.Errorf("it is larger than the %d bytes that are read", max)
		}
		return body, err
	})
}

// readFile reads a file that the user named. Its errors have the name.
func readFile[T any](name string, read func(io.Reader) (T, error)) (value T, err error) {
	f, err := os.Open(name)
	if err != nil {
		return value, err
	}
	defer f.Close()
	if value, err = read(f); err != nil && !errors.As(err, new(*fs.PathError)) {
		err = fmt.Errorf("%s: %w", name, err)
	}
	return value, err
}

// printCrawl prints the record as the API would return it, and the evidence.
func printCrawl(w io.Writer, domain string, r *crawl.Result, baseURL string, asJSON bool) error {
	status := brand.StatusPartial
	if r.Record.Complete {
		status = brand.StatusReady
	}
	body := brands.Render(brand.View{
		ID: brand.ID(domain).String(), Domain: domain, URN: brand.URNPrefix + brand.ID(domain).String(), Status: status,
		Record: r.Record, UpdatedAt: time.Now().UTC(),
	}).AppendTo(nil, baseURL)
	if asJSON {
		evidence := map[string][]eventschemas.Evidence{}
		for _, ev := range r.Evidence {
			evidence[ev.Field] = append(evidence[ev.Field], ev)
		}
		return printJSON(w, map[string]any{"brand": json.RawMessage(body), "evidence": evidence})
	}
	var indented map[string]any
	if err := json.Unmarshal(body, &indented); err != nil {
		return err
	}
	pretty, err := json.MarshalIndent(indented, "", "  ")
	if err != nil {
		return err
	}
	text := fmt.Appendf(nil, "%s\n\n", pretty)
	for _, ev := range r.Evidence {
		text = fmt.Appendf(text, "%-18s %.2f  %-24s %s\n", ev.Field, ev.Confidence, ev.Method, ev.Source)
	}
	_, err = w.Write(text)
	return err
}

// writeWhole writes a file that the user named, completely or not at all. If the name is not a regular file, such as
// /dev/null or a pipe, it writes to that instead of replacing it.
func writeWhole(name string, write func(io.Writer) error) error {
	if there, err := os.Stat(name); err == nil && !there.Mode().IsRegular() {
		f, err := os.OpenFile(name, os.O_WRONLY, 0)
		if err != nil {
			return err
		}
		return errors.Join(write(f), f.Close())
	}
	if err := disk.WriteFile(name, write); err != nil {
		return err
	}
	return os.Chmod(name, 0o644)
}

// maxListFile is the maximum size of a list of domains: its JSON form may be twice as large, and the API reads 8 MiB.
const maxListFile = 4 << 20

func warmCommand(e *environment) *cobra.Command {
	c := command("warm [FILE]", "Crawl a list of domains in the background, or show its progress")
	asJSON := jsonFlag(c)
	cancel := c.Flags().Bool("cancel", false, "request no further crawls for the list")
	c.RunE = func(cmd *cobra.Command, args []string) error {
		method, use, body := "GET", node.ToRead, any(nil)
		switch {
		case *cancel && len(args) > 0:
			return misuse("give either a file or --cancel")
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
				return e.printf("%s", x.answer)
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
