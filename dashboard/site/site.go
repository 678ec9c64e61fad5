// Package site has the parts that the pages of customers and those of operators share: their style and script,
// functions of their templates, and static files.
package site

import (
	"cmp"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"fmt"
	"html/template"
	"io/fs"
	"net/http"
	"net/url"
	"path"
	"strconv"
	"strings"
	"time"

	"letterhead/domain/books"
	"letterhead/internal/contentcoding"
	"letterhead/internal/htmx"
	"letterhead/internal/imaging"
	"letterhead/internal/uplot"
	"letterhead/internal/web"
)

//go:embed files
var files embed.FS

// HTMXConfig is the content of the meta element htmx-config of the pages.
const HTMXConfig = "includeIndicatorCSS:false history:reload"

// Service is how the operator presents the service.
type Service struct {
	Name   string // "" = Letterhead
	Accent string // color of links and buttons, in CSS; "" = that of the style
}

// Static are the files that pages refer to.
type Static struct {
	Name          string // of the service
	Style, Script string // paths
	HTMX          string // path

	UPlot, UPlotStyle, Charts string // paths of what draws charts

	prefix string
	files  map[string]http.Handler // by name
}

// NewStatic returns the shared files of the pages of a service. They are served below a prefix, which ends in a slash;
// htmx is served at base and htmx.Path.
func NewStatic(base, prefix string, of Service) (*Static, error) {
	s := &Static{Name: cmp.Or(of.Name, "Letterhead"), HTMX: base + htmx.Path, prefix: prefix, files: map[string]http.Handler{}}
	style, err := files.ReadFile("files/style.css")
	if err != nil {
		return nil, fmt.Errorf("read the style of the pages: %w", err)
	}
	if accent, _, ok := imaging.ParseColor(of.Accent); ok {
		style = append(style, web.Marks(accent)...)
	}
	s.Style = s.add("style.css", "text/css; charset=utf-8", style)
	const script = "text/javascript; charset=utf-8"
	if s.Script, err = s.Add(files, "files/times.js", script); err != nil {
		return nil, err
	}
	s.UPlot = s.Serve(uplot.ScriptName, script, uplot.Script)
	s.UPlotStyle = s.Serve(uplot.StyleName, "text/css; charset=utf-8", uplot.Style)
	s.Charts, err = s.Add(files, "files/charts.js", script)
	return s, err
}

// Add adds a file, and returns its path. The path has a part of the file's hash in it, so that browsers may keep the
// file forever.
func (s *Static) Add(from fs.FS, file, contentType string) (string, error) {
	body, err := fs.ReadFile(from, file)
	if err != nil {
		return "", fmt.Errorf("read a file of the pages: %w", err)
	}
	return s.add(path.Base(file), contentType, body), nil
}

func (s *Static) add(name, contentType string, body []byte) string {
	sum := sha256.Sum256(body)
	extension := path.Ext(name)
	name = strings.TrimSuffix(name, extension) + "-" + hex.EncodeToString(sum[:6]) + extension
	return s.Serve(name, contentType, body)
}

// Serve adds a file whose name changes with its content, and returns its path.
func (s *Static) Serve(name, contentType string, body []byte) string {
	s.files[name] = Forever(contentType, body)
	return s.prefix + name
}

// Forever returns a handler of a file that browsers may keep.
func Forever(contentType string, body []byte) http.Handler {
	file := contentcoding.NewFile(body)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		coding, body := file.Choose(h, r.Header["Accept-Encoding"])
		if coding != contentcoding.Identity {
			h.Set("Content-Encoding", string(coding))
		}
		h.Set("Cache-Control", "public, max-age=31536000, immutable")
		h.Set("Content-Type", contentType)
		h.Set("Content-Length", strconv.Itoa(len(body)))
		_, _ = w.Write(body) // an error means that the client has left
	})
}

// Files returns the handlers of the files by name.
func (s *Static) Files() map[string]http.Handler { return s.files }

// Template parses files of templates along with the shared ones.
func Template(name string, more template.FuncMap, from fs.FS, paths ...string) (*template.Template, error) {
	t, err := template.New(name).Funcs(functions).Funcs(more).ParseFS(files, "files/parts.html")
	if err == nil {
		t, err = t.ParseFS(from, paths...)
	}
	if err != nil {
		return nil, fmt.Errorf("parse the page %s: %w", name, err)
	}
	return t, nil
}

var functions = template.FuncMap{
	"number":  Number,
	"money":   Money,
	"signed":  Signed,
	"credits": Credits,
	"count":   func(n uint64) string { return Number(int64(n)) },
	"segment": url.PathEscape,
	"wrong":   func(field, problem string) any { return struct{ Field, Problem string }{field, problem} },
	"iso":     func(t time.Time) string { return t.UTC().Format(time.RFC3339) },
	"minute":  func(t time.Time) string { return t.UTC().Format("2006-01-02 15:04") + " UTC" },
	"second":  func(t time.Time) string { return t.UTC().Format("2006-01-02 15:04:05") + " UTC" },
	"instant": func(t time.Time) string { return t.UTC().Format(time.RFC3339Nano) },
	// The value of a date-and-time field: the first whole second that is not before the time.
	"clock":  func(t time.Time) string { return t.UTC().Add(time.Second - 1).Format("2006-01-02T15:04:05") },
	"date":   func(t time.Time) string { return t.UTC().Format(time.DateOnly) },
	"long":   func(t time.Time) string { return t.UTC().Format("2 January 2006") },
	"short":  func(t time.Time) string { return t.UTC().Format("Jan 2006") },
	"month":  func(t time.Time) string { return t.UTC().Format("January 2006") },
	"yyyymm": func(t time.Time) string { return t.UTC().Format(books.MonthLayout) },
}

// Number groups the digits of a number, and gives it the minus sign, which is as wide as a digit.
func Number(n int64) string {
	return strings.Replace(books.Grouped(strconv.FormatInt(n, 10)), "-", "−", 1)
}

// Money formats minor units of a currency, with the decimals that ISO 4217 gives it.
func Money(minor int64, currency string) string {
	return books.Grouped(string(books.AppendAmount(nil, minor, currency))) + " " + currency
}

// Signed is Number with a sign, except for 0.
func Signed(n int64) string {
	if n > 0 {
		return "+" + Number(n)
	}
	return Number(n)
}

// Credits is a number of credits in words.
func Credits(n int64) string {
	if n == 1 {
		return "1 credit"
	}
	return Number(n) + " credits"
}

// HTMX returns the handler of htmx, for a server that has no other one.
func HTMX() http.Handler { return Forever("text/javascript; charset=utf-8", htmx.Script) }
