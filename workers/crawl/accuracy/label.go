package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"path"
	"slices"
	"strings"

	"letterhead/domain/brand"
)

// Groups of labels that are pages. They are also the names of the folders below labels.
const (
	saved    = "saved"
	recorded = "recorded"
	built    = "built"
	fresh    = "fresh"
	nsfw     = "nsfw"
	refused  = "refused"
)

var pageGroups = []string{saved, recorded, built, fresh, nsfw, refused}

// dataGroups are the groups whose pages are other people's: they are read from internet.Data and are not
// part of the repository.
var dataGroups = []string{saved, recorded}

// maxLabels bounds the labels of one group.
const maxLabels = 2000

// Label is what is true of one page. A field that is left out is not scored.
type Label struct {
	ID      string `json:"id"`
	Group   string `json:"group"`
	URL     string `json:"url"`    // where the crawl starts; "" is the domain's home page
	Domain  string `json:"domain"` // "" is the registrable domain of URL
	Outcome string `json:"outcome"`
	// Status, Headers and Body are the answer of a page of the groups nsfw and refused, written in the label
	// itself. Files are other answers of the same host, by path.
	Status  int               `json:"status,omitempty"`
	Headers map[string]string `json:"headers,omitempty"`
	Body    string            `json:"body,omitempty"`
	Files   map[string]string `json:"files,omitempty"`

	Name        *[]string            `json:"name"`        // accepted spellings; empty: it has none
	Description *[]string            `json:"description"` // accepted texts; empty: the page says none
	ShareImage  *[]string            `json:"shareImage"`  // accepted addresses; empty: there must be none
	Logo        *LogoLabel           `json:"logo"`
	Links       *map[string]accepted `json:"links"` // by network
	Fonts       *FontLabel           `json:"fonts"`
	Colors      *struct {
		Accent []string `json:"accent"`
	} `json:"colors"`
	NSFW    *bool         `json:"nsfw"`
	Company *CompanyLabel `json:"company"`
	Notes   string        `json:"notes"`
}

// LogoLabel says which images are the brand's. Entries are addresses, in which * stands for anything, or
// inline: and a piece of the drawing.
type LogoLabel struct {
	Accept   []string `json:"accept"` // the primary logo
	Other    []string `json:"other"`  // the brand's own, and not its primary logo
	Wrong    []string `json:"wrong"`  // somebody else's
	Declared bool     `json:"declared"`
	Type     accepted `json:"type"`
	Theme    *string  `json:"theme"` // the ink; "null" for none
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

// CompanyLabel holds the facts that the page states. What is not stated and given all the same is wrong.
type CompanyLabel struct {
	FoundedYear *int `json:"foundedYear"`
	// CopyrightFrom is the first year of a copyright notice's range, which may be given as the year of the
	// founding and need not.
	CopyrightFrom int      `json:"copyrightFrom"`
	Employees     *int     `json:"employees"`
	CountryCode   accepted `json:"countryCode"`
	City          accepted `json:"city"`
	State         accepted `json:"state"`
	Kind          accepted `json:"kind"`
	Ticker        accepted `json:"ticker"`
	// Industries are accepted slugs: the first industry given must be one of them.
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

// outcomeOK is the outcome of a crawl that gives a record.
const outcomeOK = "ok"

// readLabels reads the labels of a group in the order of their names.
func readLabels(files fs.FS, group string) ([]Label, error) {
	names, err := fs.Glob(files, path.Join("labels", group, "*.json"))
	if err != nil {
		return nil, err
	}
	if len(names) > maxLabels {
		return nil, fmt.Errorf("group %s has %d labels, more than %d", group, len(names), maxLabels)
	}
	var out []Label
	for _, name := range names {
		data, err := fs.ReadFile(files, name)
		if err != nil {
			return nil, err
		}
		l, err := parseLabel(data)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		if id := strings.TrimSuffix(path.Base(name), ".json"); l.ID != id || l.Group != group {
			return nil, fmt.Errorf("%s: it says id %q and group %q", name, l.ID, l.Group)
		}
		out = append(out, l)
	}
	return out, nil
}

// parseLabel reads one label and refuses what it does not know, for a slip of the pen would else score
// nothing.
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

// complete fills in the domain and refuses contradictions.
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
				return fmt.Errorf("logo %s is accepted and refused", a)
			}
		}
		if l.Logo.Declared && len(l.Logo.Accept) == 0 {
			return errors.New("a declared logo needs its address")
		}
	}
	return nil
}
