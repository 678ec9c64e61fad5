package reconcile

import (
	"bufio"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"

	"letterhead/domain/books"
	"letterhead/eventschemas"
)

const (
	// MaxRecordBytes limits a row of the export, and so each field; the number of rows has no limit.
	MaxRecordBytes = 1 << 20
	// readAhead is how much csv.Reader reads beyond the current record at most: the size of its buffer.
	readAhead = 4096
)

// errTooLong means that a row exceeds MaxRecordBytes.
var errTooLong = fmt.Errorf("a row has more than %d bytes; is a quote not closed?", MaxRecordBytes)

// ParseError is an error in the export.
type ParseError struct {
	Line   int
	Column string // as in the header; empty if the error is not in a field
	Err    error
}

func (e *ParseError) Error() string {
	if e.Column == "" {
		return fmt.Sprintf("line %d: %v", e.Line, e.Err)
	}
	return fmt.Sprintf("line %d, column %s: %v", e.Line, e.Column, e.Err)
}

// Unwrap returns the error without the place.
func (e *ParseError) Unwrap() error { return e.Err }

// column is a column that the comparison uses.
type column int

const (
	createdColumn column = iota
	categoryColumn
	currencyColumn
	grossColumn
	feeColumn
	netColumn
	sourceColumn
	chargeColumn
	intentColumn
	invoiceColumn
	paymentColumn
	transactionColumn
	paidColumn
	paidCurrencyColumn
	columnCount
)

// Columns are the names of each column, the preferred one first. Names are compared without case, and all other
// characters than letters and digits count as underscores.
var Columns = [columnCount]struct {
	Names    []string
	Required bool
}{
	createdColumn:      {[]string{"created_utc", "effective_at_utc", "created", "created_at", "date", "time"}, true},
	categoryColumn:     {[]string{"reporting_category", "category", "type"}, true},
	currencyColumn:     {[]string{"currency"}, true},
	grossColumn:        {[]string{"gross", "amount"}, true},
	feeColumn:          {[]string{"fee", "fees"}, false},
	netColumn:          {[]string{"net"}, false},
	sourceColumn:       {[]string{"source_id", "source", "refund_id"}, false},
	chargeColumn:       {[]string{"charge_id", "charge"}, false},
	intentColumn:       {[]string{"payment_intent_id", "payment_intent"}, false},
	invoiceColumn:      {[]string{"invoice_id", "invoice"}, false},
	paymentColumn:      {[]string{"payment_id", "payment", "reference"}, false},
	transactionColumn:  {[]string{"balance_transaction_id", "balance_transaction"}, false},
	paidColumn:         {[]string{"customer_facing_amount"}, false},
	paidCurrencyColumn: {[]string{"customer_facing_currency"}, false},
}

// timeLayouts are the forms of times, which are UTC unless they have a zone.
var timeLayouts = []string{"2006-01-02 15:04:05", "2006-01-02 15:04", time.RFC3339,
	"2006-01-02T15:04:05", time.DateOnly}

// Reader reads an export.
type Reader struct {
	records *csv.Reader
	limit   *limited
	header  []string
	at      [columnCount]int // index of each column, -1 if there is none
	fields  []string         // of the current record
}

// limited limits the bytes that a csv.Reader may read for one record.
type limited struct {
	from        io.Reader
	read, until int64
}

func (l *limited) Read(p []byte) (int, error) {
	if l.read >= l.until {
		return 0, errTooLong
	}
	n, err := l.from.Read(p[:min(int64(len(p)), l.until-l.read)])
	l.read += int64(n)
	return n, err
}

// NewReader reads the header of an export in CSV (RFC 4180). Errors: *ParseError, the errors of r.
func NewReader(r io.Reader) (*Reader, error) {
	buffered := bufio.NewReader(r)
	if mark, _ := buffered.Peek(3); string(mark) == "\ufeff" { // byte order mark
		_, _ = buffered.Discard(len(mark)) // cannot fail after Peek
	}
	limit := &limited{from: buffered}
	in := &Reader{records: csv.NewReader(limit), limit: limit}
	in.records.ReuseRecord = true
	header, err := in.record()
	if errors.Is(err, io.EOF) {
		return nil, &ParseError{Line: 1, Err: errors.New("there is no header")}
	}
	if err != nil {
		return nil, err
	}
	in.header = slices.Clone(header)
	return in, in.find()
}

var notInNames = regexp.MustCompile(`[^a-z0-9]+`)

// find finds the columns.
func (r *Reader) find() error {
	names := make([]string, len(r.header))
	for i, name := range r.header {
		names[i] = strings.Trim(notInNames.ReplaceAllString(strings.ToLower(name), "_"), "_")
	}
	for c, known := range Columns {
		r.at[c] = -1
		for _, name := range known.Names {
			at := slices.Index(names, name)
			if at < 0 {
				continue
			}
			if slices.Contains(names[at+1:], name) {
				return &ParseError{Line: 1, Column: r.header[at], Err: errors.New("there are two columns of this name")}
			}
			r.at[c] = at
			break
		}
		if known.Required && r.at[c] < 0 {
			return &ParseError{Line: 1, Err: fmt.Errorf("there is no column %s", strings.Join(known.Names, " or "))}
		}
	}
	return nil
}

// record reads the next record.
func (r *Reader) record() ([]string, error) {
	r.limit.until = r.records.InputOffset() + MaxRecordBytes + readAhead
	line := 1
	if last := len(r.fields) - 1; last >= 0 {
		line, _ = r.records.FieldPos(last)
		line++
	}
	fields, err := r.records.Read()
	var bad *csv.ParseError
	switch {
	case errors.Is(err, csv.ErrFieldCount):
		line, _ = r.records.FieldPos(0)
		return nil, &ParseError{Line: line,
			Err: fmt.Errorf("it has %d fields, and the header has %d", len(fields), len(r.header))}
	case errors.As(err, &bad):
		return nil, &ParseError{Line: bad.Line, Err: fmt.Errorf("byte %d: %w", bad.Column, bad.Err)}
	case errors.Is(err, errTooLong):
		return nil, &ParseError{Line: line, Err: err}
	}
	r.fields = fields
	return fields, err
}

// Next returns the next row. Errors: io.EOF at the end, *ParseError, the errors of the underlying reader.
func (r *Reader) Next() (Row, error) {
	if _, err := r.record(); err != nil {
		return Row{}, err
	}
	line, _ := r.records.FieldPos(0)
	row := Row{Line: line, Category: strings.ToLower(r.field(categoryColumn))}
	var sources []string
	for _, c := range []column{sourceColumn, chargeColumn, intentColumn, invoiceColumn, paymentColumn,
		transactionColumn} {
		id := r.field(c)
		switch {
		// no new id in the ledger has one
		case strings.ContainsFunc(id, func(c rune) bool { return !unicode.IsPrint(c) }):
			return row, r.errorIn(c, fmt.Errorf("%q has a control or invisible character", id))
		case c == transactionColumn:
			row.FeeID = id
			continue
		case c == sourceColumn:
			row.ID = id
		case c == intentColumn && id != "":
			row.Payments = slices.Insert(row.Payments, 0, id)
		case id != "":
			row.Payments = append(row.Payments, id)
		}
		sources = append(sources, id)
	}
	row.Kind = kindOf(row.Category, row.ID)
	if row.Category == "" {
		return row, r.errorIn(categoryColumn, errors.New("it is empty"))
	}
	switch {
	case row.Kind == Payment && row.ID != "":
		row.Payments, row.ID = append(row.Payments, row.ID), ""
	case slices.Contains(row.Payments, row.ID): // it does not tell several refunds of the payment apart
		row.ID = ""
	}
	var err error
	if row.At, err = parseTime(r.field(createdColumn)); err != nil {
		return row, r.errorIn(createdColumn, err)
	}
	if err = r.amounts(&row); err != nil {
		return row, err
	}
	row.nameFee(sources)
	return row, nil
}

// nameFee sets the ids of the fee that follow from the ids of the row's sources. A payment is known by each of its ids;
// a refund or dispute only by its own.
func (r *Row) nameFee(sources []string) {
	for _, source := range sources {
		if source != "" && (r.Kind == Payment || len(r.MadeFeeIDs) == 0) {
			made := r.Category + ":" + source
			r.MadeFeeIDs = append(r.MadeFeeIDs, made+":"+strconv.FormatInt(r.Fee, 10), made)
		}
	}
	if r.FeeID == "" && len(r.MadeFeeIDs) > 0 {
		r.FeeID = r.MadeFeeIDs[0]
	}
}

// amounts parses the amounts of a row.
func (r *Reader) amounts(row *Row) (err error) {
	if row.Currency, err = r.currency(currencyColumn); err != nil {
		return err
	}
	if row.Gross, err = r.amount(grossColumn, row.Currency); err != nil {
		return err
	}
	if fall, known := falls[row.Category]; known && (fall && row.Gross > 0 || !fall && row.Gross < 0) {
		return r.errorIn(grossColumn, fmt.Errorf(
			"a %s has the wrong sign: amounts that take money from the balance are below zero, all others above",
			row.Category))
	}
	if r.field(feeColumn) != "" {
		if row.Fee, err = r.amount(feeColumn, row.Currency); err != nil {
			return err
		}
	}
	row.Net = row.Gross - row.Fee
	if text := r.field(netColumn); text != "" {
		net, err := r.amount(netColumn, row.Currency)
		if err != nil {
			return err
		}
		if r.field(feeColumn) == "" {
			row.Fee, row.Net = row.Gross-net, net
		}
		if net != row.Net {
			return r.errorIn(netColumn, fmt.Errorf("%s is not gross less fee, which is %s", text,
				books.AppendAmount(nil, row.Net, row.Currency)))
		}
	}
	return r.paid(row)
}

func (r *Reader) paid(row *Row) (err error) {
	row.Paid = eventschemas.Money{Minor: row.Gross, Currency: row.Currency}
	if r.field(paidColumn) == "" || r.field(paidCurrencyColumn) == "" {
		return nil
	}
	currency, err := r.currency(paidCurrencyColumn)
	if err != nil || currency == row.Currency {
		return err
	}
	minor, err := r.amount(paidColumn, currency)
	if err != nil {
		return err
	}
	if (minor < 0) != (row.Gross < 0) {
		minor = -minor
	}
	row.Paid = eventschemas.Money{Minor: minor, Currency: currency}
	return nil
}

// field returns a field of the current record, empty if there is no such column.
func (r *Reader) field(c column) string {
	if r.at[c] < 0 {
		return ""
	}
	return strings.Clone(strings.TrimSpace(r.fields[r.at[c]])) // without a reference to the whole record
}

func (r *Reader) errorIn(c column, err error) error {
	line, _ := r.records.FieldPos(r.at[c])
	return &ParseError{Line: line, Column: r.header[r.at[c]], Err: err}
}

var currencyPattern = regexp.MustCompile(`^[A-Z]{3}$`)

// ParseCurrency returns a currency in capital letters.
func ParseCurrency(text string) (string, error) {
	code := strings.ToUpper(text)
	if !currencyPattern.MatchString(code) {
		return "", fmt.Errorf("%q is not a currency of three letters", text)
	}
	return code, nil
}

func (r *Reader) currency(c column) (string, error) {
	code, err := ParseCurrency(r.field(c))
	if err != nil {
		return "", r.errorIn(c, err)
	}
	return code, nil
}

func (r *Reader) amount(c column, currency string) (int64, error) {
	minor, err := books.ParseAmount(r.field(c), currency)
	if err != nil {
		return 0, r.errorIn(c, err)
	}
	return minor, nil
}

func parseTime(text string) (time.Time, error) {
	for _, layout := range timeLayouts {
		if t, err := time.Parse(layout, text); err == nil {
			return t.UTC(), nil
		}
	}
	return time.Time{}, fmt.Errorf("%q is not a time like 2026-11-30 15:04:05", text)
}
