package page

import (
	"bytes"
	"net/url"
	"strings"
	"unicode/utf8"

	"golang.org/x/net/html/charset"
	"golang.org/x/text/encoding"
	"golang.org/x/text/encoding/charmap"
	"golang.org/x/text/encoding/htmlindex"
	"golang.org/x/text/encoding/unicode"
	"golang.org/x/text/unicode/norm"

	"letterhead/internal/lazyregexp"
)

const (
	sniffBytes = 8 << 10 // how far a declared encoding is searched for; browsers stop at 1024, but pages do not
	// nulShare is the proportion of zero bytes that means UTF-16 without a byte order mark: Latin text has half.
	nulShare = 0.2
	// maxStray is the number of invalid bytes that a page declared as UTF-8 may have even if no byte above 127 is valid.
	// certainlyUTF8 is the number of valid ones that overrules another declaration.
	maxStray, certainlyUTF8 = 2, 24
)

var declaredCharset = lazyregexp.New(`(?i)<meta[^>]{0,200}charset\s*=\s*["']?\s*([a-z0-9_:.-]{2,40})`)

// decode returns a page's text as valid UTF-8, and its encoding if that was detected.
//
// Like browsers, it trusts the declaration of the server or the page, unless the bytes clearly contradict it: they are
// UTF-8 despite another declaration, or they are not although the page or the server says so. Without a declaration, or
// with a contradicted one, it detects the encoding.
func decode(body []byte, contentType string, at *url.URL) ([]byte, Encoding) {
	if enc := markless(body); enc != nil {
		return convert(enc, body), Encoding{}
	}
	enc, name, certain := charset.DetermineEncoding(body[:min(len(body), 1024)], contentType)
	if bytes.HasPrefix(body, []byte("\xef\xbb\xbf")) {
		body = body[3:]
	}
	right, wrong := countUTF8(body)
	if wrong == 0 && (!certain || right >= certainlyUTF8 || name == "utf-8" || name == "windows-1252") {
		return body, Encoding{}
	}
	other, otherName := declared(body)
	western := westernGain
	switch {
	case name != "utf-8" && name != "windows-1252":
		return convert(enc, body), Encoding{}
	case looksUTF8(right, wrong):
		return mixed(body), Encoding{}
	case name == "utf-8", !certain && otherName == "utf-8":
		if wrong <= maxStray {
			return mixed(body), Encoding{}
		}
		if other != nil && otherName != "utf-8" {
			return convert(other, body), Encoding{}
		}
	case other != nil && otherName != "utf-8" && otherName != "windows-1252":
		return convert(other, body), Encoding{}
	case certain || otherName == "windows-1252":
		western = claimedGain
	}
	enc, found := detect(body, at, western)
	if found.Name == "windows-1252" && western == claimedGain {
		found = Encoding{} // as declared
	}
	return convert(enc, body), found
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

var cutBefore = []byte(`"'<.`) // bytes that end a value

// mixed decodes UTF-8 with invalid bytes, which nearly always are windows-1252.
func mixed(body []byte) []byte {
	out := make([]byte, 0, len(body)+len(body)/16)
	for len(body) > 0 {
		r, n := utf8.DecodeRune(body)
		switch {
		case r != utf8.RuneError || n > 1:
			out = append(out, body[:n]...)
		case body[0] >= 0xc2 && len(body) > 1 && (bytes.IndexByte(cutBefore, body[1]) >= 0 || body[1]&0xc0 == 0x80):
			for n < len(body) && body[n]&0xc0 == 0x80 { // a program has cut the value off within a character
				n++
			}
		default:
			out = utf8.AppendRune(out, charmap.Windows1252.DecodeByte(body[0]))
		}
		body = body[n:]
	}
	return out
}

// looksUTF8 reports whether a page is UTF-8, by its counts of valid and invalid bytes above 127. Half of a short East
// Asian text in another encoding may be valid by accident.
func looksUTF8(right, wrong int) bool {
	return right >= 9*wrong || right >= 2*wrong && wrong <= maxStray || right >= max(wrong, 8*certainlyUTF8)
}

// countUTF8 counts the bytes above 127 that are well-formed UTF-8, and those that are not.
func countUTF8(body []byte) (right, wrong int) {
	for len(body) > 0 {
		r, n := utf8.DecodeRune(body)
		switch {
		case r == utf8.RuneError && n == 1:
			wrong++
		case n > 1:
			right += n
		}
		body = body[n:]
	}
	return right, wrong
}

func convert(enc encoding.Encoding, body []byte) []byte {
	out, err := enc.NewDecoder().Bytes(body)
	if enc == charmap.Windows1258 { // it stores tones apart from their vowels
		out = norm.NFC.Bytes(out)
	}
	if err != nil || !utf8.Valid(out) {
		return bytes.ToValidUTF8(out, []byte("\uFFFD"))
	}
	return out
}
