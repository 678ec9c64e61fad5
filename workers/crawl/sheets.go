package crawl

import (
	"bytes"
	"context"
	"net/url"
	"slices"
	"strings"
	"sync"

	"letterhead/internal/safehttp"
	"letterhead/workers/crawl/css"
	"letterhead/workers/crawl/page"
)

// Limits of stylesheets.
const (
	// maxSheets limits the linked stylesheets that are fetched, and maxImports
	// those that they import.
	maxSheets  = 6
	maxImports = 4
	// maxSheetsBytes limits the text of all of them; a single one has at most
	// safehttp.MaxCSSBytes.
	maxSheetsBytes = 3 << 20
)

// fontHosts serve stylesheets that add nothing to their URLs.
var fontHosts = []string{"fonts.googleapis.com", "fonts.bunny.net"}

// sheets are the texts of a page's stylesheets, by absolute URL.
type sheets struct {
	run *run

	mu    sync.Mutex
	texts map[string][]byte
	bytes int
}

// linked returns the tasks that fetch the stylesheets of a page: those of the
// site itself first, then those of its content hosts, those of font services
// last.
func (s *sheets) linked(ctx context.Context, p *page.Page) []task {
	list := slices.Clone(p.Styles)
	slices.SortStableFunc(list, func(a, b *url.URL) int { return s.rank(a) - s.rank(b) })
	return s.tasks(ctx, list, maxSheets)
}

// imported returns the tasks that fetch the imports of the fetched
// stylesheets. Further nested imports are ignored.
func (s *sheets) imported(ctx context.Context, p *page.Page) []task {
	var list []*url.URL
	for _, u := range p.Styles { // in the order of the page
		if text, ok := s.texts[u.String()]; ok {
			list = append(list, css.Imports(text, u)...)
		}
	}
	return s.tasks(ctx, list, maxImports)
}

func (s *sheets) rank(u *url.URL) int {
	switch {
	case s.run.site.Own(u):
		return 0
	case slices.Contains(fontHosts, u.Hostname()):
		return 2
	}
	return 1
}

// tasks returns tasks for the first URLs of a list, each URL once.
func (s *sheets) tasks(ctx context.Context, list []*url.URL, limit int) []task {
	var out []task
	listed := map[string]bool{}
	for _, u := range list {
		key := u.String()
		if _, have := s.texts[key]; have || listed[key] || len(out) == limit {
			continue
		}
		listed[key] = true
		out = append(out, task{host: u.Hostname(), run: func(func()) { s.fetch(ctx, u) }})
	}
	return out
}

func (s *sheets) fetch(ctx context.Context, u *url.URL) {
	if s.run.files.Add(1) > maxFiles {
		return
	}
	response, err := s.run.fetchUpTo(ctx, u, safehttp.MaxCSSBytes)
	if err != nil || !isSheet(response) {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	// The beginning of a sheet that is too long is better than nothing.
	text := response.Body[:min(len(response.Body), maxSheetsBytes-s.bytes)]
	s.bytes += len(text)
	s.texts[u.String()] = text
}

// isSheet distinguishes a stylesheet from a web page served for a missing one.
func isSheet(r *safehttp.Response) bool {
	if strings.Contains(strings.ToLower(r.Header.Get("Content-Type")), "html") {
		return false
	}
	return !bytes.HasPrefix(bytes.TrimLeft(r.Body[:min(len(r.Body), 64)], " \t\r\n\xef\xbb\xbf"), []byte("<"))
}
