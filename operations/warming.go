package operations

import (
	"cmp"
	"context"
	"encoding/csv"
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

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
	Domains    []string // registrable, each once
	Duplicates int      // lines with the domain of an earlier one
	Rejected   int      // lines without a domain
	First      []RejectedLine
}

// RejectedLine is a line that has no domain.
type RejectedLine struct {
	Line   int    `json:"line"` // from 1
	Text   string `json:"text"`
	Reason string `json:"reason"`
}

// columns are the titles of columns that have domains.
var columns = map[string]bool{"domain": true, "domains": true, "domain name": true, "website": true, "web site": true,
	"site": true, "homepage": true, "host": true, "hostname": true, "url": true, "email": true, "e-mail": true}

// ParseDomains reads a list with a domain, a URL or an e-mail address in each line, or CSV with one record in each line.
// The separator is the tab, semicolon or comma that the first line has. If a title of the first line is among columns,
// that column has the domains, else the first one. Empty lines are ignored.
func ParseDomains(text string) DomainList {
	var list DomainList
	seen, column, separator, begun := map[string]bool{}, 0, rune(0), false
	text = strings.NewReplacer("\r\n", "\n", "\r", "\n").Replace(strings.TrimPrefix(text, "\ufeff"))
	number := 0
	for line := range strings.SplitSeq(text, "\n") {
		number++
		if line = strings.TrimSpace(strings.ReplaceAll(line, "\x00", " ")); line == "" {
			continue
		}
		if !begun {
			begun = true
			if i := strings.IndexAny(line, "\t;,"); i >= 0 {
				separator = rune(line[i])
			}
			titles := fields(line, separator)
			title := 0
			for title < len(titles) && !columns[strings.ToLower(titles[title])] {
				title++
			}
			if title < len(titles) {
				column = title
				continue
			}
		}
		found := ""
		if all := fields(line, separator); column < len(all) {
			found = all[column]
		}
		id, err := brand.ParseIdentifier(found)
		switch {
		case err == nil && id.Kind == brand.Domain && seen[id.Domain]:
			list.Duplicates++
		case err == nil && id.Kind == brand.Domain:
			seen[id.Domain] = true
			list.Domains = append(list.Domains, id.Domain)
		default:
			list.reject(number, cmp.Or(found, line), err)
		}
	}
	return list
}

// fields returns the fields of a line of CSV.
func fields(line string, separator rune) []string {
	all := []string{line}
	if separator != 0 || strings.HasPrefix(line, `"`) {
		r := csv.NewReader(strings.NewReader(line))
		r.Comma, r.LazyQuotes, r.FieldsPerRecord = cmp.Or(separator, ','), true, -1
		if record, err := r.Read(); err == nil {
			all = record
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
	var bad *brand.InvalidDomainError
	if errors.As(err, &bad) {
		reason = bad.Sentence
	}
	text = text[:min(len(text), maxRejectedText)]
	for !utf8.ValidString(text) {
		text = text[:len(text)-1]
	}
	l.First = append(l.First, RejectedLine{Line: line, Text: text, Reason: reason})
}

// Warming has the use cases of lists of domains that are crawled in the background. The role refresher crawls them.
type Warming struct {
	*warming.Table
	Now func() time.Time
}

// Start begins to crawl the domains of a list. It charges no account. Repeating it with the same id begins nothing.
// Errors: ErrInvalidList, warming.ErrRunning, sqlstore.ErrUnavailable, sqlstore.ErrClosed.
func (o *Warming) Start(ctx context.Context, id, text string) (warming.List, DomainList, error) {
	list := ParseDomains(text)
	switch {
	case len(list.Domains) > warming.MaxDomains:
		return warming.List{}, list, fmt.Errorf("%w: it has %d domains; send at most %d at a time", ErrInvalidList,
			len(list.Domains), warming.MaxDomains)
	case len(list.Domains) == 0 && list.Rejected == 0:
		return warming.List{}, list, fmt.Errorf("%w: it has no lines; send one domain in each line", ErrInvalidList)
	case len(list.Domains) == 0:
		return warming.List{}, list, fmt.Errorf("%w: none of its %d lines has a domain; line %d: %s", ErrInvalidList,
			list.Rejected, list.First[0].Line, strings.TrimSuffix(list.First[0].Reason, "."))
	}
	l, err := o.Begin(ctx, id, list.Domains, o.Now())
	return l, list, err
}

// Cancel ends the running list, and returns how far it came. Crawls that were requested go on. Errors: warming.ErrNone
// and those of Start.
func (o *Warming) Cancel(ctx context.Context) (warming.List, error) {
	if err := o.Table.Cancel(ctx, o.Now()); err != nil {
		return warming.List{}, err
	}
	return o.Last(ctx)
}
