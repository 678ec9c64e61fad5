package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/url"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"letterhead/domain/brand"
	"letterhead/internal/imaging"
	"letterhead/node"
	"letterhead/readapi/logo"
)

func logoCommand(e *environment) *cobra.Command {
	c := command("logo DOMAIN", "Draw a logo as /logo/DOMAIN does, without a charge")
	var to string
	c.Flags().StringVarP(&to, "output", "o", "-", "file to write; - is standard output")
	values := map[string]*string{}
	for _, f := range [][2]string{
		{"type", "icon, symbol or logo (default icon)"},
		{"size", "longest side in pixels, 16 to 1024 (default 128)"},
		{"theme", "ink: light or dark"},
		{"background", "background that the logo will be on: light, dark, auto-light, auto-dark, or six hexadecimal digits without #"},
		{"plate", "a tile behind a logo that the background would swallow: auto or never (default auto)"},
		{"format", "webp, png, svg or jpeg"},
		{"fallback", "what replaces a missing logo: monogram, transparent, or 404 for an error (default monogram)"},
	} {
		values[f[0]] = c.Flags().String(f[0], "", f[1])
	}
	c.RunE = func(cmd *cobra.Command, args []string) error {
		query := url.Values{}
		for name, value := range values {
			if cmd.Flags().Changed(name) {
				query.Set(name, *value)
			}
		}
		fromEnding := !query.Has("format") && to != "-"
		if fromEnding {
			format, known := formatOfEnding(to)
			if !known {
				return misuse("the extension of %s is not a logo format; use .png, .webp, .svg or .jpg, or give --format", to)
			}
			query.Set("format", string(format))
		}
		domain, options, err := logoAskedFor(args[0], query)
		if err != nil {
			return usageError{Err: err}
		}
		draw := func(ctx context.Context, n *node.Node, _ *cobra.Command, _ []string) error {
			drawn, err := n.DrawLogo(ctx, domain, options)
			if err != nil {
				return err
			}
			return printJSON(e.stdout, drawn)
		}
		if e.node != nil { // the client of the admin socket writes the file, because its path is relative to the client
			return draw(cmd.Context(), e.node, cmd, args)
		}
		if to == "-" && onTerminal(e.stdout) {
			return misuse("an image cannot be printed to a terminal; name a file with -o, or use a pipe")
		}
		out := e.stdout
		var answer bytes.Buffer
		e.stdout = &answer
		err = e.onFolder(node.ToRead, draw)(cmd, args)
		e.stdout = out
		if err != nil {
			return err
		}
		var drawn node.DrawnLogo
		if err := json.Unmarshal(answer.Bytes(), &drawn); err != nil {
			return fmt.Errorf("the server did not answer with an image (is it another release?): %w", err)
		}
		if fromEnding && drawn.Format != string(options.Format) {
			return fmt.Errorf("%s has no vector logo, so %s would contain a PNG; name the file .png, or give --format",
				domain, to)
		}
		return writeLogo(e, to, drawn)
	}
	return c
}

// logoAskedFor parses a domain and the parameters of a logo as the endpoint does.
func logoAskedFor(sent string, query url.Values) (domain string, options logo.Options, err error) {
	if domain, err = brand.ParseDomain(sent); err == nil {
		_, options, err = logo.Parse(url.PathEscape(domain), query.Encode(), nil)
	}
	return domain, options, err
}

// formatOfEnding returns the image format of a file name's extension.
func formatOfEnding(name string) (imaging.Format, bool) {
	ending := strings.TrimPrefix(strings.ToLower(filepath.Ext(name)), ".")
	if ending == "jpg" {
		return imaging.JPEG, true
	}
	format := imaging.Format(ending)
	return format, slices.Contains([]imaging.Format{imaging.WebP, imaging.PNG, imaging.SVG, imaging.JPEG}, format)
}

// writeLogo writes the image to a file or to standard output, and describes it on standard error.
func writeLogo(e *environment, to string, drawn node.DrawnLogo) error {
	write := func(w io.Writer) error {
		_, err := w.Write(drawn.Body)
		return err
	}
	name := to
	if to == "-" {
		name = "standard output"
		if err := write(e.stdout); err != nil {
			return fmt.Errorf("write the logo: %w", err)
		}
	} else if err := writeWhole(to, write); err != nil {
		return fmt.Errorf("write the logo: %w", err)
	}
	_, err := fmt.Fprintf(e.stderr, "%s: %s, %s, %d bytes, from: %s\n", name, drawn.Format, drawn.Size,
		len(drawn.Body), drawn.From)
	return err
}
