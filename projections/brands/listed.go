package brands

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"letterhead/internal/eventlog"
	"letterhead/projections"
)

const (
	// listedEvery is how often changes of listed companies are read, at most, and listedWithin the time after which a
	// call begins no further page. Each call reads one page at least, so the first calls on a large index, or on a slow
	// machine, continue each other.
	listedEvery  = time.Second
	listedWithin = 500 * time.Millisecond
	// listedPage is the number of brands that are read at a time, about 1 MB of which the database returns little.
	listedPage = 200
	// maxListed limits the brands with symbols, about 300 bytes each. All exchanges of the world list 60,000 companies.
	maxListed = 200_000
	// maxSymbols limits the symbols of one brand.
	maxSymbols = 16
)

// Both queries return the bodies of brands with a ticker, and null for others. The marks of a body are bytes that
// LIKE cannot compare on SQLite.
const (
	selectListedOwn = `
SELECT domain, position, quality,
	CASE WHEN instr(body, CAST($1 AS BLOB)) > 0 OR instr(body, CAST($2 AS BLOB)) > 0 THEN body END
FROM {brands} WHERE position > $3 ORDER BY position LIMIT $4`
	selectListedShared = `
SELECT domain, position, quality,
	CASE WHEN position($1::bytea IN body) > 0 OR position($2::bytea IN body) > 0 THEN body END
FROM {brands} WHERE position > $3 ORDER BY position LIMIT $4`
)

// The beginnings of a ticker and of a list of symbols in a body.
var (
	bodyTicker  = []byte(`"ticker":"`)
	bodySymbols = []byte(`"ticker":["`)
)

// listed has the symbols of listed companies, as far as the read model was read. It takes memory instead of a column:
// few brands have a symbol, and the few requests for one do not justify a new version of the tables.
type listed struct {
	turn     chan struct{} // held by the one who reads and changes the rest
	outdated atomic.Bool   // other tables became live
	whole    atomic.Bool   // the first reading has ended
	at       eventlog.Position
	read     time.Time // when everything up to at was read; zero before
	bySymbol map[string][]candidate
	byDomain map[string][]string // symbols
}

// candidate is a brand under one of its symbols.
type candidate struct {
	domain  string
	main    bool // the symbol is its ticker, not only one of its shares
	quality float64
}

func newListed() *listed {
	return &listed{turn: make(chan struct{}, 1), bySymbol: map[string][]candidate{}, byDomain: map[string][]string{}}
}

// Listed returns the domain of the brand with a symbol, bare such as AAPL or qualified by the exchange such as
// NASDAQ:AAPL, in either case; "" if there is none. Of several brands it is the one whose main symbol it is, then the
// one with the higher quality score. An answer may be a second old, and whole is false while the first reading of the
// index continues. Errors: projections.ErrNotReady, sqlstore.ErrUnavailable, ctx.Err().
func (m *Model) Listed(ctx context.Context, symbol string) (domain string, whole bool, err error) {
	l := m.listed
	select {
	case l.turn <- struct{}{}:
	default:
		if !l.whole.Load() {
			return "", false, nil // another call continues the first reading
		}
		select {
		case l.turn <- struct{}{}:
		case <-ctx.Done():
			return "", false, ctx.Err()
		}
	}
	defer func() { <-l.turn }()
	if err := m.readListed(ctx); err != nil {
		return "", false, fmt.Errorf("read listed companies: %w", err)
	}
	if all := l.bySymbol[strings.ToUpper(symbol)]; len(all) > 0 {
		domain = slices.MinFunc(all, candidate.compare).domain
	}
	return domain, !l.read.IsZero(), nil
}

func (a candidate) compare(b candidate) int {
	switch {
	case a.main != b.main && a.main:
		return -1
	case a.main != b.main:
		return 1
	}
	return cmp.Or(cmp.Compare(b.quality, a.quality), cmp.Compare(len(a.domain), len(b.domain)), cmp.Compare(a.domain, b.domain))
}

// readListed reads what changed. The caller has the turn.
func (m *Model) readListed(ctx context.Context) error {
	l := m.listed
	if l.outdated.Swap(false) {
		l.at, l.read = 0, time.Time{}
		l.whole.Store(false)
		clear(l.bySymbol)
		clear(l.byDomain)
	}
	if now := m.now(); !l.read.IsZero() && now.Sub(l.read) < listedEvery {
		return nil
	}
	for begun := time.Now(); ; {
		more, err := m.readPage(ctx)
		switch {
		case err != nil:
			return err
		case !more:
			l.read = m.now()
			l.whole.Store(true)
			return nil
		case time.Since(begun) > listedWithin:
			return nil // the next call continues
		}
	}
}

// readPage reads the next changed brands, and reports whether there may be more.
func (m *Model) readPage(ctx context.Context) (more bool, err error) {
	type row struct {
		domain  string
		quality float64
		body    []byte
	}
	statement := selectListedOwn
	if m.shared {
		statement = selectListedShared
	}
	var page []row
	var upTo eventlog.Position
	err = m.handle.Snapshot(ctx, func(q projections.Queryer, t *projections.Tables, at eventlog.Position) error {
		upTo = max(at, m.listed.at)
		rows, err := q.QueryContext(ctx, t.SQL(statement), bodyTicker, bodySymbols, int64(m.listed.at), listedPage)
		if err != nil {
			return err
		}
		defer rows.Close()
		page = nil // as in List
		for rows.Next() {
			var r row
			var position int64
			if err := rows.Scan(&r.domain, &position, &r.quality, &r.body); err != nil {
				return err
			}
			if page = append(page, r); len(page) == listedPage {
				upTo = eventlog.Position(position)
			}
		}
		return rows.Err()
	})
	if err != nil {
		return false, err
	}
	for _, r := range page {
		m.listed.put(r.domain, r.quality, r.body)
	}
	m.listed.at = upTo
	return len(page) == listedPage, nil
}

// put replaces the symbols of a brand; a nil body has none, nor has a damaged one, which a scrub repairs.
func (l *listed) put(domain string, quality float64, body []byte) {
	for _, symbol := range l.byDomain[domain] {
		l.bySymbol[symbol] = slices.DeleteFunc(l.bySymbol[symbol], func(other candidate) bool { return other.domain == domain })
		if len(l.bySymbol[symbol]) == 0 {
			delete(l.bySymbol, symbol)
		}
	}
	delete(l.byDomain, domain)
	if body == nil || len(l.byDomain) == maxListed {
		return
	}
	var company struct {
		Company struct {
			Ticker      *string `json:"ticker"`
			Identifiers struct {
				Symbols []string `json:"ticker"`
			} `json:"financialIdentifiers"`
		} `json:"company"`
	}
	if json.Unmarshal(bytes.ReplaceAll(body, []byte{baseURLMark}, nil), &company) != nil {
		return
	}
	all := company.Company.Identifiers.Symbols
	if main := company.Company.Ticker; main != nil {
		all = slices.Insert(all, 0, *main)
	}
	for i, symbol := range all[:min(len(all), maxSymbols)] {
		main := i == 0 && company.Company.Ticker != nil
		symbol = strings.ToUpper(symbol)
		l.add(domain, symbol, main, quality)
		if _, bare, qualified := strings.Cut(symbol, ":"); qualified {
			l.add(domain, bare, main, quality)
		}
	}
}

func (l *listed) add(domain, symbol string, main bool, quality float64) {
	if symbol == "" || slices.Contains(l.byDomain[domain], symbol) {
		return
	}
	l.byDomain[domain] = append(l.byDomain[domain], symbol)
	l.bySymbol[symbol] = append(l.bySymbol[symbol], candidate{domain, main, quality})
}
