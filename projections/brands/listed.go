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

	"golang.org/x/sync/semaphore"

	"letterhead/internal/eventlog"
	"letterhead/internal/sqlstore"
	"letterhead/projections"
)

const (
	// listedEvery is the minimum interval between readings of changed companies; listedWithin is how long a call may
	// take before it begins no further page. Each call reads at least one page, so on a large index or a slow machine
	// a call continues where the previous one stopped.
	listedEvery  = time.Second
	listedWithin = 500 * time.Millisecond
	// listedPage is the number of brands that are read at a time. The database reads about 1 MB and returns little of
	// it.
	listedPage = 200
	// maxListed limits the brands with symbols, about 300 bytes each. All exchanges of the world list 60,000 companies.
	maxListed = 200_000
	// maxSymbols limits the symbols of one brand, in addition to its ticker.
	maxSymbols = 16
)

// Both queries return the bodies of brands with a ticker, and null for others. LIKE would not do: on SQLite it cannot
// compare the bytes that mark base URLs in a body.
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

// How a ticker and a list of symbols begin in a body.
var (
	bodyTicker  = []byte(`"ticker":"`)
	bodySymbols = []byte(`"ticker":["`)
)

// listed has the symbols of listed companies, as far as the read model was read. They are in memory instead of a
// column: few brands have a symbol, and the few requests for one do not justify a new version of the tables.
type listed struct {
	whole    atomic.Bool         // the first reading has ended
	turn     *semaphore.Weighted // held while the fields below are used
	at       eventlog.Position
	read     time.Time // when everything up to at was read
	bySymbol map[string][]candidate
	byDomain map[string][]string // symbols
}

// candidate is a brand under one of its symbols.
type candidate struct {
	domain  string
	rank    int // 0 if the symbol is its ticker, 1 if it is another of its symbols
	quality float64
}

func newListed() *listed {
	return &listed{turn: semaphore.NewWeighted(1), bySymbol: map[string][]candidate{}, byDomain: map[string][]string{}}
}

// Listed returns the domain of the brand with a symbol, in upper or lower case, bare such as AAPL or qualified by the
// exchange such as NASDAQ:AAPL; "" if there is none. Of several brands, it prefers one whose ticker it is, then the one
// with the higher quality score. An answer may be a second old. whole is false while the index is first being read.
// Errors: projections.ErrNotReady, sqlstore.ErrUnavailable, ctx.Err().
func (m *Model) Listed(ctx context.Context, symbol string) (domain string, whole bool, err error) {
	l := m.listed.Load()
	if !l.turn.TryAcquire(1) {
		if !l.whole.Load() {
			return "", false, nil // another call continues the first reading
		}
		if err := l.turn.Acquire(ctx, 1); err != nil {
			return "", false, err
		}
	}
	defer l.turn.Release(1)
	if err := m.readListed(ctx, l); err != nil {
		return "", false, fmt.Errorf("read listed companies: %w", err)
	}
	if all := l.bySymbol[strings.ToUpper(symbol)]; len(all) > 0 {
		domain = slices.MinFunc(all, func(a, b candidate) int {
			return cmp.Or(cmp.Compare(a.rank, b.rank), cmp.Compare(b.quality, a.quality),
				cmp.Compare(len(a.domain), len(b.domain)), cmp.Compare(a.domain, b.domain))
		}).domain
	}
	return domain, l.whole.Load(), nil
}

// readListed reads what changed. The caller has the turn.
func (m *Model) readListed(ctx context.Context, l *listed) error {
	if l.whole.Load() && m.now().Sub(l.read) < listedEvery {
		return nil
	}
	for begun := time.Now(); ; {
		more, err := m.readPage(ctx, l)
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
func (m *Model) readPage(ctx context.Context, l *listed) (more bool, err error) {
	statement := selectListedOwn
	if m.shared {
		statement = selectListedShared
	}
	var rowsRead int
	var upTo eventlog.Position
	err = m.Handle().Snapshot(ctx, func(q projections.Queryer, t *projections.Tables, at eventlog.Position) error {
		rowsRead, upTo = 0, max(at, l.at)
		return sqlstore.EachRow(ctx, q, t.SQL(statement), func(row projections.Scanner) error {
			var domain string
			var position int64
			var quality float64
			var body []byte
			if err := row.Scan(&domain, &position, &quality, &body); err != nil {
				return err
			}
			l.put(domain, quality, body) // a repeat changes nothing
			if rowsRead++; rowsRead == listedPage {
				upTo = eventlog.Position(position)
			}
			return nil
		}, bodyTicker, bodySymbols, int64(l.at), listedPage)
	})
	if err != nil {
		return false, err
	}
	l.at = upTo
	return rowsRead == listedPage, nil
}

// put replaces the symbols of a brand. A nil body has none, and neither has a damaged one, which a scrub repairs.
func (l *listed) put(domain string, quality float64, body []byte) {
	isOld := func(c candidate) bool { return c.domain == domain }
	for _, symbol := range l.byDomain[domain] {
		if l.bySymbol[symbol] = slices.DeleteFunc(l.bySymbol[symbol], isOld); len(l.bySymbol[symbol]) == 0 {
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
	if ticker := company.Company.Ticker; ticker != nil {
		l.add(*ticker, candidate{domain, 0, quality})
	}
	symbols := company.Company.Identifiers.Symbols
	for _, symbol := range symbols[:min(len(symbols), maxSymbols)] {
		l.add(symbol, candidate{domain, 1, quality})
	}
}

// add adds a brand under a symbol, and under the bare one if it is qualified.
func (l *listed) add(symbol string, c candidate) {
	symbol = strings.ToUpper(symbol)
	_, bare, _ := strings.Cut(symbol, ":")
	for _, name := range []string{symbol, bare} {
		if name != "" && !slices.Contains(l.byDomain[c.domain], name) {
			l.byDomain[c.domain] = append(l.byDomain[c.domain], name)
			l.bySymbol[name] = append(l.bySymbol[name], c)
		}
	}
}
