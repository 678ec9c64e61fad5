package imaging

import (
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strings"
	"unicode/utf8"

	"golang.org/x/text/encoding"
	"golang.org/x/text/encoding/charmap"
	"golang.org/x/text/encoding/unicode"
)

// sniffWindow is how far into a file the svg element may begin: comments and
// entity lists precede it.
const sniffWindow = 16 << 10

// isSVG reports whether the first element of a text is svg, with any namespace
// prefix.
func isSVG(data []byte) bool {
	head := data[:min(len(data), sniffWindow)]
	if order := utf16Order(head); order != nil {
		head = bytes.ReplaceAll(head, []byte{0}, nil) // sufficient for markup
		head = bytes.TrimLeft(head, "\xff\xfe")
	}
	head = bytes.TrimPrefix(head, []byte("\xef\xbb\xbf"))
	for {
		head = bytes.TrimLeft(head, " \t\r\n\f")
		var found bool
		switch {
		case bytes.HasPrefix(head, []byte("<?")):
			_, head, found = bytes.Cut(head, []byte("?>"))
		case bytes.HasPrefix(head, []byte("<!--")):
			_, head, found = bytes.Cut(head[4:], []byte("-->"))
		case bytes.HasPrefix(head, []byte("<!")):
			head, found = afterDoctype(head)
		default:
			return isSVGTag(head)
		}
		if !found {
			return false
		}
	}
}

// afterDoctype skips a document type and its content in brackets.
func afterDoctype(head []byte) ([]byte, bool) {
	end := bytes.IndexAny(head, "[>")
	if end < 0 {
		return nil, false
	}
	if head[end] == '[' {
		_, rest, found := bytes.Cut(head, []byte("]"))
		if !found {
			return nil, false
		}
		_, rest, found = bytes.Cut(rest, []byte(">"))
		return rest, found
	}
	return head[end+1:], true
}

var svgTag = regexp.MustCompile(`^<(?:[A-Za-z_][\w.-]*:)?svg[\s/>]`)

func isSVGTag(head []byte) bool { return svgTag.Match(head) }

func isSVGZ(data []byte) bool {
	z, err := gzip.NewReader(bytes.NewReader(data))
	if err != nil {
		return false
	}
	head := make([]byte, sniffWindow)
	n, err := io.ReadFull(z, head)
	if err != nil && !errors.Is(err, io.ErrUnexpectedEOF) && n == 0 {
		return false
	}
	return isSVG(head[:n])
}

// svgText returns a file's markup as UTF-8 without byte order mark and XML declaration.
func svgText(data []byte) ([]byte, error) {
	if len(data) > MaxSVGBytes {
		return nil, fmt.Errorf("%w: %d bytes", ErrTooLarge, len(data))
	}
	if bytes.HasPrefix(data, []byte("\x1f\x8b")) {
		var err error
		if data, err = gunzip(data); err != nil {
			return nil, err
		}
	}
	text, err := toUTF8(data)
	if err != nil {
		return nil, err
	}
	text = bytes.TrimLeft(text, " \t\r\n")
	if bytes.HasPrefix(text, []byte("<?xml ")) {
		_, text, _ = bytes.Cut(text, []byte("?>"))
	}
	if len(text) > MaxSVGBytes {
		return nil, fmt.Errorf("%w: %d bytes as UTF-8", ErrTooLarge, len(text))
	}
	return text, nil
}

func gunzip(data []byte) ([]byte, error) {
	z, err := gzip.NewReader(bytes.NewReader(data))
	if err != nil {
		return nil, malformed(err)
	}
	text, err := io.ReadAll(io.LimitReader(z, MaxSVGBytes+1))
	if err != nil {
		return nil, malformed(err)
	}
	if len(text) > MaxSVGBytes {
		return nil, fmt.Errorf("%w: more than %d bytes unpacked", ErrTooLarge, MaxSVGBytes)
	}
	return text, nil
}

// utf16Order returns the decoder for a text that is UTF-16 by its byte order mark, or by its first
// character, which is always "<" in XML.
func utf16Order(data []byte) encoding.Encoding {
	switch {
	case bytes.HasPrefix(data, []byte("\xff\xfe")), bytes.HasPrefix(data, []byte("<\x00")):
		return unicode.UTF16(unicode.LittleEndian, unicode.UseBOM)
	case bytes.HasPrefix(data, []byte("\xfe\xff")), bytes.HasPrefix(data, []byte("\x00<")):
		return unicode.UTF16(unicode.BigEndian, unicode.UseBOM)
	}
	return nil
}

var declaredEncoding = regexp.MustCompile(`^\s*<\?xml[^>]{0,200}?\sencoding\s*=\s*["']([A-Za-z0-9._:-]{1,40})["']`)

// toUTF8 decodes UTF-8, UTF-16, and the two single-byte encodings that drawing
// programs used. Any other one, especially UTF-7, is rejected by name, not
// guessed.
func toUTF8(data []byte) ([]byte, error) {
	order := utf16Order(data)
	data = bytes.TrimPrefix(data, []byte("\xef\xbb\xbf"))
	if m := declaredEncoding.FindSubmatch(data); m != nil && order == nil {
		switch name := strings.ToLower(string(m[1])); name {
		case "utf-8", "utf8", "us-ascii", "ascii", "utf-16": // the last one is a converter's mistake here
		case "iso-8859-1", "latin1", "windows-1252":
			order = charmap.Windows1252
		default:
			return nil, fmt.Errorf("%w: encoding %s", ErrUnsupported, name)
		}
	}
	if order != nil {
		decoded, err := order.NewDecoder().Bytes(data)
		if err != nil {
			return nil, malformed(err)
		}
		data = decoded
	}
	if !utf8.Valid(data) || bytes.IndexByte(data, 0) >= 0 {
		return nil, fmt.Errorf("%w: not valid UTF-8", ErrMalformed)
	}
	return data, nil
}

const (
	// maxEntities and maxExpansion limit the definitions of a document type.
	// Illustrator defines about ten names for namespaces.
	maxEntities  = 64
	maxExpansion = 64 << 10
)

var (
	entityDeclaration = regexp.MustCompile(`<!ENTITY\s+([A-Za-z_][\w.-]*)\s+(?:"([^"]*)"|'([^']*)'|(?:SYSTEM|PUBLIC)\s)`)
)

// parseEntities parses the entities of a document type. Their text is inserted
// literally, once, and never parsed again: an entity that refers to others,
// contains markup, or is external is empty.
func parseEntities(doctype, text []byte) (map[string]string, error) {
	found := entityDeclaration.FindAllSubmatch(doctype, maxEntities+1)
	if len(found) > maxEntities {
		return nil, fmt.Errorf("%w: more than %d entities", ErrTooLarge, maxEntities)
	}
	entities := make(map[string]string, len(found))
	expansion := 0
	for _, m := range found {
		name, value := string(m[1]), string(m[2])+string(m[3])
		if _, known := entities[name]; known {
			continue // the first declaration wins
		}
		if strings.ContainsAny(value, "&<%") {
			value = ""
		}
		entities[name] = value
		if expansion += bytes.Count(text, []byte("&"+name+";")) * len(value); expansion > maxExpansion {
			return nil, fmt.Errorf("%w: entities expand past %d bytes", ErrTooLarge, maxExpansion)
		}
	}
	return entities, nil
}
