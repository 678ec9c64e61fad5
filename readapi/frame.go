package readapi

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"html/template"

	"letterhead/internal/imaging"
	"letterhead/internal/web"
)

// Operator describes whose service this is, for the pages.
type Operator struct {
	Name    string // of the service
	Accent  string // color of links and buttons, in CSS; "" = that of the pages
	Contact string // URL at which visitors get an account; "" = none
	Console string // URL of the operators' pages, if visitors reach them; otherwise ""
}

// frame is what the pages have in common.
type frame struct {
	Operator
	BaseURL string
	Style   template.CSS
}

// view is the data that the templates of all pages use.
type view struct {
	frame
	Title string
	Paint template.CSS // colors of this page, or ""
}

func newFrame(baseURL string, by Operator) (frame, error) {
	style, err := pageFiles.ReadFile("pages/style.css")
	if err != nil {
		return frame{}, fmt.Errorf("read the pages' style: %w", err)
	}
	f := frame{Operator: by, BaseURL: baseURL, Style: template.CSS(style)}
	if accent, _, ok := imaging.ParseColor(by.Accent); ok {
		f.Style += web.Marks(accent)
	}
	return f, nil
}

// pageTemplate parses the template of a page, which is pages/NAME.html.
func pageTemplate(name string) (*template.Template, error) {
	t, err := template.New(name).Funcs(referenceFuncs).ParseFS(pageFiles, "pages/layout.html", "pages/"+name+".html")
	if err != nil {
		return nil, fmt.Errorf("parse pages/%s.html: %w", name, err)
	}
	return t, nil
}

// render renders a page, whose view is data.
func render(t *template.Template, data any) ([]byte, error) {
	var body bytes.Buffer
	if err := t.ExecuteTemplate(&body, "page", data); err != nil {
		return nil, fmt.Errorf("render pages/%s.html: %w", t.Name(), err)
	}
	return body.Bytes(), nil
}

// policy returns the Content-Security-Policy of a page. Its styles are allowed by their hashes, and nothing else may
// load, except what the directives allow.
func (f frame) policy(directives string, paint template.CSS) []string {
	sources := sourceOf(f.Style)
	if paint != "" {
		sources += " " + sourceOf(paint)
	}
	return []string{"default-src 'none'; " + directives + "; style-src " + sources +
		"; base-uri 'none'; frame-ancestors 'none'"}
}

// sourceOf returns the style in the form of a policy.
func sourceOf(style template.CSS) string {
	hash := sha256.Sum256([]byte(style))
	return "'sha256-" + base64.StdEncoding.EncodeToString(hash[:]) + "'"
}

// paint returns the rule that gives the selected elements a ground and the more legible of black and white on it.
func paint(selector string, ground imaging.RGB) template.CSS {
	on := imaging.White
	if imaging.Contrast(ground, imaging.Black) > imaging.Contrast(ground, imaging.White) {
		on = imaging.Black
	}
	return template.CSS(fmt.Sprintf("%s{--ground:%s;--on:%s}", selector, ground.Hex(), on.Hex()))
}
