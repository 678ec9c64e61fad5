package journal

import (
	"encoding/binary"
	"errors"
	"io"
	"math/bits"
	"time"

	"github.com/klauspost/compress/zstd"
	"github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/format"

	"letterhead/domain/books"
)

const (
	// rowGroup is the number of rows that are in memory before they are written.
	rowGroup = 1 << 16
	// parquetBatch is the number of rows that are handed to the library at a time.
	parquetBatch = 1 << 10
)

// parquetRow is a posting. The names are the columns' names.
type parquetRow struct {
	Transaction   string   `parquet:"transaction"`
	Date          int32    `parquet:"date,date"`
	Time          int64    `parquet:"time,timestamp(microsecond)"`
	Event         string   `parquet:"event,dict"`
	Account       string   `parquet:"account,dict"`
	Revision      *int64   `parquet:"revision,optional"`
	Code          string   `parquet:"code,dict"`
	LedgerAccount string   `parquet:"ledger_account,dict"`
	Commodity     string   `parquet:"commodity,dict"`
	Amount        [16]byte `parquet:"amount,decimal(4:38)"` // MaxDecimals
	LateFor       string   `parquet:"late_for,dict"`
	Kind          string   `parquet:"kind,dict"`
	PaymentID     string   `parquet:"payment_id,dict"`
	Reference     string   `parquet:"reference"`
	RequestID     string   `parquet:"request_id"`
	Domain        string   `parquet:"domain,dict"`
	KeyID         string   `parquet:"key_id,dict"`
	Plan          string   `parquet:"plan,dict"`
	TaxRate       string   `parquet:"tax_rate,dict"`
}

// compressionWindow is the window of the compressor, in bytes. A page of a column is not larger by much. The library's
// own codec takes 8 MiB for its window, for each of the encoders that it keeps.
const compressionWindow = 256 << 10

// codec compresses the pages of a file. It only writes.
type codec struct{ encoder *zstd.Encoder }

func (*codec) String() string { return "ZSTD" }

func (*codec) CompressionCodec() format.CompressionCodec { return format.Zstd }

func (c *codec) Encode(dst, src []byte) (_ []byte, err error) {
	if c.encoder == nil {
		if c.encoder, err = zstd.NewWriter(nil, zstd.WithEncoderLevel(zstd.SpeedFastest),
			zstd.WithWindowSize(compressionWindow), zstd.WithLowerEncoderMem(true), zstd.WithEncoderConcurrency(1),
			zstd.WithZeroFrames(true), zstd.WithEncoderCRC(false)); err != nil {
			return nil, err
		}
	}
	return c.encoder.EncodeAll(src, dst[:0]), nil
}

func (*codec) Decode([]byte, []byte) ([]byte, error) { return nil, errors.ErrUnsupported }

type parquetEncoder struct {
	w     *parquet.GenericWriter[parquetRow]
	chart Chart
	rows  []parquetRow
}

func newParquet(w io.Writer, chart Chart) *parquetEncoder {
	return &parquetEncoder{chart: chart, rows: make([]parquetRow, 0, parquetBatch),
		w: parquet.NewGenericWriter[parquetRow](w, parquet.Compression(&codec{}), parquet.MaxRowsPerRowGroup(rowGroup),
			parquet.CreatedBy("letterhead", "", ""))}
}

func (q *parquetEncoder) entry(e *entry) error {
	var revision *int64
	if !e.isSum() {
		n := int64(e.revision)
		revision = &n
	}
	for i := range e.postings {
		p := &e.postings[i]
		q.rows = append(q.rows, parquetRow{
			Transaction: e.id, Date: int32(e.booked.Unix() / int64(24*time.Hour/time.Second)), Time: e.at.UnixMicro(),
			Event: e.event, Account: e.account, Revision: revision, Code: q.chart[p.Account],
			LedgerAccount: books.Chart[p.Account].Name, Commodity: p.Commodity, Amount: decimal(p.Amount, p.Commodity),
			LateFor: e.lateFor, Kind: e.kind, PaymentID: e.paymentID, Reference: e.reference, RequestID: e.requestID,
			Domain: e.domain, KeyID: e.keyID, Plan: e.plan, TaxRate: e.taxRate,
		})
	}
	if len(q.rows) < parquetBatch {
		return nil
	}
	return q.flush()
}

func (q *parquetEncoder) flush() error {
	_, err := q.w.Write(q.rows)
	q.rows = q.rows[:0]
	return err
}

func (q *parquetEncoder) close(*balances) error {
	if err := q.flush(); err != nil {
		return err
	}
	return q.w.Close()
}

// decimal returns an amount with MaxDecimals digits after the point, as 16 bytes of two's complement, big-endian.
func decimal(amount int64, commodity string) (b [16]byte) {
	scale := uint64(1)
	for range books.MaxDecimals - books.Decimals(commodity) {
		scale *= 10
	}
	units := uint64(amount)
	if amount < 0 {
		units = -units
	}
	high, low := bits.Mul64(units, scale)
	if amount < 0 {
		var carry uint64
		low, carry = bits.Add64(^low, 1, 0)
		high = ^high + carry
	}
	binary.BigEndian.PutUint64(b[:8], high)
	binary.BigEndian.PutUint64(b[8:], low)
	return b
}
