// Package starter contains the starter index: a few thousand companies with vector logos and brand colors,
// embedded in the binary, so that the first lookup works without a network.
//
// Names, logos and colors come from two CC0 packages; descriptions, links and facts about companies, which
// only some records have, come from others. The program tools/starter assigns the brands to domains and
// writes the logos in a form that svg.Sanitize leaves unchanged. Import loads the data into a running
// service, once for each version. A starter record is partial until a crawl confirms it.
//
// The logos remain the trademarks of their owners; NOTICE says so and lists their sources.
package starter

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	_ "embed"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/klauspost/compress/zstd"

	"letterhead/eventschemas"
)

// Limits of the reader, so that a damaged file causes an error instead of exhausting memory.
const (
	maxLine     = 512 << 10 // bytes of one brand
	maxUnpacked = 64 << 20  // bytes of all brands
	maxWindow   = 8 << 20   // bytes of the decompressor's window
)

//go:embed data/brands.jsonl.zst
var packed []byte

// Brand is one brand of the starter index.
type Brand struct {
	Domain   string // registrable
	Record   eventschemas.Record
	Evidence []eventschemas.Evidence
	// SVG holds the sanitized files, one for each logo of the record, in order.
	SVG [][]byte
}

// line is a brand as stored: asset ids and sizes are omitted, because they follow from the files.
type line struct {
	Domain   string                  `json:"domain"`
	Record   eventschemas.Record     `json:"record"`
	Evidence []eventschemas.Evidence `json:"evidence"`
	SVG      []string                `json:"svg"`
}

// Each calls f for every brand, in order of domains, and stops at the first error of f, which it
// returns. f may keep the brand. Any other error means that the embedded file is damaged.
func Each(f func(Brand) error) error {
	return Read(bytes.NewReader(packed), f)
}

// Read is Each for a file written by the generator.
func Read(r io.Reader, f func(Brand) error) error {
	z, err := zstd.NewReader(r, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxWindow(maxWindow),
		zstd.WithDecoderMaxMemory(maxUnpacked))
	if err != nil {
		return fmt.Errorf("open starter index: %w", err)
	}
	defer z.Close()
	lines := bufio.NewScanner(io.LimitReader(z, maxUnpacked))
	lines.Buffer(make([]byte, 0, 64<<10), maxLine)
	for n := 1; lines.Scan(); n++ {
		b, err := parse(lines.Bytes())
		if err != nil {
			return fmt.Errorf("starter index, line %d: %w", n, err)
		}
		if err := f(b); err != nil {
			return err
		}
	}
	if err := lines.Err(); err != nil {
		return fmt.Errorf("read starter index: %w", err)
	}
	return nil
}

func parse(data []byte) (Brand, error) {
	var in line
	if err := json.Unmarshal(data, &in); err != nil {
		return Brand{}, err
	}
	if in.Domain == "" || len(in.SVG) == 0 || len(in.SVG) != len(in.Record.Logos) {
		return Brand{}, errors.New("not a brand with one file for each logo")
	}
	b := Brand{Domain: in.Domain, Record: in.Record, Evidence: in.Evidence}
	for i, svg := range in.SVG {
		if len(b.Record.Logos[i].Formats) != 1 {
			return Brand{}, errors.New("a logo must have one format")
		}
		sum := sha256.Sum256([]byte(svg))
		file := &b.Record.Logos[i].Formats[0]
		file.ID, file.Size = hex.EncodeToString(sum[:]), int64(len(svg))
		b.SVG = append(b.SVG, []byte(svg))
	}
	return b, nil
}

// Write writes brands in the format that Read parses. They must be sorted by domain. The same brands give the
// same bytes.
func Write(w io.Writer, brands []Brand) error {
	z, err := zstd.NewWriter(w, zstd.WithEncoderLevel(zstd.SpeedBestCompression), zstd.WithWindowSize(maxWindow),
		zstd.WithEncoderConcurrency(1))
	if err != nil {
		return fmt.Errorf("pack starter index: %w", err)
	}
	for _, b := range brands {
		data, err := b.line()
		if err != nil {
			return fmt.Errorf("pack %s: %w", b.Domain, err)
		}
		if _, err := z.Write(append(data, '\n')); err != nil {
			return fmt.Errorf("pack %s: %w", b.Domain, err)
		}
	}
	if err := z.Close(); err != nil {
		return fmt.Errorf("pack starter index: %w", err)
	}
	return nil
}

func (b Brand) line() ([]byte, error) {
	out := line{Domain: b.Domain, Record: b.Record, Evidence: b.Evidence}
	out.Record.Logos = append([]eventschemas.Logo(nil), b.Record.Logos...)
	for i, l := range out.Record.Logos {
		file := l.Formats[0]
		file.ID, file.Size = "", 0
		out.Record.Logos[i].Formats = []eventschemas.Asset{file}
		out.SVG = append(out.SVG, string(b.SVG[i]))
	}
	var buf bytes.Buffer
	enc := json.NewEncoder(&buf)
	enc.SetEscapeHTML(false) // escaped angle brackets would double the size of the SVG files
	if err := enc.Encode(out); err != nil {
		return nil, err
	}
	return bytes.TrimSuffix(buf.Bytes(), []byte("\n")), nil
}
