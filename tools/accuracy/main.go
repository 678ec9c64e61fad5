package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"

	"letterhead/internal/resvg"
	"letterhead/internal/testcert"
	"letterhead/internal/testnet"
)

// options are the command's flags.
type options struct {
	groups, ids string
	json        bool
	misses      bool
	sheet       string
	jobs        int
	every       int
	peers       string
	folder      string
}

func main() {
	var o options
	flag.StringVar(&o.groups, "group", "", "only these groups, separated by commas")
	flag.StringVar(&o.ids, "id", "", "only these labels, separated by commas")
	flag.BoolVar(&o.json, "json", false, "print every verdict as a JSON object per line instead of tables")
	flag.BoolVar(&o.misses, "misses", true, "print every miss; those of logo files only when -group names them")
	flag.StringVar(&o.sheet, "sheet", "reports/accuracy.html", "file for the contact sheet; empty: none")
	flag.IntVar(&o.jobs, "jobs", runtime.GOMAXPROCS(0), "concurrent crawls; with 1 their CPU time is reported")
	flag.IntVar(&o.every, "every", 1, "score each nth logo file only, to save time")
	flag.StringVar(&o.peers, "peers", "", "compare with the programs that are installed in this folder")
	flag.StringVar(&o.folder, "folder", "", "score the pages in this folder instead: a folder with a label.json for each")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, o, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "accuracy:", err)
		os.Exit(1)
	}
}

// run scores the selected groups. Errors: if something cannot be run or read; a low score is not an error.
func run(ctx context.Context, o options, w io.Writer) error {
	root, err := checkout()
	if err != nil {
		return err
	}
	s, err := newSuite(ctx, root)
	if err != nil {
		return err
	}
	defer s.close()
	report, err := s.run(ctx, o)
	if err != nil {
		return err
	}
	if len(report.left) > 0 {
		fmt.Fprintf(os.Stderr, "not scored: %s: %v\n", strings.Join(report.left, ", "), s.missing)
	}
	if o.sheet != "" {
		if !filepath.IsAbs(o.sheet) {
			o.sheet = filepath.Join(root, o.sheet)
		}
		if err := writeSheet(o.sheet, report); err != nil {
			return err
		}
	}
	if o.json {
		encoder := json.NewEncoder(w)
		for _, v := range report.verdicts {
			if err := encoder.Encode(v); err != nil {
				return err
			}
		}
		return nil
	}
	if o.misses {
		report.printMisses(w, o.groups != "")
	}
	report.print(w)
	if o.peers == "" {
		return nil
	}
	if o.peers, err = filepath.Abs(o.peers); err != nil {
		return err
	}
	return s.compare(ctx, o.peers, report, w)
}

// checkout returns the repository that contains the working directory.
func checkout() (string, error) {
	folder, err := os.Getwd()
	for err == nil {
		data, err := os.ReadFile(filepath.Join(folder, "go.mod"))
		if err == nil && strings.HasPrefix(string(data), "module letterhead\n") {
			return folder, nil
		}
		parent := filepath.Dir(folder)
		if parent == folder {
			return "", fmt.Errorf("no checkout of this module above the working folder")
		}
		folder = parent
	}
	return "", err
}

// suite is the set of labels and files to score.
type suite struct {
	files    fs.FS
	stage    *stage
	renderer *resvg.Renderer
	missing  error // why the groups of dataGroups cannot be crawled here, or nil
}

func newSuite(ctx context.Context, root string) (*suite, error) {
	authority, err := testcert.NewAuthority()
	if err != nil {
		return nil, err
	}
	renderer, err := resvg.New(ctx, resvg.Config{})
	if err != nil {
		return nil, err
	}
	s := &suite{files: os.DirFS(filepath.Join(root, "tools", "accuracy")), renderer: renderer}
	data, err := testnet.Data(root)
	if errors.Is(err, testnet.ErrNoData) {
		data, s.missing = nil, err
	} else if err != nil {
		return nil, err
	}
	s.stage = &stage{files: s.files, data: data, authority: authority, renderer: renderer}
	return s, nil
}

func (s *suite) close() { s.renderer.Close(context.Background()) }

// report is the result of a run.
type report struct {
	groups   []string
	left     []string // groups whose pages are missing here
	pages    []crawled
	verdicts []Verdict
	files    []logoFile
	alone    bool // the crawls ran one at a time
}

// run crawls and scores the selected groups.
func (s *suite) run(ctx context.Context, o options) (*report, error) {
	wanted := func(list, name string) bool { return list == "" || slices.Contains(strings.Split(list, ","), name) }
	out := &report{alone: o.jobs == 1}
	var labels []Label
	var err error
	if o.folder != "" {
		o.groups = ownPages
		out.groups = []string{ownPages}
		if labels, err = readFolder(o.folder); err != nil {
			return nil, err
		}
		labels = slices.DeleteFunc(labels, func(l Label) bool { return !wanted(o.ids, l.ID) })
	}
	for _, group := range pageGroups {
		if !wanted(o.groups, group) {
			continue
		}
		if s.missing != nil && slices.Contains(dataGroups, group) {
			out.left = append(out.left, group)
			continue
		}
		out.groups = append(out.groups, group)
		list, err := readLabels(s.files, group)
		if err != nil {
			return nil, err
		}
		labels = append(labels, slices.DeleteFunc(list, func(l Label) bool { return !wanted(o.ids, l.ID) })...)
	}
	if out.pages, err = s.crawlAll(ctx, labels, max(1, o.jobs)); err != nil {
		return nil, err
	}
	for _, c := range out.pages {
		out.verdicts = append(out.verdicts, score(c)...)
	}
	groups := slices.DeleteFunc(slices.Clone(fileGroups), func(g string) bool { return !wanted(o.groups, g) })
	if len(groups) == 0 {
		return out, nil
	}
	out.groups = append(out.groups, groups...)
	if out.files, err = readLogoFiles(s.files); err != nil {
		return nil, err
	}
	out.files = slices.DeleteFunc(out.files, func(l logoFile) bool { return !wanted(o.ids, l.Name) })
	drawn, err := scoreFiles(ctx, s.renderer, out.files, groups, max(1, o.jobs), max(1, o.every))
	out.verdicts = append(out.verdicts, drawn...)
	return out, err
}

// crawlAll crawls labels, several concurrently, and returns them in order.
func (s *suite) crawlAll(ctx context.Context, labels []Label, jobs int) ([]crawled, error) {
	out := make([]crawled, len(labels))
	errs := make([]error, len(labels))
	places := make(chan struct{}, jobs)
	var wg sync.WaitGroup
	for i, l := range labels {
		places <- struct{}{}
		wg.Go(func() {
			defer func() { <-places }()
			out[i], errs[i] = s.stage.crawl(ctx, l)
		})
	}
	wg.Wait()
	return out, errors.Join(errs...)
}
