package svg

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"strings"
	"unicode/utf8"

	"golang.org/x/text/encoding"
	"golang.org/x/text/encoding/charmap"
	"golang.org/x/text/encoding/unicode"

	"letterhead/internal/imaging"
	"letterhead/internal/lazyregexp"
)

// readText returns a file's markup as UTF-8 without byte order mark and XML declaration.
func readText(data []byte) ([]byte, error) {
	if len(data) > MaxBytes {
		return nil, fmt.Errorf("%w: %d bytes", imaging.ErrTooLarge, len(data))
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
	if len(text) > MaxBytes {
		return nil, fmt.Errorf("%w: %d bytes as UTF-8", imaging.ErrTooLarge, len(text))
	}
	return text, nil
}

func gunzip(data []byte) ([]byte, error) {
	z, err := gzip.NewReader(bytes.NewReader(data))
	if err != nil {
		return nil, fmt.Errorf("%w: %w", imaging.ErrMalformed, err)
	}
	text, err := io.ReadAll(io.LimitReader(z, MaxBytes+1))
	if err != nil {
		return nil, fmt.Errorf("%w: %w", imaging.ErrMalformed, err)
	}
	if len(text) > MaxBytes {
		return nil, fmt.Errorf("%w: more than %d bytes unpacked", imaging.ErrTooLarge, MaxBytes)
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

var declaredEncoding = lazyregexp.New(`^\s*<\?xml[^>]{0,200}?\sencoding\s*=\s*["']([A-Za-z0-9._:-]{1,40})["']`)

// toUTF8 decodes UTF-8, UTF-16, and the two single-byte encodings that drawing programs used. Any other one, especially
// UTF-7, is rejected by name, not guessed.
func toUTF8(data []byte) ([]byte, error) {
	order := utf16Order(data)
	data = bytes.TrimPrefix(data, []byte("\xef\xbb\xbf"))
	if m := declaredEncoding.FindSubmatch(data); m != nil && order == nil {
		switch name := strings.ToLower(string(m[1])); name {
		case "utf-8", "utf8", "us-ascii", "ascii", "utf-16": // the last one is a converter's mistake here
		case "iso-8859-1", "latin1", "windows-1252":
			order = charmap.Windows1252
		default:
			return nil, fmt.Errorf("%w: encoding %s", imaging.ErrUnsupported, name)
		}
	}
	if order != nil {
		decoded, err := order.NewDecoder().Bytes(data)
		if err != nil {
			return nil, fmt.Errorf("%w: %w", imaging.ErrMalformed, err)
		}
		data = decoded
	}
	if !utf8.Valid(data) || bytes.IndexByte(data, 0) >= 0 {
		return nil, fmt.Errorf("%w: not valid UTF-8", imaging.ErrMalformed)
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
	entityDeclaration = lazyregexp.New(`<!ENTITY\s+([A-Za-z_][\w.-]*)\s+(?:"([^"]*)"|'([^']*)'|(?:SYSTEM|PUBLIC)\s)`)
)

// parseEntities parses the entities of a document type. Their text is inserted literally, once, and never parsed again:
// an entity that refers to others, contains markup, or is external is empty.
func parseEntities(doctype, text []byte) (map[string]string, error) {
	found := entityDeclaration.FindAllSubmatch(doctype, maxEntities+1)
	if len(found) > maxEntities {
		return nil, fmt.Errorf("%w: more than %d entities", imaging.ErrTooLarge, maxEntities)
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
			return nil, fmt.Errorf("%w: entities expand past %d bytes", imaging.ErrTooLarge, maxExpansion)
		}
	}
	return entities, nil
}
