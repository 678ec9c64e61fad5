package journal

import (
	"context"
	"fmt"
	"io"
	"math"
	"time"

	"github.com/xuri/excelize/v2"

	"letterhead/domain/books"
)

// maxSheetRows is the number of rows that a sheet of a spreadsheet program can have
// (https://support.microsoft.com/office/1672b34d-7043-467e-8e27-269d656771c3).
const maxSheetRows = excelize.TotalRows

// xlsxEncoder writes a row for each posting, on as many sheets as are needed.
type xlsxEncoder struct {
	w        io.Writer
	chart    Chart
	maxRows  int
	file     *excelize.File
	sheet    *excelize.StreamWriter
	sheets   int
	rows     int // of the sheet, with its header
	date     int // style
	decimals [books.MaxDecimals + 1]int
	cells    []any
}

func newXLSX(ctx context.Context, w io.Writer, chart Chart, maxRows int, tempFolder string) (*xlsxEncoder, error) {
	x := &xlsxEncoder{w: w, chart: chart, maxRows: maxRows,
		file: excelize.NewFile(excelize.Options{TmpDir: tempFolder}), cells: make([]any, len(columns))}
	x.file.SetZipWriter(func(io.Writer) excelize.ZipWriter { return &sortedZip{ctx: ctx, w: w, folder: tempFolder} })
	format := "yyyy-mm-dd"
	var err error
	if x.date, err = x.file.NewStyle(&excelize.Style{CustomNumFmt: &format}); err != nil {
		return nil, err
	}
	for i := range x.decimals {
		format := "0"
		if i > 0 {
			format = fmt.Sprintf("0.%0*d", i, 0)
		}
		if x.decimals[i], err = x.file.NewStyle(&excelize.Style{CustomNumFmt: &format}); err != nil {
			return nil, err
		}
	}
	return x, x.nextSheet()
}

// nextSheet begins a sheet with the names of the columns.
func (x *xlsxEncoder) nextSheet() error {
	if x.sheet != nil {
		if err := x.sheet.Flush(); err != nil {
			return err
		}
	}
	x.sheets++
	name := fmt.Sprintf("Journal %d", x.sheets)
	var err error
	if x.sheets == 1 {
		err = x.file.SetSheetName("Sheet1", name)
	} else {
		_, err = x.file.NewSheet(name)
	}
	if err != nil {
		return err
	}
	if x.sheet, err = x.file.NewStreamWriter(name); err != nil {
		return err
	}
	for i, column := range columns {
		x.cells[i] = column
	}
	x.rows = 0
	return x.row()
}

func (x *xlsxEncoder) row() error {
	x.rows++
	return x.sheet.SetRow(fmt.Sprintf("A%d", x.rows), x.cells)
}

func (x *xlsxEncoder) entry(e *entry) error {
	if x.rows+len(e.postings) > x.maxRows {
		if err := x.nextSheet(); err != nil {
			return err
		}
	}
	day := e.booked.Truncate(24 * time.Hour)
	at := string(appendTime(nil, e.at))
	for i := range e.postings {
		p := &e.postings[i]
		// Cells of text are never formulas.
		x.cells = append(x.cells[:0], e.id, excelize.Cell{StyleID: x.date, Value: day}, at, e.event,
			e.account, e.revisionText(),
			x.chart[p.Account], books.Chart[p.Account].Name, p.Commodity, x.amount(p))
		for _, text := range e.texts() {
			x.cells = append(x.cells, text)
		}
		if err := x.row(); err != nil {
			return err
		}
	}
	return nil
}

// amount returns a number. Spreadsheet programs keep 15 digits of it.
func (x *xlsxEncoder) amount(p *books.Posting) excelize.Cell {
	places := books.Decimals(p.Commodity)
	return excelize.Cell{StyleID: x.decimals[places], Value: float64(p.Amount) / math.Pow10(places)}
}

func (x *xlsxEncoder) close(*balances) error {
	if err := x.sheet.Flush(); err != nil {
		return err
	}
	_, err := x.file.WriteToBuffer() // writes to x.w
	return err
}

// Close removes the temporary files.
func (x *xlsxEncoder) Close() error { return x.file.Close() }
