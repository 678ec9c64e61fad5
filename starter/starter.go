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
	MaxWindow   = 8 << 20   // bytes of the decompressor's window
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

// Line is a brand as stored: asset ids and sizes are omitted, because they follow from the files.
type Line struct {
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
	z, err := zstd.NewReader(r, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxWindow(MaxWindow),
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
	var in Line
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
