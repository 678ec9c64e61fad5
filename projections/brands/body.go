package brands

import (
	"bytes"
	"time"

	"letterhead/domain/brand"
	"letterhead/eventschemas"
)

// baseURLMark is the placeholder for the base URL in a body. It is a byte that JSON text never contains: in strings it
// can only be written as an escape, so no name or URL of a brand can imitate it.
const baseURLMark = 0

// timeLayout is RFC 3339 in UTC with milliseconds, as JavaScript writes dates.
const timeLayout = "2006-01-02T15:04:05.000Z"

// Body is a brand as JSON, the Brand of the API, without the base URL of its files. It is immutable.
type Body struct{ marked []byte }

// Render returns the view as JSON. The same view always gives the same bytes.
func Render(v brand.View) Body {
	w := writer{b: make([]byte, 0, estimate(&v.Record))}
	w.brand(&v)
	return Body{marked: w.b}
}

// estimate returns the approximate length of the body in bytes.
func estimate(r *eventschemas.Record) int {
	n := 1500 + 80*len(r.Links) + 70*len(r.Colors) + 120*len(r.Fonts)
	for _, l := range r.Logos {
		n += 80 + 220*len(l.Formats)
	}
	for _, i := range r.Images {
		n += 80 + 220*len(i.Formats)
	}
	return n
}

// AppendTo appends the body to dst, inserting the base URL (without a trailing slash).
func (b Body) AppendTo(dst []byte, baseURL string) []byte {
	rest := b.marked
	for {
		i := bytes.IndexByte(rest, baseURLMark)
		if i < 0 {
			return append(dst, rest...)
		}
		dst = append(dst, rest[:i]...)
		dst = appendEscaped(dst, baseURL)
		rest = rest[i+1:]
	}
}

// AppendWithoutTags is AppendTo with an empty array in place of the tags of each logo and image.
func (b Body) AppendWithoutTags(dst []byte, baseURL string) []byte {
	const key = `"tags":[` // never part of a string, in which quotes are escaped
	from := len(dst)
	dst = b.AppendTo(dst, baseURL)
	kept := dst[:from]
	for rest := dst[from:]; ; {
		i := bytes.Index(rest, []byte(key))
		if i < 0 {
			return append(kept, rest...)
		}
		i += len(key)
		kept = append(kept, rest[:i]...) // moves to the front, over what was read
		rest = afterStrings(rest[i:])
	}
}

// afterStrings returns what follows the strings of an array, from its closing bracket on.
func afterStrings(rest []byte) []byte {
	quoted := false
	for i := 0; i < len(rest); i++ {
		switch {
		case rest[i] == '"':
			quoted = !quoted
		case quoted && rest[i] == '\\':
			i++ // the next byte belongs to the string
		case !quoted && rest[i] == ']':
			return rest[i:]
		}
	}
	return rest // a damaged body
}

// Len returns the length of the body without base URLs, in bytes.
func (b Body) Len() int { return len(b.marked) }

func (w *writer) brand(v *brand.View) {
	r := &v.Record
	w.open('{')
	w.key("id").string(v.ID)
	w.key("name").optional(r.Name)
	w.key("domain").string(v.Domain)
	w.key("claimed").bool(v.Claimed)
	w.key("description").optional(r.Description)
	w.key("longDescription").optional(r.LongDescription)
	w.key("links")
	list(w, r.Links, (*writer).link)
	w.key("logos")
	list(w, r.Logos, (*writer).logo)
	w.key("colors")
	list(w, r.Colors, (*writer).color)
	w.key("fonts")
	list(w, r.Fonts, (*writer).font)
	w.key("images")
	list(w, r.Images, (*writer).image)
	w.key("ogImage").optional(r.OGImage)
	w.key("company").company(r)
	w.key("qualityScore").float(r.QualityScore)
	w.key("isNsfw").bool(r.NSFW)
	w.key("restriction").restriction(r.Restriction)
	w.key("urn").string(v.URN)
	w.key("status").string(v.Status)
	w.key("updatedAt").time(v.UpdatedAt)
	w.close('}')
}

func (w *writer) link(l *eventschemas.Link) {
	w.open('{')
	w.key("name").string(l.Name)
	w.key("url").string(l.URL)
	w.close('}')
}

func (w *writer) logo(l *eventschemas.Logo) {
	w.open('{')
	w.key("type").string(l.Type)
	w.key("theme").optional(l.Theme)
	w.key("formats")
	list(w, l.Formats, (*writer).asset)
	w.key("tags").strings(l.Tags)
	w.close('}')
}

func (w *writer) image(i *eventschemas.Image) {
	w.open('{')
	w.key("type").string(i.Type)
	w.key("formats")
	list(w, i.Formats, (*writer).asset)
	w.key("tags").strings(i.Tags)
	w.close('}')
}

func (w *writer) asset(a *eventschemas.Asset) {
	w.open('{')
	w.key("src")
	w.value()
	w.b = append(w.b, '"', baseURLMark)
	w.b = appendEscaped(w.b, "/cdn/"+a.ID+"."+a.Format)
	w.b = append(w.b, '"')
	w.key("format").string(a.Format)
	w.key("background").optional(a.Background)
	w.key("width").optionalInt(a.Width)
	w.key("height").optionalInt(a.Height)
	w.key("size").int(a.Size)
	w.close('}')
}

func (w *writer) color(c *eventschemas.Color) {
	w.open('{')
	w.key("hex").string(c.Hex)
	w.key("type").string(c.Type)
	w.key("brightness").int(int64(c.Brightness))
	w.close('}')
}

func (w *writer) font(f *eventschemas.Font) {
	w.open('{')
	w.key("name").string(f.Name)
	w.key("type").string(f.Type)
	w.key("origin").string(f.Origin)
	w.key("originId").optional(f.OriginID)
	w.key("weights")
	list(w, f.Weights, func(w *writer, n *int) { w.int(int64(*n)) })
	w.close('}')
}

// company writes an object with nulls if nothing is known, and null only with a restriction.
func (w *writer) company(r *eventschemas.Record) {
	if r.Restriction != nil {
		w.null()
		return
	}
	c := r.Company
	if c == nil {
		c = eventschemas.EmptyCompany()
	}
	w.open('{')
	w.key("employees").optionalInt(c.Employees)
	w.key("foundedYear").optionalInt(c.FoundedYear)
	w.key("kind").optional(c.Kind)
	w.key("location").location(c.Location)
	w.key("industries")
	list(w, c.Industries, (*writer).industry)
	w.key("ticker").optional(c.Ticker)
	w.key("financialIdentifiers")
	w.open('{')
	w.key("isin").strings(nil) // always empty in the API
	w.key("ticker").strings(c.Tickers)
	w.close('}')
	w.close('}')
}

func (w *writer) location(l *eventschemas.Location) {
	if l == nil {
		w.null()
		return
	}
	w.open('{')
	w.key("city").optional(l.City)
	w.key("state").optional(l.State)
	w.key("country").optional(l.Country)
	w.key("countryCode").optional(l.CountryCode)
	w.key("region").optional(l.Region)
	w.key("subregion").optional(l.Subregion)
	w.close('}')
}

func (w *writer) industry(i *eventschemas.Industry) {
	w.open('{')
	w.key("id").string(i.ID)
	w.key("name").string(i.Name)
	w.key("slug").string(i.Slug)
	w.key("emoji").string(i.Emoji)
	w.key("score").float(i.Score)
	w.key("parent")
	if p := i.Parent; p == nil {
		w.null()
	} else {
		w.open('{')
		w.key("id").string(p.ID)
		w.key("name").string(p.Name)
		w.key("slug").string(p.Slug)
		w.key("emoji").string(p.Emoji)
		w.close('}')
	}
	w.close('}')
}

func (w *writer) restriction(r *eventschemas.Restriction) {
	if r == nil {
		w.null()
		return
	}
	w.open('{')
	w.key("code").string(r.Code)
	w.key("message").string(r.Message)
	w.close('}')
}

func (w *writer) time(t time.Time) {
	w.value()
	w.b = append(w.b, '"')
	w.b = t.UTC().AppendFormat(w.b, timeLayout)
	w.b = append(w.b, '"')
}
