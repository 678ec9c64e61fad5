package main

import (
	"bufio"
	"cmp"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"sync"
	"text/tabwriter"
	"time"

	"golang.org/x/net/html/charset"

	"letterhead/internal/testnet"
	"letterhead/tools/accuracy/match"
)

// peer is another program that finds some of the same fields of a page.
type peer struct {
	name    string
	command []string // relative to the folder of peers, if its first word has a slash
	needs   string   // a file of its installation
	jobs    int      // processes side by side
	browser bool     // it needs Chromium
}

var peers = []peer{
	{name: "metascraper", command: []string{"node", "metascraper.mjs"}, needs: "node_modules/metascraper", jobs: 1},
	{name: "trafilatura", command: []string{"venv/bin/python", "pages.py", "trafilatura"}, needs: "venv/bin/python",
		jobs: 1},
	{name: "favicon", command: []string{"venv/bin/python", "pages.py", "favicon"}, needs: "venv/bin/python", jobs: 1},
	{name: "dembrandt", command: []string{"node", "dembrandt.mjs"}, needs: "node_modules/dembrandt", jobs: 3,
		browser: true},
}

// ourName is the name of this project in the comparison.
const ourName = "letterhead"

// comparedGroups are the groups that are compared: home pages whose files are complete, and in this repository.
var comparedGroups = []string{built, fresh}

// comparedFields are the fields of the comparison, in order.
var comparedFields = []string{"name", "description", "share image", "logo", "icon", "accent", "title font", "body font"}

const (
	// peerTime limits one page of a peer. Browsers wait for pages to become quiet.
	peerTime = 2 * time.Minute
	// stopTime limits how long a peer may take to end.
	stopTime = 10 * time.Second
	// maxAnswer limits what a peer prints for one page, in bytes.
	maxAnswer = 1 << 20
)

// found is what a peer prints for a page.
type found struct {
	Name        *string `json:"name"`
	Description *string `json:"description"`
	Image       *string `json:"image"`
	Logo        *string `json:"logo"`
	Accent      *string `json:"accent"`
	TitleFont   *string `json:"titleFont"`
	BodyFont    *string `json:"bodyFont"`
	Error       string  `json:"error"`
}

// score compares what a peer found with a label, as score does with a crawl. A peer is judged in the fields that it can
// find, and a font only by its name. If it failed, it is right about nothing.
func (f found) score(l Label) []Verdict {
	s := &scorer{crawled: crawled{label: l}}
	s.texts(f.Name, f.Description, f.Image)
	if l.Logo != nil {
		s.one(l.Logo.field(), f.Logo, l.Logo.Accept, sameAddress)
	}
	if l.Colors != nil {
		s.one("accent", f.Accent, l.Colors.Accent, sameColor)
	}
	if l.Fonts != nil {
		names := func(list []FontName) []string {
			var out []string
			for _, font := range list {
				out = append(out, font.Name)
			}
			return out
		}
		if l.Fonts.Title != nil {
			s.one("title font", f.TitleFont, names(l.Fonts.Title), match.Font)
		}
		if l.Fonts.Body != nil {
			s.one("body font", f.BodyFont, names(l.Fonts.Body), match.Font)
		}
	}
	if f.Error != "" {
		for i := range s.out {
			s.out[i].Kind = Missing // also where the page has no value
		}
	}
	return s.out
}

// finds returns the fields in which a peer found anything on any page.
func finds(all []found) map[string]bool {
	fields := map[string]bool{}
	for _, f := range all {
		for field, value := range map[string]*string{
			"name": f.Name, "description": f.Description, "share image": f.Image, "logo": f.Logo, "icon": f.Logo,
			"accent": f.Accent, "title font": f.TitleFont, "body font": f.BodyFont,
		} {
			if value != nil && *value != "" {
				fields[field] = true
			}
		}
	}
	return fields
}

// compare runs the peers that are installed in a folder on the pages of comparedGroups and prints a table with the
// crawl's own verdicts. Errors: if the pages cannot be served.
func (s *suite) compare(ctx context.Context, folder string, ours *report, w io.Writer) error {
	n, err := testnet.New(s.stage.authority)
	if err != nil {
		return err
	}
	defer n.Close()
	var pages []document
	for _, c := range ours.pages {
		if slices.Contains(comparedGroups, c.label.Group) && c.label.Outcome == outcomeOK {
			if err := s.stage.serve(n, c.label, nil); err != nil {
				return err
			}
			pages = append(pages, document{label: c.label})
		}
	}
	if len(pages) == 0 {
		return nil
	}
	proxy := httptest.NewServer(n.Proxy())
	defer proxy.Close()
	if err := s.fetchAll(ctx, proxy.URL, pages); err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "authority-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	trust := filepath.Join(dir, "authority.pem")
	if err := os.WriteFile(trust, s.stage.authority.PEM(), 0o600); err != nil {
		return err
	}
	env := append(os.Environ(), "REQUESTS_CA_BUNDLE="+trust)
	// programs prefer one or the other
	for _, name := range []string{"HTTPS_PROXY", "HTTP_PROXY", "https_proxy", "http_proxy"} {
		env = append(env, name+"="+proxy.URL)
	}
	for _, name := range []string{"NO_PROXY", "no_proxy"} {
		env = append(env, name+"=127.0.0.1,localhost") // where dembrandt reaches its browser
	}
	verdicts := map[string][]Verdict{}
	names := []string{ourName}
	for _, v := range ours.verdicts {
		if slices.ContainsFunc(pages, func(p document) bool { return p.label.Group == v.Group && p.label.ID == v.ID }) {
			verdicts[ourName] = append(verdicts[ourName], v)
		}
	}
	for _, p := range peers {
		all, err := p.run(ctx, folder, env, pages)
		if err != nil {
			fmt.Fprintf(w, "\nnot compared: %s: %v", p.name, err)
			continue
		}
		names = append(names, p.name)
		can, failed := finds(all), 0
		for i, f := range all {
			if f.Error != "" {
				failed++
			}
			for _, v := range f.score(pages[i].label) {
				if can[v.Field] {
					verdicts[p.name] = append(verdicts[p.name], v)
				}
			}
		}
		if failed > 0 {
			fmt.Fprintf(w, "\n%s failed on %d of %d pages", p.name, failed, len(all))
		}
	}
	for _, group := range comparedGroups {
		printComparison(w, group, names, verdicts)
	}
	return nil
}

// document is the page of a label as its server answers it.
type document struct {
	label Label
	URL   string `json:"url"` // after redirects
	HTML  string `json:"html"`
}

// fetchAll gets the documents of pages.
func (s *suite) fetchAll(ctx context.Context, proxy string, pages []document) error {
	through, err := url.Parse(proxy)
	if err != nil {
		return err
	}
	client := http.Client{Transport: &http.Transport{Proxy: http.ProxyURL(through),
		TLSClientConfig: &tls.Config{RootCAs: s.stage.authority.Pool()}}}
	defer client.CloseIdleConnections()
	for i := range pages {
		p := &pages[i]
		r, err := http.NewRequestWithContext(ctx, http.MethodGet,
			cmp.Or(p.label.URL, "https://"+p.label.Domain+"/"), nil)
		if err != nil {
			return err
		}
		resp, err := client.Do(r)
		if err != nil {
			return err
		}
		text, err := charset.NewReader(io.LimitReader(resp.Body, maxFile), resp.Header.Get("Content-Type"))
		var body []byte
		if err == nil {
			body, err = io.ReadAll(text)
		}
		if err = errors.Join(err, resp.Body.Close()); err != nil {
			return fmt.Errorf("%s: %w", r.URL, err)
		}
		p.URL, p.HTML = resp.Request.URL.String(), string(body)
	}
	return nil
}

// run lets a peer read pages. Errors: if it is not installed.
func (p peer) run(ctx context.Context, folder string, env []string, pages []document) ([]found, error) {
	if _, err := os.Stat(filepath.Join(folder, p.needs)); err != nil {
		return nil, errors.New("it is not installed; see docs/accuracy.md")
	}
	path := p.command[0]
	if filepath.Base(path) != path {
		path = filepath.Join(folder, path)
	} else if _, err := exec.LookPath(path); err != nil {
		return nil, err
	}
	if p.browser {
		chromium, err := exec.LookPath("chromium")
		if err != nil {
			return nil, err
		}
		env = append(slices.Clone(env), "CHROMIUM="+chromium)
	}
	out := make([]found, len(pages))
	var wg sync.WaitGroup
	for job := range p.jobs {
		wg.Go(func() {
			var running *program
			defer func() { running.end() }()
			for i := job; i < len(pages); i += p.jobs {
				if running == nil {
					var err error
					if running, err = startPeer(ctx, path, p.command[1:], folder, env); err != nil {
						out[i].Error = err.Error()
						continue
					}
				}
				var err error
				if out[i], err = running.ask(pages[i]); err != nil { // it is started again for the next page
					out[i] = found{Error: err.Error()}
					running.end()
					running = nil
				}
			}
		})
	}
	wg.Wait()
	return out, ctx.Err()
}

// program is a running peer.
type program struct {
	cmd     *exec.Cmd
	in      io.WriteCloser
	answers *bufio.Scanner
}

// startPeer starts a peer, which ends when the context does.
func startPeer(ctx context.Context, path string, args []string, folder string, env []string) (*program, error) {
	cmd := exec.CommandContext(ctx, path, args...)
	cmd.Dir, cmd.Env = folder, env
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) } // so that it can end its browser
	cmd.WaitDelay = stopTime
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	answers := bufio.NewScanner(out)
	answers.Buffer(nil, maxAnswer)
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	return &program{cmd, in, answers}, nil
}

// ask lets the process read a page. Errors: if it ends, answers nonsense, or takes longer than peerTime.
func (p *program) ask(of document) (f found, err error) {
	late := time.AfterFunc(peerTime, func() { p.cmd.Cancel() })
	defer late.Stop()
	if err := json.NewEncoder(p.in).Encode(of); err != nil {
		return f, err
	}
	if !p.answers.Scan() {
		return f, cmp.Or(p.answers.Err(), io.ErrUnexpectedEOF)
	}
	return f, json.Unmarshal(p.answers.Bytes(), &f)
}

// end lets the process end. A nil process has ended.
func (p *program) end() {
	if p != nil {
		p.in.Close()
		late := time.AfterFunc(stopTime, func() { p.cmd.Process.Kill() })
		defer late.Stop()
		p.cmd.Wait() // its status does not matter
	}
}

// printComparison prints, for each field and program, the share of pages of a group on which it is right, including
// rightly empty values, with its interval.
func printComparison(w io.Writer, group string, names []string, verdicts map[string][]Verdict) {
	fmt.Fprintf(w, "\n\n%s: right results of each program, with intervals of 95 %%\n", group)
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprint(table, "field")
	for _, name := range names {
		fmt.Fprintf(table, "\t%s", name)
	}
	fmt.Fprintln(table)
	tallies := map[string]map[string]Tally{}
	for name, list := range verdicts {
		tallies[name] = map[string]Tally{}
		for _, v := range list {
			if v.Group == group {
				t := tallies[name][v.Field]
				t.add(v.Kind)
				tallies[name][v.Field] = t
			}
		}
	}
	for _, field := range comparedFields {
		if !slices.ContainsFunc(slices.Collect(maps.Values(tallies)),
			func(of map[string]Tally) bool { t := of[field]; return t.Total() > 0 }) {
			continue
		}
		fmt.Fprint(table, field)
		for _, name := range names {
			t := tallies[name][field]
			if t.Total() == 0 {
				fmt.Fprint(table, "\t")
				continue
			}
			low, high := wilson(t.Right+t.None, t.Total())
			fmt.Fprintf(table, "\t%.0f %% (%.0f–%.0f) of %d", 100*t.Share(), 100*low, 100*high, t.Total())
		}
		fmt.Fprintln(table)
	}
	table.Flush()
}

// wilson returns the 95 % interval of a share (E. B. Wilson, Probable Inference, the Law of Succession, and Statistical
// Inference, 1927).
func wilson(part, whole int) (low, high float64) {
	const z = 1.959964 // the quantile of the normal distribution at 97.5 %
	if whole == 0 {
		return 0, 1
	}
	n, p := float64(whole), float64(part)/float64(whole)
	middle := p + z*z/(2*n)
	half := z * math.Sqrt(p*(1-p)/n+z*z/(4*n*n))
	return max(0, (middle-half)/(1+z*z/n)), min(1, (middle+half)/(1+z*z/n))
}
