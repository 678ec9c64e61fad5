package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"slices"

	"github.com/klauspost/compress/zstd"

	"letterhead/eventschemas"
	"letterhead/starter"
)

// pack writes brands in the format that starter.Read parses. They must be sorted by domain. The same brands give the
// same bytes.
func pack(w io.Writer, brands []starter.Brand) error {
	z, err := zstd.NewWriter(w, zstd.WithEncoderLevel(zstd.SpeedBestCompression),
		zstd.WithWindowSize(starter.MaxWindow), zstd.WithEncoderConcurrency(1))
	if err != nil {
		return fmt.Errorf("pack starter index: %w", err)
	}
	for _, b := range brands {
		data, err := lineOf(b)
		if err != nil {
			return fmt.Errorf("pack %s: %w", b.Domain, err)
		}
		if _, err := z.Write(data); err != nil {
			return fmt.Errorf("pack %s: %w", b.Domain, err)
		}
	}
	if err := z.Close(); err != nil {
		return fmt.Errorf("pack starter index: %w", err)
	}
	return nil
}

func lineOf(b starter.Brand) ([]byte, error) {
	out := starter.Line{Domain: b.Domain, Record: b.Record, Evidence: b.Evidence}
	out.Record.Logos = slices.Clone(b.Record.Logos)
	for i, l := range out.Record.Logos {
		file := l.Formats[0]
		file.ID, file.Size = "", 0
		out.Record.Logos[i].Formats = []eventschemas.Asset{file}
		out.SVG = append(out.SVG, string(b.SVG[i]))
	}
	var buf bytes.Buffer
	enc := json.NewEncoder(&buf)
	enc.SetEscapeHTML(false) // escaped angle brackets would double the size of the SVG files
	err := enc.Encode(out)
	return buf.Bytes(), err
}
