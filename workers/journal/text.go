package journal

import (
	"bufio"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"letterhead/domain/books"
)

// textEncoder writes a text for each transaction. Its writer keeps the first error until it is flushed.
type textEncoder struct {
	w           *bufio.Writer
	appendEntry func(b []byte, e *entry) []byte
	writeEnd    func(w *bufio.Writer, all *balances) // nil: nothing follows the transactions
}

func (t *textEncoder) entry(e *entry) error {
	_, err := t.w.Write(t.appendEntry(t.w.AvailableBuffer(), e))
	return err
}

func (t *textEncoder) close(all *balances) error {
	if t.writeEnd != nil {
		t.writeEnd(t.w, all)
	}
	return nil
}

type csvFormat struct {
	chart        Chart
	before, last []byte // the columns before and after the postings' columns
}

func (c *csvFormat) appendEntry(b []byte, e *entry) []byte {
	c.before = appendCell(c.before[:0], e.id)
	c.before = e.booked.AppendFormat(append(c.before, ','), time.DateOnly)
	c.before = appendTime(append(c.before, ','), e.at)
	c.before = appendCell(append(c.before, ','), e.event)
	c.before = appendCell(append(c.before, ','), e.account)
	c.before = append(append(append(c.before, ','), e.revisionText()...), ',')
	c.last = c.last[:0]
	for _, text := range e.cells() {
		c.last = appendCell(append(c.last, ','), text)
	}
	c.last = append(c.last, '\n')

	for i := range e.postings {
		p := &e.postings[i]
		b = append(b, c.before...)
		b = appendCell(b, c.chart[p.Account])
		b = appendCell(append(b, ','), books.Chart[p.Account].Name)
		b = appendCell(append(b, ','), p.Commodity)
		b = books.AppendAmount(append(b, ','), p.Amount, p.Commodity)
		b = append(b, c.last...)
	}
	return b
}

// appendCell appends a text as RFC 4180 quotes it.
func appendCell(b []byte, text string) []byte {
	if !strings.ContainsAny(text, ",;\"\t\r\n=+@") && !strings.HasPrefix(text, "-") { // which SafeCell does not change
		return append(b, text...)
	}
	text = books.SafeCell(text)
	if !strings.ContainsAny(text, ",\"\r\n") {
		return append(b, text...)
	}
	b = append(b, '"')
	b = append(b, strings.ReplaceAll(text, `"`, `""`)...)
	return append(b, '"')
}

// appendTime appends a time of the log, which has microseconds.
func appendTime(b []byte, t time.Time) []byte {
	return t.UTC().AppendFormat(b, "2006-01-02T15:04:05.000000Z")
}

// appendLine appends a transaction as a line of JSONL. Amounts are decimal texts.
func (c *Chart) appendLine(b []byte, e *entry) []byte {
	b = appendJSON(append(b, `{"transaction":`...), e.id)
	b = append(e.booked.AppendFormat(append(b, `,"date":"`...), time.DateOnly), '"')
	b = append(appendTime(append(b, `,"time":"`...), e.at), '"')
	b = appendJSON(append(b, `,"event":`...), e.event)
	b = appendJSON(append(b, `,"account":`...), e.account)
	if !e.isSum() {
		b = strconv.AppendUint(append(b, `,"revision":`...), e.revision, 10)
	}
	names := columns[len(columns)-len(tags):]
	for i, text := range e.texts() {
		if text != "" {
			b = append(append(append(b, `,"`...), names[i]...), `":`...)
			b = appendJSON(b, text)
		}
	}
	b = append(b, `,"postings":[`...)
	for i := range e.postings {
		p := &e.postings[i]
		if i > 0 {
			b = append(b, ',')
		}
		b = appendJSON(append(b, `{"code":`...), c[p.Account])
		b = appendJSON(append(b, `,"ledger_account":`...), books.Chart[p.Account].Name)
		if p.Customer != "" {
			b = appendJSON(append(b, `,"account":`...), p.Customer)
		}
		b = appendJSON(append(b, `,"commodity":`...), p.Commodity)
		b = append(books.AppendAmount(append(b, `,"amount":"`...), p.Amount, p.Commodity), `"}`...)
	}
	return append(b, "]}\n"...)
}

// appendJSON appends a text as a JSON string (RFC 8259). Text that is not UTF-8 gets replacement characters.
func appendJSON(b []byte, text string) []byte {
	b = append(b, '"')
	for _, r := range text {
		switch {
		case r == '"' || r == '\\':
			b = append(b, '\\', byte(r))
		case r < ' ':
			const hex = "0123456789abcdef"
			b = append(b, '\\', 'u', '0', '0', hex[r>>4], hex[r&15])
		default:
			b = utf8.AppendRune(b, r)
		}
	}
	return append(b, '"')
}
