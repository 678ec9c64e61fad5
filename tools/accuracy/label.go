package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path"
	"slices"
	"strings"

	"letterhead/domain/brand"
)

// Groups of labels that are pages. They are also the names of the folders in labels.
const (
	saved    = "saved"
	recorded = "recorded"
	built    = "built"
	fresh    = "fresh"
	nsfw     = "nsfw"
	refused  = "refused"
	facts    = "facts"
	heldOut  = "heldout"
	ownPages = "folder" // of -folder; it is not in pageGroups
)

var pageGroups = []string{saved, recorded, built, fresh, nsfw, refused, facts, heldOut}

// siteGroups are the groups whose pages are folders in sites. The folders of
// all but built begin with the name of the group.
var siteGroups = []string{built, fresh, facts, heldOut}

// dataGroups are the groups with third-party pages: they are read from testnet.Data and are not part of the repository.
var dataGroups = []string{saved, recorded}

// maxLabels limits the labels of one group.
const maxLabels = 2000

// Label contains the expected results of one page. An omitted field is not scored.
type Label struct {
	ID      string `json:"id"`
	Group   string `json:"group"`
	URL     string `json:"url"`    // first URL of the crawl; "" is the domain's home page
	Domain  string `json:"domain"` // "" is the registrable domain of URL
	Outcome string `json:"outcome"`
	// Status, Headers and Body are the response of a page of the groups nsfw and refused, written in the label itself.
	// Files are other responses of the same host, by path.
	Status  int               `json:"status,omitempty"`
	Headers map[string]string `json:"headers,omitempty"`
	Body    string            `json:"body,omitempty"`
	Files   map[string]string `json:"files,omitempty"`

	Name        *[]string            `json:"name"`        // accepted spellings; empty: none
	Description *[]string            `json:"description"` // accepted texts; empty: none
	ShareImage  *[]string            `json:"shareImage"`  // accepted URLs; empty: none
	Logo        *LogoLabel           `json:"logo"`
	Links       *map[string]accepted `json:"links"` // by network
	Fonts       *FontLabel           `json:"fonts"`
	Colors      *struct {
		Accent []string `json:"accent"`
	} `json:"colors"`
	NSFW    *bool         `json:"nsfw"`
	Company *CompanyLabel `json:"company"`
	Notes   string        `json:"notes"`

	site fs.FS // the files of a page of -folder; nil for the others
}

// LogoLabel lists the brand's images. Entries are URLs, in which * matches
// anything, or inline: and a substring of the drawing, or sha256: and the sum of a file in hexadecimal digits.
// A label in a folder may name the file instead: file:logo.svg.
type LogoLabel struct {
	Accept   []string `json:"accept"` // the primary logo
	Other    []string `json:"other"`  // the brand's own, but not its primary logo
	Wrong    []string `json:"wrong"`  // of other brands
	Declared bool     `json:"declared"`
	Type     accepted `json:"type"`
	Theme    *string  `json:"theme"` // the ink; "null" for none
}

// field is the name of the field of the primary logo in reports.
func (l *LogoLabel) field() string {
	if l.Declared {
		return "logo"
	}
	return "icon"
}

// FontLabel lists the accepted fonts of each kind of text.
type FontLabel struct {
	Title []FontName `json:"title"`
	Body  []FontName `json:"body"`
}

// FontName is one accepted font. Without an origin any is accepted.
type FontName struct {
	Name   string `json:"name"`
	Origin string `json:"origin"`
}

// CompanyLabel holds the facts that the page states. A result without a stated fact is wrong.
type CompanyLabel struct {
	FoundedYear *int `json:"foundedYear"`
	// CopyrightFrom is the first year of a copyright notice's range, which is
	// accepted but not required as the founding year.
	CopyrightFrom int      `json:"copyrightFrom"`
	Employees     *int     `json:"employees"`
	CountryCode   accepted `json:"countryCode"`
	City          accepted `json:"city"`
	State         accepted `json:"state"`
	Kind          accepted `json:"kind"`
	Ticker        accepted `json:"ticker"`
	// Industries are the accepted slugs: the first industry of the result must be one of them.
	Industries []string `json:"industries"`
}

// accepted is one value or several.
type accepted []string

// UnmarshalJSON reads a string, null, or a list of strings.
func (a *accepted) UnmarshalJSON(data []byte) error {
	var one *string
	if json.Unmarshal(data, &one) == nil {
		*a = nil
		if one != nil {
			*a = accepted{*one}
		}
		return nil
	}
	return json.Unmarshal(data, (*[]string)(a))
}

// outcomeOK is the outcome of a crawl with a record.
const outcomeOK = "ok"

// readLabels reads the labels of a group in the order of their names.
func readLabels(files fs.FS, group string) ([]Label, error) {
	return readEach(files, path.Join("labels", group, "*.json"), func(l *Label, name string) error {
		if id := strings.TrimSuffix(path.Base(name), ".json"); l.ID != id || l.Group != group {
			return fmt.Errorf("the label has id %q and group %q", l.ID, l.Group)
		}
		return nil
	})
}

// readFolder reads the labels of a folder of pages. Each page is a folder, named by its id, with label.json and the
// files of the site.
func readFolder(folder string) ([]Label, error) {
	files := os.DirFS(folder)
	out, err := readEach(files, "*/label.json", func(l *Label, name string) (err error) {
		l.ID, l.Group = path.Dir(name), ownPages
		if l.site, err = fs.Sub(files, l.ID); err != nil || l.Logo == nil {
			return err
		}
		for _, list := range [][]string{l.Logo.Accept, l.Logo.Other, l.Logo.Wrong} {
			for i, entry := range list {
				if file, ok := strings.CutPrefix(entry, "file:"); ok {
					data, err := fs.ReadFile(l.site, file)
					if err != nil {
						return fmt.Errorf("logo: %w", err)
					}
					list[i] = sumOf(data)
				}
			}
		}
		return nil
	})
	if err == nil && len(out) == 0 {
		err = fmt.Errorf("%s has no folder with a label.json", folder)
	}
	return out, err
}

// readEach reads the labels in the files that match a pattern, and completes or checks each.
func readEach(files fs.FS, pattern string, finish func(l *Label, name string) error) ([]Label, error) {
	names, err := fs.Glob(files, pattern)
	if err != nil {
		return nil, err
	}
	if len(names) > maxLabels {
		return nil, fmt.Errorf("%d labels match %s, more than %d", len(names), pattern, maxLabels)
	}
	var out []Label
	for _, name := range names {
		data, err := fs.ReadFile(files, name)
		if err != nil {
			return nil, err
		}
		l, err := parseLabel(data)
		if err == nil {
			err = finish(&l, name)
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		out = append(out, l)
	}
	return out, nil
}

// parseLabel parses one label and rejects unknown fields, because a misspelled one would not be scored.
func parseLabel(data []byte) (Label, error) {
	var l Label
	d := json.NewDecoder(bytes.NewReader(data))
	d.DisallowUnknownFields()
	if err := d.Decode(&l); err != nil {
		return l, err
	}
	if l.Outcome == "" {
		l.Outcome = outcomeOK
	}
	return l, l.complete()
}

// complete sets the domain and rejects contradictions.
func (l *Label) complete() error {
	if l.Domain == "" {
		u, err := url.Parse(l.URL)
		if err != nil {
			return err
		}
		if l.Domain, err = brand.RegistrableDomain(u.Hostname()); err != nil {
			return fmt.Errorf("the label has no domain: %w", err)
		}
	}
	if l.Logo != nil {
		for _, a := range l.Logo.Accept {
			if slices.Contains(l.Logo.Other, a) || slices.Contains(l.Logo.Wrong, a) {
				return fmt.Errorf("logo %s is both accepted and rejected", a)
			}
		}
		if l.Logo.Declared && len(l.Logo.Accept) == 0 {
			return errors.New("a declared logo needs an accepted URL")
		}
	}
	return nil
}
