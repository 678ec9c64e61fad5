package crawl

import (
	"bytes"
	"context"
	"net/url"
	"slices"
	"strings"
	"sync"

	"letterhead/internal/css"
	"letterhead/internal/lazyregexp"
	"letterhead/internal/safehttp"
	"letterhead/workers/crawl/extract/fonts"
	"letterhead/workers/crawl/page"
	"letterhead/workers/crawl/site"
)

// Limits of stylesheets.
const (
	// maxSheets limits the linked stylesheets that are fetched: pages of site builders have up to 42. Usually their
	// bytes and the time are the limit. maxImports limits those that they import.
	maxSheets      = 48
	maxImports     = 4
	maxSheetsBytes = 3 << 20 // limits the text of all of them; a single one has at most safehttp.MaxCSSBytes
	// maxSheetsBlocks limits the blocks of all of them. It leaves some of the
	// rules that package css reads to the styles in the page itself.
	maxSheetsBlocks = 50_000
)

// sheets are the texts of a page's stylesheets, by absolute URL.
type sheets struct {
	run *run

	mu     sync.Mutex
	texts  map[string][]byte
	bytes  int
	blocks int
}

// linked returns the tasks that fetch the stylesheets of a page in the order of their rank, and sheets of the same rank
// in the order of the page. Sheets of font services are left out.
func (s *sheets) linked(ctx context.Context, p *page.Page) []task {
	list := slices.DeleteFunc(slices.Clone(p.Styles),
		func(u *url.URL) bool { return slices.Contains(fonts.Hosts, u.Hostname()) })
	slices.SortStableFunc(list, func(a, b *url.URL) int { return s.rank(a) - s.rank(b) })
	return s.tasks(ctx, list, maxSheets)
}

// imported returns the tasks that fetch the imports of the fetched stylesheets. Further nested imports are ignored.
func (s *sheets) imported(ctx context.Context, p *page.Page) []task {
	var list []*url.URL
	for _, u := range p.Styles { // in the order of the page
		if text, ok := s.texts[u.String()]; ok {
			list = append(list, css.Imports(text, u, site.Resolve)...)
		}
	}
	return s.tasks(ctx, list, maxImports)
}

var (
	// designPaths are parts of paths of the sheets in which a site's own design
	// is: its theme, the kit of its builder, files that builders write for it.
	designPaths = lazyregexp.New(`(?i)` + tables.Any("designPaths"))
	// commonPaths are parts of paths of sheets that are the same on many sites:
	// plug-ins, icons and distributions of libraries.
	commonPaths = lazyregexp.New(`(?i)/` +
		`(plugins?|mu-plugins|modules|node_modules|vendors?|wp-includes|bower_components|libs?|npm)/|[/_.-](` +
		tables.Any("commonPaths") + `)\b[\w.-]*\.css`)
)

// rank returns the place of a stylesheet among a page's, from 0. The
// site's design comes first, wherever it is served from.
func (s *sheets) rank(u *url.URL) int {
	rank := 0
	switch {
	case commonPaths.MatchString(u.Path):
		rank = 4
	case !designPaths.MatchString(u.Path):
		rank = 2
	}
	if !s.run.site.Own(u) {
		rank++
	}
	return rank
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
	s.mu.Lock()
	full := s.bytes >= maxSheetsBytes || s.blocks >= maxSheetsBlocks
	s.mu.Unlock()
	if full {
		return
	}
	response, err := s.run.fetchUpTo(ctx, u, safehttp.MaxCSSBytes)
	if err != nil || !isSheet(response) {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	// The beginning of a sheet that is too long is better than nothing.
	text, blocks := firstBlocks(response.Body[:min(len(response.Body), maxSheetsBytes-s.bytes)],
		maxSheetsBlocks-s.blocks)
	s.bytes += len(text)
	s.blocks += blocks
	s.texts[u.String()] = text
}

// firstBlocks returns the beginning of a sheet in which at most limit blocks start, and how many do.
func firstBlocks(sheet []byte, limit int) (text []byte, blocks int) {
	for i, c := range sheet {
		if c != '{' {
			continue
		}
		if blocks == limit {
			return sheet[:i], blocks
		}
		blocks++
	}
	return sheet, blocks
}

// isSheet distinguishes a stylesheet from a web page served for a missing one.
func isSheet(r *safehttp.Response) bool {
	if strings.Contains(strings.ToLower(r.Header.Get("Content-Type")), "html") {
		return false
	}
	return !bytes.HasPrefix(bytes.TrimLeft(r.Body[:min(len(r.Body), 64)], " \t\r\n\xef\xbb\xbf"), []byte("<"))
}
