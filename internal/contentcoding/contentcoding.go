// Package contentcoding compresses the answers of HTTP servers with gzip or zstd (RFC 9110, sections 8.4 and 12.5.3). A
// page of a signed-in person must not be compressed: its length would reveal whether it repeats what another site made
// the browser send (BREACH).
//
// The package uses the writers of klauspost/compress/gzhttp, but not its handler. The handler ends compression only
// after the API's handler has returned, too late to decide whether a charge is final; it sends HEAD uncompressed, with
// the tag of another body; and it ignores If-None-Match.
package contentcoding

import (
	"bytes"
	"io"
	"net/http"
	"strings"
	"sync"

	"github.com/klauspost/compress/gzhttp/writer/gzkp"
	"github.com/klauspost/compress/gzhttp/writer/zstdkp"
	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"

	"letterhead/internal/accept"
)

// Coding is the content coding of an answer.
type Coding string

// The codings that answers may have.
const (
	Identity Coding = ""
	Gzip     Coding = "gzip"
	Zstd     Coding = "zstd"
)

// MinSize is the size in bytes from which an answer is compressed. A smaller one fits into three packets anyway, and
// compressing it takes longer than sending the bytes that it would save.
const MinSize = 4 << 10

// Levels of compression: for answers, while the client waits, and for files, which are compressed once.
const (
	answerGzip, answerZstd = 5, int(zstd.SpeedFastest)
	fileGzip, fileZstd     = gzip.BestCompression, int(zstd.SpeedBestCompression)
)

// Accepted returns the best coding for the values of Accept-Encoding, or Identity if there are none. needed reports
// whether the client refuses uncompressed answers; one that refuses every coding still gets those. Of gzip and zstd
// with equal weights, zstd is chosen, but only if the client names it: many clients that send * cannot decode zstd.
func Accepted(headers []string) (c Coding, needed bool) {
	zipped, zstd, identity, others := -1.0, -1.0, -1.0, -1.0 // weights; negative if not named
	for name, weight := range accept.Elements(headers) {
		switch strings.ToLower(name) {
		case "gzip", "x-gzip":
			zipped = max(zipped, weight)
		case "zstd":
			zstd = max(zstd, weight)
		case "identity":
			identity = max(identity, weight)
		case "*":
			others = max(others, weight)
		}
	}
	if zipped < 0 {
		zipped = others
	}
	if identity < 0 && others == 0 {
		identity = 0
	}
	switch {
	case max(zipped, zstd) <= 0 || identity > max(zipped, zstd):
		return Identity, false
	case zstd >= zipped:
		return Zstd, identity == 0
	default:
		return Gzip, identity == 0
	}
}

// Choose returns the coding for an answer of size bytes, given the Accept-Encoding of its request. It sets Vary if the
// answer depends on that header.
func Choose(answer http.Header, accept []string, contentType string, size int) Coding {
	if size == 0 || size < MinSize && len(accept) == 0 || !isText(contentType) {
		return Identity
	}
	c, needed := Accepted(accept)
	if size < MinSize && !needed {
		return Identity
	}
	vary(answer)
	return c
}

// isText reports whether compression shortens content of a type. Images are compressed already, except for SVG.
func isText(contentType string) bool {
	for _, prefix := range []string{"application/json", "text/", "image/svg+xml", "application/yaml"} {
		if strings.HasPrefix(contentType, prefix) {
			return true
		}
	}
	return false
}

var varyEncoding = []string{"Accept-Encoding"}

// vary adds Accept-Encoding to Vary. It does not change the slice in the header, which answers may share.
func vary(answer http.Header) {
	before := answer["Vary"]
	switch {
	case len(before) == 0:
		answer["Vary"] = varyEncoding
	case !strings.Contains(before[0], varyEncoding[0]):
		answer["Vary"] = []string{before[0] + ", " + varyEncoding[0]}
	}
}

// Tag returns the ETag of an answer in the coding, given the tag of the uncompressed answer. They differ, because a
// strong tag identifies bytes (RFC 9110, section 8.8.1).
func (c Coding) Tag(etag string) string {
	if c == Identity {
		return etag
	}
	return strings.TrimSuffix(etag, `"`) + "-" + string(c) + `"`
}

// Match returns the first tag of If-None-Match that matches an ETag in any coding, or "*", or "". The comparison is the
// weak one of RFC 9110, section 13.1.2: a proxy may have weakened the tag.
func Match(ifNoneMatch []string, etag string) string {
	for _, line := range ifNoneMatch {
		for candidate := range strings.SplitSeq(line, ",") {
			candidate = strings.TrimPrefix(strings.TrimSpace(candidate), "W/")
			switch candidate {
			case "*", etag, Gzip.Tag(etag), Zstd.Tag(etag):
				return candidate
			}
		}
	}
	return ""
}

// Encode returns a body in the coding; for Identity, the body itself.
func (c Coding) Encode(body []byte) []byte {
	if c == Identity {
		return body
	}
	return c.EncodeFrom(len(body), func(w io.Writer) { _, _ = w.Write(body) })
}

// EncodeFrom returns what write writes, about length bytes, in a coding other than Identity.
func (c Coding) EncodeFrom(length int, write func(io.Writer)) []byte {
	return c.encode(length, write, answerGzip, answerZstd)
}

func (c Coding) encode(length int, write func(io.Writer), gzipLevel, zstdLevel int) []byte {
	b := bytes.NewBuffer(make([]byte, 0, length/3))
	var w io.WriteCloser // from a pool
	if c == Gzip {
		w = gzkp.NewWriter(b, gzipLevel)
	} else {
		w = zstdkp.NewWriter(b, zstdLevel)
	}
	write(w)
	_ = w.Close() // writing to a buffer does not fail
	return b.Bytes()
}

// File is a static file.
type File struct {
	Body  []byte
	forms map[Coding]func() []byte
}

// NewFile returns a file, which is compressed when a client first asks for that.
func NewFile(body []byte) *File {
	f := &File{Body: body, forms: map[Coding]func() []byte{}}
	for _, c := range []Coding{Gzip, Zstd} {
		f.forms[c] = sync.OnceValue(func() []byte {
			return c.encode(len(body), func(w io.Writer) { _, _ = w.Write(body) }, fileGzip, fileZstd)
		})
	}
	return f
}

// Choose returns the form of the file for an answer, given the Accept-Encoding of its request, and sets Vary. A form
// that is not shorter is not used.
func (f *File) Choose(answer http.Header, accept []string) (Coding, []byte) {
	vary(answer)
	if c, _ := Accepted(accept); c != Identity {
		if coded := f.forms[c](); len(coded) < len(f.Body) {
			return c, coded
		}
	}
	return Identity, f.Body
}
