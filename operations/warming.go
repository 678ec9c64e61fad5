package operations

import (
	"cmp"
	"context"
	"encoding/csv"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"letterhead/domain/brand"
	"letterhead/internal/warming"
)

// Limits of the report on a list.
const (
	maxRejectedShown = 20
	maxRejectedText  = 100 // bytes
)

// ErrInvalidList means that a list cannot be warmed.
var ErrInvalidList = errors.New("the list cannot be warmed")

// DomainList is a list of domains as it was read.
type DomainList struct {
	Domains    []string       `json:"-"`          // registrable, each once
	Duplicates int            `json:"duplicates"` // lines with the domain of an earlier one
	Rejected   int            `json:"rejected"`   // lines without a domain
	First      []RejectedLine `json:"first_rejected"`
}

// RejectedLine is a line that has no domain.
type RejectedLine struct {
	Line   int    `json:"line"` // from 1
	Text   string `json:"text"`
	Reason string `json:"reason"`
}

// columns are the titles of columns that have domains.
var columns = []string{"domain", "domains", "domain name", "website", "web site", "site", "homepage", "host", "hostname",
	"url", "email", "e-mail"}

// ParseDomains reads a list with a domain, a URL or an e-mail address in each line, or CSV with one record in each line.
// The separator is the tab, semicolon or comma that the first line has. If a title of the first line is among columns,
// that column has the domains, else the first one. Empty lines are ignored.
func ParseDomains(text string) *DomainList {
	list, seen, column, separator, begun := &DomainList{First: []RejectedLine{}}, map[string]bool{}, 0, ',', false
	text = strings.NewReplacer("\r\n", "\n", "\r", "\n").Replace(strings.TrimPrefix(text, "\ufeff"))
	number := 0
	for line := range strings.SplitSeq(text, "\n") {
		number++
		if strings.TrimSpace(line) == "" {
			continue
		}
		if !begun {
			begun = true
			if i := strings.IndexAny(line, "\t;,"); i >= 0 {
				separator = rune(line[i])
			}
			if column = slices.IndexFunc(fields(line, separator), func(title string) bool {
				return slices.Contains(columns, strings.ToLower(title))
			}); column >= 0 {
				continue
			}
			column = 0
		}
		found := ""
		if all := fields(line, separator); column < len(all) {
			found = all[column]
		}
		id, err := brand.ParseIdentifier(found)
		switch {
		case err != nil || id.Kind != brand.Domain:
			list.reject(number, cmp.Or(found, line), err)
		case seen[id.Domain]:
			list.Duplicates++
		default:
			seen[id.Domain] = true
			list.Domains = append(list.Domains, id.Domain)
		}
	}
	return list
}

// fields returns the fields of a line of CSV.
func fields(line string, separator rune) []string {
	all := strings.Split(line, string(separator))
	if strings.Contains(line, `"`) {
		r := csv.NewReader(strings.NewReader(line))
		r.Comma, r.LazyQuotes = separator, true
		if quoted, err := r.Read(); err == nil {
			all = quoted
		}
	}
	for i := range all {
		all[i] = strings.TrimSpace(all[i])
	}
	return all
}

func (l *DomainList) reject(line int, text string, err error) {
	if l.Rejected++; len(l.First) >= maxRejectedShown {
		return
	}
	reason := "It is the id of a brand; send the domain."
	if bad, ok := errors.AsType[*brand.InvalidDomainError](err); ok {
		reason = bad.Sentence
	}
	text = strings.ToValidUTF8(text[:min(len(text), maxRejectedText)], "")
	l.First = append(l.First, RejectedLine{Line: line, Text: text, Reason: reason})
}

// Warming has the use cases of lists of domains that are crawled in the background. The role refresher crawls them.
type Warming struct {
	*warming.Table
	Now func() time.Time
}

// Warmed is the progress of a list, and the list as it was read if it has just begun.
type Warmed struct {
	warming.List
	*DomainList
}

// Start begins to crawl the domains of a list. It charges no account. Repeating it with the same id begins nothing.
// Errors: ErrInvalidList, and those of the table's Begin.
func (o *Warming) Start(ctx context.Context, id, text string) (w Warmed, err error) {
	w.DomainList = ParseDomains(text)
	switch {
	case len(w.Domains) > warming.MaxDomains:
		return w, fmt.Errorf("%w: it has %d domains; send at most %d at a time", ErrInvalidList, len(w.Domains),
			warming.MaxDomains)
	case len(w.Domains) == 0 && w.Rejected == 0:
		return w, fmt.Errorf("%w: it has no lines; send one domain in each line", ErrInvalidList)
	case len(w.Domains) == 0:
		return w, fmt.Errorf("%w: none of its %d lines has a domain; line %d: %s", ErrInvalidList, w.Rejected,
			w.First[0].Line, strings.TrimSuffix(w.First[0].Reason, "."))
	}
	w.List, err = o.Begin(ctx, id, w.Domains, o.Now())
	return w, err
}
