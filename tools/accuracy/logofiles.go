package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io/fs"
	"net/url"
	"slices"
	"strings"
	"sync"

	"letterhead/workers/crawl/extract"
	"letterhead/workers/crawl/extract/colors"
	"letterhead/workers/crawl/logofinder"
	"letterhead/workers/crawl/page"
	"letterhead/workers/crawl/site"
)

// Groups of single logo files.
const (
	accentFiles = "accent" // the brand's color is known from a source other than the drawing
	shapeFiles  = "shape"  // the file's name shows whether it is only the symbol
	themeFiles  = "theme"  // the file's name gives the background for which it is drawn
)

var fileGroups = []string{accentFiles, shapeFiles, themeFiles}

const (
	// maxLogoFiles limits the drawings of the data file.
	maxLogoFiles = 10000
	// topColors is the number of colors among which the brand's must be, in addition to the test of the first alone.
	topColors = 5
	// fileScore is that of a certain candidate: these files are logos.
	fileScore = 80
)

// logoFile is one drawing of testdata/logos.json.gz and its known properties.
type logoFile struct {
	Name   string `json:"name"`
	SVG    string `json:"svg"`
	Accent string `json:"accent"` // the brand's color, #rrggbb; "" if unknown
	Shape  string `json:"shape"`  // logo or symbol; "" if unknown
	Theme  string `json:"theme"`  // of its ink: light or dark; "" if unknown
}

// in reports whether a drawing belongs to a group.
func (l *logoFile) in(group string) bool {
	switch group {
	case accentFiles:
		return l.Accent != ""
	case shapeFiles:
		return l.Shape != ""
	}
	return l.Theme != ""
}

func readLogoFiles(files fs.FS) ([]logoFile, error) {
	packed, err := fs.ReadFile(files, "testdata/logos.json.gz")
	if err != nil {
		return nil, err
	}
	data, err := gunzip(packed)
	if err != nil {
		return nil, fmt.Errorf("logos.json.gz: %w", err)
	}
	var out []logoFile
	if err := json.Unmarshal(data, &out); err != nil {
		return nil, fmt.Errorf("logos.json.gz: %w", err)
	}
	if len(out) > maxLogoFiles {
		return nil, fmt.Errorf("logos.json.gz: %d drawings, more than %d", len(out), maxLogoFiles)
	}
	return out, nil
}

// scoreFiles reads the drawings of the groups, several concurrently, as a crawl reads those of a header, and judges the
// result. every is 1 for all of them, n for every nth.
func scoreFiles(ctx context.Context, draw logofinder.Renderer, all []logoFile, groups []string,
	jobs, every int) ([]Verdict, error) {
	all = slices.DeleteFunc(slices.Clone(all), func(l logoFile) bool {
		return !slices.ContainsFunc(groups, func(g string) bool { return l.in(g) })
	})
	found := make([][]Verdict, len(all))
	places := make(chan struct{}, jobs)
	var wg sync.WaitGroup
	for i := 0; i < len(all); i += every {
		if ctx.Err() != nil {
			break
		}
		places <- struct{}{}
		wg.Go(func() {
			defer func() { <-places }()
			found[i] = all[i].score(ctx, draw, groups)
		})
	}
	wg.Wait()
	return slices.Concat(found...), ctx.Err()
}

// fileSite is the nominal site of the drawings. It implies no brand.
var fileSite = site.New("drawing.sample")

// score reads one drawing and judges it. A drawing that cannot be read is missing in every group.
func (l *logoFile) score(ctx context.Context, draw logofinder.Renderer, groups []string) []Verdict {
	c := logofinder.Candidate{
		URL: &url.URL{Scheme: "https", Host: fileSite.Domain, Path: "/drawing.svg"}, Method: "file",
		Kind: logofinder.Mark, Score: fileScore,
	}
	var p *logofinder.Image
	f, err := logofinder.Open(ctx, draw, []byte(l.SVG), c.Part, false)
	if err == nil {
		p, err = f.As(c)
	}
	if err != nil {
		p = &logofinder.Image{Candidate: c}
	}
	var out []Verdict
	add := func(group, field string, truth string, ours string, right bool) {
		v := Verdict{Group: group, ID: l.Name, Field: field, Kind: Wrong, Ours: ours, Truth: truth}
		switch {
		case err != nil:
			v.Kind, v.Ours = Missing, err.Error()
		case right:
			v.Kind = Right
		}
		out = append(out, v)
	}
	for _, group := range groups {
		switch {
		case !l.in(group):
		case group == accentFiles:
			five := colorsOf(p)
			first := strings.Join(five[:min(1, len(five))], "")
			add(group, "accent", l.Accent, first, sameColor(first, l.Accent))
			add(group, "accent top 5", l.Accent, strings.Join(five, " "),
				slices.ContainsFunc(five, func(c string) bool { return sameColor(c, l.Accent) }))
		case group == shapeFiles:
			add(group, "shape", l.Shape, p.Type(), (p.Type() == "logo") == (l.Shape == "logo"))
		default:
			add(group, "theme", l.Theme, p.Theme, p.Theme == l.Theme)
		}
	}
	return out
}

// colorsOf returns the first colors of a brand with only one logo as its source.
func colorsOf(p *logofinder.Image) []string {
	in := extract.Input{Site: fileSite, Page: page.Parse(nil, "", p.URL, fileSite)}
	var out []string
	for _, c := range colors.Decide(in, logofinder.Palettes([]*logofinder.Image{p})).Value {
		out = append(out, c.Hex)
	}
	return out[:min(len(out), topColors)]
}
