package journal

import (
	"archive/zip"
	"compress/flate"
	"context"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"io/fs"
	"math"
	"os"
	"slices"
	"strings"
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

// sortedZip is an excelize.ZipWriter whose archive has its entries in the order of their names; excelize writes sheets
// in a random order, and the archive to memory. Until Close the compressed entries are in temporary files.
type sortedZip struct {
	ctx     context.Context // excelize takes none
	w       io.Writer
	folder  string // of the temporary files
	entries []*zipEntry
}

type zipEntry struct {
	ctx        context.Context
	name       string
	file       *os.File
	compressed *flate.Writer
	crc        uint32
	size       uint64
}

func (z *sortedZip) Create(name string) (io.Writer, error) {
	file, err := os.CreateTemp(z.folder, "letterhead-*.zip-entry")
	if err != nil {
		return nil, err
	}
	e := &zipEntry{ctx: z.ctx, name: name, file: file}
	z.entries = append(z.entries, e)
	e.compressed, err = flate.NewWriter(file, flate.BestSpeed)
	return e, err
}

// AddFS implements excelize.ZipWriter, which does not call it.
func (z *sortedZip) AddFS(fs.FS) error { return errors.ErrUnsupported }

func (e *zipEntry) Write(b []byte) (int, error) {
	if err := e.ctx.Err(); err != nil {
		return 0, err
	}
	n, err := e.compressed.Write(b)
	e.crc = crc32.Update(e.crc, crc32.IEEETable, b[:n])
	e.size += uint64(n)
	return n, err
}

// Close writes the archive and removes the temporary files.
func (z *sortedZip) Close() error {
	slices.SortFunc(z.entries, func(a, b *zipEntry) int { return strings.Compare(a.name, b.name) })
	out := zip.NewWriter(z.w)
	var err error
	for _, e := range z.entries {
		if err == nil {
			err = e.copyTo(out)
		}
		err = errors.Join(err, e.file.Close(), os.Remove(e.file.Name()))
	}
	if err != nil {
		return err
	}
	return out.Close()
}

func (e *zipEntry) copyTo(out *zip.Writer) error {
	if err := e.compressed.Close(); err != nil {
		return err
	}
	size, err := e.file.Seek(0, io.SeekCurrent)
	if err != nil {
		return err
	}
	w, err := out.CreateRaw(&zip.FileHeader{Name: e.name, Method: zip.Deflate, CRC32: e.crc,
		CompressedSize64: uint64(size), UncompressedSize64: e.size})
	if err != nil {
		return err
	}
	if _, err := e.file.Seek(0, io.SeekStart); err != nil {
		return err
	}
	_, err = io.Copy(w, e.file)
	return err
}
