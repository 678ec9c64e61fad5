package journal

import (
	"io"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"letterhead/domain/books"
)

type csvEncoder struct {
	w            io.Writer
	chart        Chart
	buf          []byte
	before, last []byte // the columns before and after the postings' columns
}

func newCSV(w io.Writer, chart Chart) (*csvEncoder, error) {
	_, err := io.WriteString(w, strings.Join(columns[:], ",")+"\n")
	return &csvEncoder{w: w, chart: chart}, err
}

func (c *csvEncoder) entry(e *entry) error {
	c.before = appendCell(c.before[:0], e.id)
	c.before = e.booked.AppendFormat(append(c.before, ','), time.DateOnly)
	c.before = appendTime(append(c.before, ','), e.at)
	c.before = appendCell(append(c.before, ','), e.event)
	c.before = appendCell(append(c.before, ','), e.account)
	c.before = append(append(append(c.before, ','), e.revisionText()...), ',')
	c.last = c.last[:0]
	for _, text := range e.texts() {
		c.last = appendCell(append(c.last, ','), text)
	}
	c.last = append(c.last, '\n')

	b := c.buf[:0]
	for i := range e.postings {
		p := &e.postings[i]
		b = append(b, c.before...)
		b = appendCell(b, c.chart[p.Account])
		b = appendCell(append(b, ','), books.Chart[p.Account].Name)
		b = appendCell(append(b, ','), p.Commodity)
		b = books.AppendAmount(append(b, ','), p.Amount, p.Commodity)
		b = append(b, c.last...)
	}
	c.buf = b
	_, err := c.w.Write(b)
	return err
}

func (c *csvEncoder) close(*balances) error { return nil }

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

// jsonEncoder writes a line for each transaction. Amounts are decimal texts.
type jsonEncoder struct {
	w     io.Writer
	chart Chart
	buf   []byte
}

func (j *jsonEncoder) entry(e *entry) error {
	b := appendJSON(append(j.buf[:0], `{"transaction":`...), e.id)
	b = append(e.booked.AppendFormat(append(b, `,"date":"`...), time.DateOnly), '"')
	b = append(appendTime(append(b, `,"time":"`...), e.at), '"')
	b = appendJSON(append(b, `,"event":`...), e.event)
	b = appendJSON(append(b, `,"account":`...), e.account)
	if !e.isOpening() {
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
		b = appendJSON(append(b, `{"code":`...), j.chart[p.Account])
		b = appendJSON(append(b, `,"ledger_account":`...), books.Chart[p.Account].Name)
		if p.Customer != "" {
			b = appendJSON(append(b, `,"account":`...), p.Customer)
		}
		b = appendJSON(append(b, `,"commodity":`...), p.Commodity)
		b = append(books.AppendAmount(append(b, `,"amount":"`...), p.Amount, p.Commodity), `"}`...)
	}
	b = append(b, "]}\n"...)
	j.buf = b
	_, err := j.w.Write(b)
	return err
}

func (j *jsonEncoder) close(*balances) error { return nil }

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
