package journal

import (
	"bufio"
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"letterhead/domain/books"
)

// hledger is the journal format of hledger (https://hledger.org/hledger.html#journal).
type hledger struct{ chart Chart }

func (h *hledger) appendEntry(b []byte, e *entry) []byte {
	b = e.booked.AppendFormat(b, time.DateOnly)
	b = append(b, " * ("...)
	b = append(appendTag(b, e.id), ") "...)
	b = append(append(b, e.event...), '\n')
	b = appendTag(append(b, "    ; account:"...), e.account)
	if !e.isSum() {
		b = strconv.AppendUint(append(b, ", revision:"...), e.revision, 10)
	}
	b = appendTime(append(b, ", time:"...), e.at)
	b = append(b, '\n')
	comment := "    ; "
	for i, text := range e.texts() {
		if text != "" {
			b = appendTag(append(append(append(b, comment...), tags[i]...), ':'), text)
			comment = ", "
		}
	}
	if comment == ", " {
		b = append(b, '\n')
	}
	return append(appendPostings(b, e.postings, h.appendName), '\n')
}

func (h *hledger) appendName(b []byte, t target) []byte {
	b = append(append(append(b, books.Chart[t.account].Class...), ':'), h.chart[t.account]...)
	if t.customer != "" {
		b = appendName(append(b, ':'), t.customer)
	}
	return b
}

// appendName appends an id; each byte but letters, digits, dots, underscores and dashes becomes % and two hex digits.
func appendName(b []byte, id string) []byte {
	for i := range len(id) {
		switch c := id[i]; {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9', c == '.', c == '_', c == '-':
			b = append(b, c)
		default:
			b = fmt.Appendf(b, "%%%02X", c)
		}
	}
	return b
}

// appendTag appends the value of a tag. Characters that would end it, or the code of a transaction, become % and hex
// digits.
func appendTag(b []byte, text string) []byte {
	for i := range len(text) {
		if c := text[i]; c < ' ' || c == 0x7f || strings.IndexByte("%,;:()", c) >= 0 {
			b = fmt.Appendf(b, "%%%02X", c)
			continue
		}
		b = append(b, text[i])
	}
	return b
}

func (h *hledger) writeEnd(w *bufio.Writer, all *balances) {
	last := month(0)
	for _, a := range all.assertions() {
		b := w.AvailableBuffer()
		if a.month != last {
			last = a.month
			b = a.month.end().AddDate(0, 0, -1).AppendFormat(b, time.DateOnly)
			b = append(b, " * Balances at the end of the month\n"...)
		}
		b = h.appendName(append(b, "    "...), a.target)
		b = append(append(append(b, "  0 "...), a.commodity...), " = "...)
		b = books.AppendAmount(b, a.sum, a.commodity)
		_, _ = w.Write(append(append(append(b, ' '), a.commodity...), '\n'))
	}
	_ = w.WriteByte('\n')
	commodities := map[string]bool{}
	for _, o := range all.opened() {
		_, _ = w.Write(append(h.appendName(append(w.AvailableBuffer(), "account "...), o.target), '\n'))
		for _, name := range o.commodities {
			commodities[name] = true
		}
	}
	for _, name := range slices.Sorted(maps.Keys(commodities)) {
		fmt.Fprintf(w, "commodity 1000.%s %s\n", strings.Repeat("0", books.Decimals(name)), name)
	}
}

// appendPostings appends a line for each posting. Both formats write it alike but for the name of its account.
func appendPostings(b []byte, postings []books.Posting, appendName func([]byte, target) []byte) []byte {
	for i := range postings {
		p := &postings[i]
		b = appendName(append(b, "    "...), target{p.Account, p.Customer, p.Commodity})
		b = books.AppendAmount(append(b, "  "...), p.Amount, p.Commodity)
		b = append(append(append(b, ' '), p.Commodity...), '\n')
	}
	return b
}

// beancount is the format of beancount (https://beancount.github.io/docs/beancount_language_syntax.html).
type beancount struct{ chart Chart }

func (c *beancount) appendEntry(b []byte, e *entry) []byte {
	b = e.booked.AppendFormat(b, time.DateOnly)
	b = appendString(append(b, " * "...), e.event)
	b = appendString(append(b, "\n  transaction: "...), e.id)
	b = appendString(append(b, "\n  account: "...), e.account)
	if !e.isSum() {
		b = strconv.AppendUint(append(b, "\n  revision: "...), e.revision, 10)
	}
	b = appendTime(append(b, "\n  time: \""...), e.at)
	b = append(b, "\"\n"...)
	for i, text := range e.texts() {
		if text != "" {
			b = append(append(append(b, "  "...), tags[i]...), ": "...)
			b = append(appendString(b, text), '\n')
		}
	}
	return append(appendPostings(b, e.postings, c.appendName), '\n')
}

func (c *beancount) appendName(b []byte, t target) []byte {
	class := string(books.Chart[t.account].Class)
	b = append(append(b, class[0]-'a'+'A'), class[1:]...)
	b = appendComponent(append(b, ':'), c.chart[t.account])
	if t.customer != "" {
		b = appendCustomer(append(b, ':'), t.customer)
	}
	return b
}

// appendComponent appends a part of an account's name, which has letters, digits and dashes and begins with a capital
// letter or a digit: the first letter becomes a capital, and other bytes X and two hex digits.
func appendComponent(b []byte, id string) []byte {
	for i := range len(id) {
		switch c := id[i]; {
		case i == 0 && 'a' <= c && c <= 'z':
			b = append(b, c-'a'+'A')
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9', c == '-' && i > 0:
			b = append(b, c)
		default:
			if i == 0 {
				b = append(b, '0')
			}
			b = fmt.Appendf(b, "X%02x", c)
		}
	}
	return b
}

// appendCustomer appends an id as a part of an account's name. Different ids have different names: one whose component
// could belong to another id has all its bytes as X and two hex digits instead.
func appendCustomer(b []byte, id string) []byte {
	if !ambiguous(id) {
		return appendComponent(b, id)
	}
	b = append(b, '0')
	for i := range len(id) {
		b = fmt.Appendf(b, "X%02x", id[i])
	}
	return b
}

// ambiguous reports whether an id begins with a capital, like that which a small letter becomes; or with a 0 before a
// byte that becomes X and hex digits, like the 0 that appendComponent adds; or has an X before hex digits, like those
// of a byte.
func ambiguous(id string) bool {
	const hex, allowed = "0123456789abcdef", "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-"
	if 'A' <= id[0] && id[0] <= 'Z' || id[0] == '0' && len(id) > 1 && strings.IndexByte(allowed, id[1]) < 0 {
		return true
	}
	for i := range len(id) - 2 {
		if id[i] == 'X' && strings.IndexByte(hex, id[i+1]) >= 0 && strings.IndexByte(hex, id[i+2]) >= 0 {
			return true
		}
	}
	return false
}

// appendString appends a quoted text.
func appendString(b []byte, text string) []byte {
	b = append(b, '"')
	for i := range len(text) {
		switch c := text[i]; c {
		case '"', '\\':
			b = append(b, '\\', c)
		case '\n':
			b = append(b, '\\', 'n')
		case '\r', '\t':
			b = append(b, ' ')
		default:
			b = append(b, c)
		}
	}
	return append(b, '"')
}

func (c *beancount) writeEnd(w *bufio.Writer, all *balances) {
	for _, o := range all.opened() {
		b := append(o.first.AppendFormat(w.AvailableBuffer(), time.DateOnly), " open "...)
		b = append(c.appendName(b, o.target), ' ')
		_, _ = w.Write(append(append(b, strings.Join(o.commodities, ",")...), '\n'))
	}
	for _, a := range all.assertions() {
		b := a.month.end().AppendFormat(w.AvailableBuffer(), time.DateOnly)
		b = c.appendName(append(b, " balance "...), a.target)
		b = books.AppendAmount(append(b, "  "...), a.sum, a.commodity)
		_, _ = w.Write(append(append(append(b, ' '), a.commodity...), '\n'))
	}
}

// month counts months since the year 0.
type month int

func monthOf(t time.Time) month { return month(t.Year()*12 + int(t.Month()) - 1) }

// end returns the beginning of the next month.
func (m month) end() time.Time {
	return time.Date(int(m)/12, time.Month(int(m)%12+2), 1, 0, 0, 0, 0, time.UTC)
}

// target is what a posting changes.
type target struct {
	account   books.LedgerAccount
	customer  string
	commodity string
}

// compare orders targets for readers.
func (t target) compare(other target) int {
	return cmp.Or(cmp.Compare(t.account, other.account), strings.Compare(t.customer, other.customer),
		strings.Compare(t.commodity, other.commodity))
}

// balances are the sums of all targets, and their values at the ends of the months that changed them.
type balances struct {
	sums  map[target]*balance
	until time.Time // the first moment after the export; zero if it has no end
	last  time.Time // of all events that were read
}

type balance struct {
	sum   int64
	first time.Time
	month month // of the last change
	ends  []monthEnd
}

type monthEnd struct {
	month month
	sum   int64
}

func newBalances(until time.Time) *balances {
	return &balances{sums: map[target]*balance{}, until: until}
}

func (b *balances) add(e *entry) {
	in := monthOf(e.booked)
	for _, p := range e.postings {
		key := target{p.Account, p.Customer, p.Commodity}
		s, ok := b.sums[key]
		if !ok {
			s = &balance{first: e.booked, month: in}
			b.sums[key] = s
		}
		switch {
		case in > s.month:
			s.ends = append(s.ends, monthEnd{s.month, s.sum})
			s.month = in
		case in < s.month: // accounts share this target, and the clocks of nodes differ
			for i := range s.ends {
				if s.ends[i].month >= in {
					s.ends[i].sum += p.Amount
				}
			}
		}
		if e.booked.Before(s.first) {
			s.first = e.booked
		}
		s.sum += p.Amount
	}
}

// saw records the latest time of all events that were read, also of those outside the export.
func (b *balances) saw(at time.Time) {
	if at.After(b.last) {
		b.last = at
	}
}

// assertion is the value of a target at the end of a month.
type assertion struct {
	target
	monthEnd
}

// assertions returns the values at the ends of months, in order. A month has ended if the log has an event after it, or
// the end of the export has passed in the books; it does not depend on the clock.
func (b *balances) assertions() []assertion {
	var all []assertion
	for key, s := range b.sums {
		for _, end := range append(s.ends, monthEnd{s.month, s.sum}) {
			after := end.month.end()
			if after.After(b.last) || !b.until.IsZero() && after.After(b.until) {
				continue
			}
			all = append(all, assertion{key, end})
		}
	}
	slices.SortFunc(all,
		func(x, y assertion) int { return cmp.Or(cmp.Compare(x.month, y.month), x.target.compare(y.target)) })
	return all
}

type opened struct {
	target                // without a commodity
	first       time.Time // booked posting
	commodities []string
}

func (b *balances) opened() []opened {
	keys := slices.SortedFunc(maps.Keys(b.sums), target.compare)
	var all []opened
	for _, key := range keys {
		commodity, first := key.commodity, b.sums[key].first
		key.commodity = ""
		if n := len(all); n == 0 || all[n-1].target != key {
			all = append(all, opened{target: key, first: first})
		}
		o := &all[len(all)-1]
		o.commodities = append(o.commodities, commodity)
		if first.Before(o.first) {
			o.first = first
		}
	}
	return all
}
