// Package manifest parses the two files with a page's icons and colors: the web app manifest (JSON) and Microsoft's
// browserconfig (XML). Both are bounded and untrusted: values of the wrong type are omitted.
package manifest

import (
	"bytes"
	"encoding/json"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"net/url"
	"slices"
	"strings"

	"golang.org/x/net/html/charset"

	"letterhead/workers/crawl/jsontext"
	"letterhead/workers/crawl/page"
)

const (
	MaxBytes = 128 << 10 // limits either file
	MaxIcons = 64        // limits the icons of a file

	maxName        = 200  // runes
	maxDescription = 4000 // runes
	maxDepth       = 32   // nesting of the JSON
	maxTokens      = 5000 // of the XML
)

// ErrUnreadable: the file is not in the expected format.
var ErrUnreadable = errors.New("unreadable manifest")

// Manifest is the content of a web app manifest or a browserconfig.
type Manifest struct {
	Name, ShortName, Description string
	ThemeColor, BackgroundColor  string // CSS colors, as written
	TileColor                    string // of a browserconfig
	Icons                        []Icon
}

// Icon is one icon of a manifest.
type Icon struct {
	URL      *url.URL
	Type     string
	Sizes    []page.Size
	Any      bool // sizes=any: a vector
	Maskable bool // may be cropped to a shape
}

// Parse parses the web app manifest at a URL. Errors: ErrUnreadable.
func Parse(data []byte, at *url.URL) (*Manifest, error) {
	if len(data) > MaxBytes {
		return nil, fmt.Errorf("%w: more than %d bytes", ErrUnreadable, MaxBytes)
	}
	data = bytes.TrimPrefix(data, []byte("\xef\xbb\xbf"))
	if jsontext.Depth(data, maxDepth) > maxDepth {
		return nil, fmt.Errorf("%w: nested deeper than %d", ErrUnreadable, maxDepth)
	}
	// Each field is decoded separately, so that a wrong type does not affect the others.
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(data, &fields); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrUnreadable, err)
	}
	m := &Manifest{
		Name:            text(fields["name"], maxName),
		ShortName:       text(fields["short_name"], maxName),
		Description:     text(fields["description"], maxDescription),
		ThemeColor:      text(fields["theme_color"], maxName),
		BackgroundColor: text(fields["background_color"], maxName),
	}
	var icons []json.RawMessage
	if json.Unmarshal(fields["icons"], &icons) == nil {
		for _, raw := range icons[:min(len(icons), MaxIcons)] {
			if icon, ok := parseIcon(raw, at); ok {
				m.Icons = append(m.Icons, icon)
			}
		}
	}
	return m, nil
}

func parseIcon(raw json.RawMessage, at *url.URL) (Icon, bool) {
	var fields map[string]json.RawMessage
	if json.Unmarshal(raw, &fields) != nil {
		return Icon{}, false
	}
	purposes := strings.Fields(strings.ToLower(text(fields["purpose"], maxName)))
	if len(purposes) > 0 && !slices.Contains(purposes, "any") && !slices.Contains(purposes, "maskable") {
		return Icon{}, false // monochrome: a stencil, not the mark
	}
	icon := Icon{
		URL:      (&page.Page{Base: at}).Resolve(text(fields["src"], page.MaxURLBytes)),
		Type:     strings.ToLower(text(fields["type"], maxName)),
		Maskable: slices.Contains(purposes, "maskable") && !slices.Contains(purposes, "any"),
	}
	icon.Sizes, icon.Any = page.ParseSizes(text(fields["sizes"], maxName))
	return icon, icon.URL != nil
}

// text decodes a JSON string; it returns "" for other values.
func text(raw json.RawMessage, limit int) string {
	var s string
	if json.Unmarshal(raw, &s) != nil {
		return ""
	}
	return page.Clean(s, limit)
}

// ParseBrowserConfig parses the browserconfig at a URL: its tile images, the
// largest first, and the tile color. Errors: ErrUnreadable.
func ParseBrowserConfig(data []byte, at *url.URL) (*Manifest, error) {
	if len(data) > MaxBytes {
		return nil, fmt.Errorf("%w: more than %d bytes", ErrUnreadable, MaxBytes)
	}
	d := xml.NewDecoder(bytes.NewReader(data))
	d.Strict = false
	d.CharsetReader = charset.NewReaderLabel
	m := &Manifest{}
	in := ""
	for range maxTokens {
		token, err := d.Token()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, fmt.Errorf("%w: %w", ErrUnreadable, err)
		}
		switch t := token.(type) {
		case xml.StartElement:
			in = strings.ToLower(t.Name.Local)
			for _, a := range t.Attr {
				if strings.EqualFold(a.Name.Local, "src") {
					m.tile(in, a.Value, at)
				}
			}
		case xml.EndElement:
			in = ""
		case xml.CharData:
			if in == "tilecolor" && m.TileColor == "" {
				m.TileColor = page.Clean(string(t), maxName)
			}
		}
	}
	slices.SortStableFunc(m.Icons, func(a, b Icon) int { return b.Sizes[0].Width - a.Sizes[0].Width })
	return m, nil
}

// tileSizes are the square tiles; the wide one is an image, not a mark.
var tileSizes = map[string]int{"square70x70logo": 70, "square150x150logo": 150, "square310x310logo": 310,
	"tileimage": 144}

func (m *Manifest) tile(element, src string, at *url.URL) {
	side, ok := tileSizes[element]
	u := (&page.Page{Base: at}).Resolve(src)
	if ok && u != nil && len(m.Icons) < MaxIcons {
		m.Icons = append(m.Icons, Icon{URL: u, Sizes: []page.Size{{Width: side, Height: side}}})
	}
}
