package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/spf13/cobra"

	"letterhead/domain/brand"
	"letterhead/eventschemas"
	"letterhead/internal/safehttp"
	"letterhead/internal/telemetry"
	"letterhead/projections/brands"
	"letterhead/workers/crawl"
)

// maxPageFile bounds a saved page: what a crawl reads of a home page.
const maxPageFile = 3 << 20

func crawlCommand(e *environment) *cobra.Command {
	c := &cobra.Command{Use: "crawl URL | --file PAGE --url URL", Short: "Show what a crawl finds, and store nothing",
		Long: "Crawl a site, or read a saved page without fetching anything, and print the record with the evidence of each field. It opens no data folder, stores nothing and charges nothing.",
		Args: cobra.MaximumNArgs(1)}
	file := c.Flags().String("file", "", "a saved page; nothing is fetched")
	address := c.Flags().String("url", "", "where the saved page was")
	timeout := c.Flags().Duration("timeout", crawl.DefaultAllowed, "how long the crawl may take")
	asJSON := jsonFlag(c)
	c.RunE = func(cmd *cobra.Command, args []string) error {
		cfg, err := e.config()
		if err != nil {
			return err
		}
		logger, err := telemetry.NewLogger(e.stderr, "warn", cfg.LogFormat)
		if err != nil {
			return err
		}
		ctx, cancel := context.WithTimeout(cmd.Context(), *timeout)
		defer cancel()
		settings := crawl.Config{Logger: logger}
		var result *crawl.Result
		switch {
		case *file != "" && *address != "" && len(args) == 0:
			body, readErr := readPage(*file)
			if readErr != nil {
				return readErr
			}
			result, err = crawl.Read(ctx, settings, crawl.SavedPage{URL: *address, Body: body})
			args = []string{*address}
		case *file == "" && *address == "" && len(args) == 1:
			client, clientErr := safehttp.New(safehttp.Config{UserAgent: cfg.UserAgent})
			if clientErr != nil {
				return clientErr
			}
			result, _, err = crawl.Once(ctx, settings, client, args[0])
		default:
			return usageError{errors.New("give one URL, or --file together with --url")}
		}
		if err != nil {
			return err
		}
		id, err := brand.ParseIdentifier(args[0])
		if err != nil {
			return usageError{err}
		}
		return printCrawl(e.stdout, id.Domain, result, cfg.BaseURL, *asJSON)
	}
	return c
}

func readPage(name string) ([]byte, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	body, err := io.ReadAll(io.LimitReader(f, maxPageFile+1))
	if err == nil && len(body) > maxPageFile {
		err = fmt.Errorf("%s is larger than the %d bytes that a crawl reads", name, maxPageFile)
	}
	return body, err
}

// printCrawl prints the record as the API would answer it.
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
	if _, err := fmt.Fprintf(w, "%s\n\n", pretty); err != nil {
		return err
	}
	for _, ev := range r.Evidence {
		if _, err := fmt.Fprintf(w, "%-18s %.2f  %-24s %s\n", ev.Field, ev.Confidence, ev.Method, ev.Source); err != nil {
			return err
		}
	}
	return nil
}
