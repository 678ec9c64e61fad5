package journal

import (
	"archive/zip"
	"compress/flate"
	"context"
	"errors"
	"hash/crc32"
	"io"
	"io/fs"
	"os"
	"slices"
	"strings"
)

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
