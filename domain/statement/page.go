package statement

import (
	"bytes"
	"crypto/sha256"
	"embed"
	"encoding/base64"
	"fmt"
	"html/template"
	"strings"
	"time"

	"letterhead/domain/books"
)

//go:embed page.html page.css
var pageFiles embed.FS

// Page is the page of a statement, for a browser's print dialog. It is one file without scripts, so that it can be
// kept.
type Page struct {
	// Policy is the page's Content-Security-Policy: its one style is allowed by its hash, and nothing else may load.
	Policy string

	template *template.Template
	style    template.CSS
	baseURL  string
}

// NewPage returns the page of statements that the service at baseURL issues.
func NewPage(baseURL string) (*Page, error) {
	style, err := pageFiles.ReadFile("page.css")
	if err != nil {
		return nil, fmt.Errorf("read the style of statements: %w", err)
	}
	t, err := template.New("page.html").Funcs(template.FuncMap{
		"amount": func(minor int64, currency string) string {
			return grouped(amount(minor, currency)) + " " + currency
		},
		"number": func(n int64) string { return grouped(number(n)) },
		"taken":  func(n int64) string { return grouped(number(-n)) },
		"at":     func(t time.Time) string { return t.Format("2006-01-02 15:04") },
	}).ParseFS(pageFiles, "page.html")
	if err != nil {
		return nil, fmt.Errorf("parse the page of statements: %w", err)
	}
	hash := sha256.Sum256(style)
	p := &Page{template: t, style: template.CSS(style), baseURL: baseURL,
		Policy: "default-src 'none'; style-src 'sha256-" + base64.StdEncoding.EncodeToString(hash[:]) +
			"'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"}
	_, err = p.Render(&Statement{Month: "2026-11"}) // so that an error in the template is detected at the start
	return p, err
}

// grouped groups the digits of a number for people, and gives it the minus sign, which is as wide as a digit.
func grouped(number string) string { return strings.Replace(books.Grouped(number), "-", "−", 1) }

// Render returns the page of a statement.
func (p *Page) Render(s *Statement) ([]byte, error) {
	month, err := time.Parse(books.MonthLayout, s.Month)
	if err != nil {
		return nil, err
	}
	var body bytes.Buffer
	err = p.template.Execute(&body, map[string]any{
		"S": s, "Style": p.style, "BaseURL": p.baseURL, "Month": month.Format("January 2006"),
		"First": month.Format(time.DateOnly), "Last": month.AddDate(0, 1, -1).Format(time.DateOnly),
	})
	return body.Bytes(), err
}
