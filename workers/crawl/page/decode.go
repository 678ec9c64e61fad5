package page

import (
	"bytes"
	"strings"
	"unicode/utf8"

	"golang.org/x/net/html/charset"
	"golang.org/x/text/encoding"
	"golang.org/x/text/encoding/charmap"
	"golang.org/x/text/encoding/htmlindex"
	"golang.org/x/text/encoding/unicode"

	"letterhead/internal/lazyregexp"
)

const (
	sniffBytes = 8 << 10 // how far a declared encoding is searched for; browsers stop at 1024, but pages do not
	// nulShare is the proportion of zero bytes that means UTF-16 without a byte order mark: Latin text has half.
	nulShare   = 0.2
	strayShare = 0.1 // the proportion of the bytes above 127 that may be invalid in a page that is still UTF-8
)

var declaredCharset = lazyregexp.New(`(?i)<meta[^>]{0,200}charset\s*=\s*["']?\s*([a-z0-9_:.-]{2,40})`)

// decode returns a page's text as valid UTF-8.
//
// Like browsers, it trusts the declaration of the server or the page, unless the bytes clearly contradict it: text
// declared as UTF-8 that is not is decoded with the other encodings it names.
func decode(body []byte, contentType string) []byte {
	if enc := markless(body); enc != nil {
		return convert(enc, body)
	}
	enc, name, certain := charset.DetermineEncoding(body[:min(len(body), 1024)], contentType)
	if bytes.HasPrefix(body, []byte("\xef\xbb\xbf")) {
		body = body[3:]
	}
	// Web servers declare Latin-1 by default; the page is more reliable.
	if (!certain || name == "utf-8" || name == "windows-1252") && utf8.Valid(body) {
		return body
	}
	switch {
	case name == "utf-8":
		return decodeBrokenUTF8(body)
	case certain && name == "windows-1252":
		if other, otherName := declared(body); other != nil && otherName != "utf-8" {
			return convert(other, body)
		}
	case !certain:
		if other, otherName := declared(body); other != nil && otherName != "utf-8" {
			return convert(other, body)
		} else if other != nil || looksUTF8(body) {
			return decodeBrokenUTF8(body)
		}
	}
	return convert(enc, body)
}

// markless recognizes UTF-16 without a byte order mark by its zero bytes.
func markless(body []byte) encoding.Encoding {
	head := body[:min(len(body), 512)]
	if len(head) < 16 || bytes.HasPrefix(head, []byte("\xff\xfe")) || bytes.HasPrefix(head, []byte("\xfe\xff")) {
		return nil
	}
	var zeros [2]int
	for i, c := range head {
		if c == 0 {
			zeros[i%2]++
		}
	}
	limit := int(nulShare * float64(len(head)))
	switch {
	case zeros[1] > limit && zeros[0] < zeros[1]/4:
		return unicode.UTF16(unicode.LittleEndian, unicode.IgnoreBOM)
	case zeros[0] > limit && zeros[1] < zeros[0]/4:
		return unicode.UTF16(unicode.BigEndian, unicode.IgnoreBOM)
	}
	return nil
}

// declared searches for a meta charset further than browsers do.
func declared(body []byte) (encoding.Encoding, string) {
	m := declaredCharset.FindSubmatch(body[:min(len(body), sniffBytes)])
	if m == nil {
		return nil, ""
	}
	enc, err := htmlindex.Get(string(m[1]))
	if err != nil {
		return nil, ""
	}
	name, err := htmlindex.Name(enc)
	if err != nil || strings.HasPrefix(name, "utf-16") { // a page with a readable meta element is not UTF-16
		return nil, ""
	}
	return enc, name
}

// decodeBrokenUTF8 decodes invalid text that is declared as UTF-8. A few stray bytes are decoded as windows-1252, which
// they nearly always are; if many bytes are invalid, the page's own declaration and then the encodings of its language
// are tried.
func decodeBrokenUTF8(body []byte) []byte {
	if !looksUTF8(body) {
		if enc, name := declared(body); enc != nil && name != "utf-8" {
			return convert(enc, body)
		}
		for _, name := range []string{"shift_jis", "gb18030", "euc-jp", "euc-kr", "big5"} {
			enc, err := htmlindex.Get(name)
			if err != nil {
				continue
			}
			if out := convert(enc, body); !bytes.ContainsRune(out, utf8.RuneError) {
				return out
			}
		}
	}
	out := make([]byte, 0, len(body)+len(body)/16)
	for len(body) > 0 {
		r, n := utf8.DecodeRune(body)
		if r == utf8.RuneError && n == 1 {
			out = utf8.AppendRune(out, charmap.Windows1252.DecodeByte(body[0]))
		} else {
			out = append(out, body[:n]...)
		}
		body = body[n:]
	}
	return out
}

// looksUTF8 reports whether nearly all bytes above 127 belong to well-formed UTF-8.
func looksUTF8(body []byte) bool {
	stray, high := 0, 0
	for len(body) > 0 {
		r, n := utf8.DecodeRune(body)
		switch {
		case r == utf8.RuneError && n == 1:
			stray++
			high++
		case n > 1:
			high += n
		}
		body = body[n:]
	}
	// A few bytes are inconclusive: one invalid byte in a short Latin page is a stray byte.
	return stray <= 8 && high <= 8 || float64(stray) <= strayShare*float64(high)
}

func convert(enc encoding.Encoding, body []byte) []byte {
	out, err := enc.NewDecoder().Bytes(body)
	if err != nil || !utf8.Valid(out) {
		return bytes.ToValidUTF8(out, []byte("\uFFFD"))
	}
	return out
}
