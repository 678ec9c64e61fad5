package journal

import (
	"archive/zip"
	"bytes"
	"context"
	"encoding/xml"
	"fmt"
	"io"
	"math"
	"regexp"
	"strconv"
	"time"

	"letterhead/domain/books"
)

// maxSheetRows is the number of rows that a sheet of a spreadsheet program can have
// (https://support.microsoft.com/office/1672b34d-7043-467e-8e27-269d656771c3).
const maxSheetRows = 1_048_576

const (
	xmlHead  = `<?xml version="1.0" encoding="UTF-8" standalone="yes"?>` + "\n"
	mainNS   = `xmlns="http://schemas.openxmlformats.org/spreadsheetml/2006/main"`
	packages = "http://schemas.openxmlformats.org/package/2006"
	offices  = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"
	types    = "application/vnd.openxmlformats-officedocument.spreadsheetml."

	// Styles of cells: the default, dates, and after these the numbers of decimals from 0 on.
	dateStyle, decimalsStyle = 1, 2
)

// xlsxEncoder writes a row for each posting, on as many sheets as are needed, and in a summary on one for each month.
type xlsxEncoder struct {
	Options
	ctx    context.Context // encoders take none
	zip    *zip.Writer
	sheet  io.Writer
	sheets []string // names
	month  string   // of the sheet, in a summary
	rows   int      // of the sheet, with its header
	cells  int      // of the row
	buffer bytes.Buffer
}

func newXLSX(ctx context.Context, w io.Writer, o Options) *xlsxEncoder {
	return &xlsxEncoder{Options: o, ctx: ctx, zip: zip.NewWriter(w)}
}

// nextSheet begins a sheet with the names of the columns; month is empty but in a summary.
func (x *xlsxEncoder) nextSheet(month string) (err error) {
	if err := x.endSheet(); err != nil {
		return err
	}
	name := fmt.Sprintf("Journal %d", len(x.sheets)+1)
	if month != "" && month != x.month { // the second sheet of a month is a Journal
		name = month
	}
	x.sheets, x.month, x.rows = append(x.sheets, name), month, 0
	if x.sheet, err = x.zip.Create(fmt.Sprintf("xl/worksheets/sheet%d.xml", len(x.sheets))); err != nil {
		return err
	}
	// The first row stays in view, and dates and amounts fit into the columns.
	x.buffer.WriteString(xmlHead + `<worksheet ` + mainNS + `><sheetViews><sheetView workbookViewId="0">` +
		`<pane ySplit="1" topLeftCell="A2" activePane="bottomLeft" state="frozen"/></sheetView></sheetViews>` +
		`<cols><col min="1" max="17" width="18" customWidth="1"/></cols><sheetData>`)
	for _, column := range x.Summary.columns() {
		x.text(column)
	}
	return x.row()
}

func (x *xlsxEncoder) endSheet() error {
	if x.sheet == nil {
		return nil
	}
	_, err := io.WriteString(x.sheet, `</sheetData></worksheet>`)
	return err
}

// escapeLike matches what spreadsheet programs read as the escape of a character in a text, but for its last character,
// which may begin the next one.
var escapeLike = regexp.MustCompile(`_x[0-9A-Fa-f]{4}`)

// text adds a cell that is never a formula.
func (x *xlsxEncoder) text(s string) {
	x.begin()
	x.buffer.WriteString(`t="inlineStr"><is><t xml:space="preserve">`)
	_ = xml.EscapeText(&x.buffer, []byte(escapeLike.ReplaceAllString(s, "_x005F$0"))) // a buffer has no errors
	x.buffer.WriteString(`</t></is></c>`)
}

func (x *xlsxEncoder) number(n float64, style int) {
	x.begin()
	fmt.Fprintf(&x.buffer, `s="%d"><v>%s</v></c>`, style, strconv.FormatFloat(n, 'g', -1, 64))
}

// begin begins a cell, and the row if it is the first one.
func (x *xlsxEncoder) begin() {
	if x.cells == 0 {
		x.rows++
		fmt.Fprintf(&x.buffer, `<row r="%d">`, x.rows)
	}
	fmt.Fprintf(&x.buffer, `<c r="%c%d" `, 'A'+x.cells, x.rows)
	x.cells++
}

// row ends the row.
func (x *xlsxEncoder) row() error {
	x.buffer.WriteString(`</row>`)
	x.cells = 0
	if err := x.ctx.Err(); err != nil {
		return err
	}
	_, err := x.buffer.WriteTo(x.sheet)
	return err
}

func (x *xlsxEncoder) entry(e *entry) error {
	month := ""
	if x.Summary != "" {
		month = e.booked.Format(books.MonthLayout)
	}
	if x.sheet == nil || month != x.month || x.rows+len(e.postings) > x.maxSheetRows {
		if err := x.nextSheet(month); err != nil {
			return err
		}
	}
	// Spreadsheet programs count the days from this one on.
	day := e.booked.Truncate(24*time.Hour).Sub(time.Date(1899, 12, 30, 0, 0, 0, 0, time.UTC)).Hours() / 24
	at := string(appendTime(nil, e.at))
	for i := range e.postings {
		p := &e.postings[i]
		x.text(e.id)
		x.number(day, dateStyle)
		for _, text := range []string{at, e.event, e.account, e.revisionText(), x.Chart[p.Account],
			books.Chart[p.Account].Name, p.Commodity} {
			x.text(text)
		}
		// Spreadsheet programs keep 15 digits of a number.
		places := books.Decimals(p.Commodity)
		x.number(float64(p.Amount)/math.Pow10(places), decimalsStyle+places)
		for _, text := range e.cells() {
			x.text(text)
		}
		if err := x.row(); err != nil {
			return err
		}
	}
	return nil
}

// close adds the parts that name the sheets, and the styles.
func (x *xlsxEncoder) close(*balances) error {
	if x.sheet == nil {
		if err := x.nextSheet(""); err != nil {
			return err
		}
	}
	if err := x.endSheet(); err != nil {
		return err
	}
	var contents, sheets, relations, formats, styles string
	for i, name := range x.sheets {
		i++
		contents += fmt.Sprintf(`<Override PartName="/xl/worksheets/sheet%d.xml" ContentType="%sworksheet+xml"/>`, i, types)
		sheets += fmt.Sprintf(`<sheet name="%s" sheetId="%d" r:id="rId%[2]d"/>`, name, i)
		relations += fmt.Sprintf(
			`<Relationship Id="rId%d" Type="%s/worksheet" Target="worksheets/sheet%[1]d.xml"/>`, i, offices)
	}
	const ownFormats = 164 // the first number of a format that is not built in
	for i := range decimalsStyle + books.MaxDecimals {
		format := "yyyy-mm-dd"
		if decimals := i + 1 - decimalsStyle; decimals == 0 {
			format = "#,##0"
		} else if decimals > 0 {
			format = fmt.Sprintf("#,##0.%0*d", decimals, 0)
		}
		formats += fmt.Sprintf(`<numFmt numFmtId="%d" formatCode="%s"/>`, ownFormats+i, format)
		styles += fmt.Sprintf(`<xf numFmtId="%d" fontId="0" fillId="0" borderId="0" xfId="0" applyNumberFormat="1"/>`,
			ownFormats+i)
	}
	for _, part := range [][2]string{
		{"[Content_Types].xml", `<Types xmlns="` + packages + `/content-types">` +
			`<Default Extension="rels" ContentType="application/vnd.openxmlformats-package.relationships+xml"/>` +
			`<Override PartName="/xl/workbook.xml" ContentType="` + types + `sheet.main+xml"/>` +
			`<Override PartName="/xl/styles.xml" ContentType="` + types + `styles+xml"/>` + contents + `</Types>`},
		{"_rels/.rels", `<Relationships xmlns="` + packages + `/relationships"><Relationship Id="rId1" Type="` +
			offices + `/officeDocument" Target="xl/workbook.xml"/></Relationships>`},
		{"xl/workbook.xml", `<workbook ` + mainNS + ` xmlns:r="` + offices + `"><bookViews><workbookView/></bookViews>` +
			`<sheets>` + sheets + `</sheets></workbook>`},
		{"xl/_rels/workbook.xml.rels", `<Relationships xmlns="` + packages + `/relationships">` + relations +
			`<Relationship Id="styles" Type="` + offices + `/styles" Target="styles.xml"/></Relationships>`},
		{"xl/styles.xml", `<styleSheet ` + mainNS + `><numFmts count="` + strconv.Itoa(decimalsStyle+books.MaxDecimals) +
			`">` + formats + `</numFmts><fonts count="1"><font/></fonts><fills count="2">` +
			`<fill><patternFill patternType="none"/></fill><fill><patternFill patternType="gray125"/></fill></fills>` +
			`<borders count="1"><border/></borders><cellStyleXfs count="1"><xf/></cellStyleXfs><cellXfs><xf xfId="0"/>` +
			styles + `</cellXfs></styleSheet>`},
	} {
		w, err := x.zip.Create(part[0])
		if err == nil {
			_, err = io.WriteString(w, xmlHead+part[1])
		}
		if err != nil {
			return err
		}
	}
	return x.zip.Close()
}
