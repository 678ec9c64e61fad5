// Package contentcoding compresses the answers of HTTP servers with gzip or zstd (RFC 9110, sections 8.4 and 12.5.3). A
// page of a signed-in person must not be compressed: its length would reveal whether it repeats what another site made
// the browser send (BREACH).
//
// The handler of klauspost/compress/gzhttp, whose writers are used here, does not fit: it compresses until after the
// API's handler has returned, when it is decided already whether a charge is final; it leaves HEAD uncompressed, with the
// tag of another body; and it does not examine If-None-Match.
package contentcoding

import (
	"bytes"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync"

	"github.com/klauspost/compress/gzhttp/writer/gzkp"
	"github.com/klauspost/compress/gzhttp/writer/zstdkp"
	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
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
// compressing it takes longer than sending what it saves.
const MinSize = 4 << 10

// Levels of compression: of answers, while the client waits, and of files, which are compressed once.
const (
	answerGzip, answerZstd = 5, int(zstd.SpeedFastest)
	fileGzip, fileZstd     = gzip.BestCompression, int(zstd.SpeedBestCompression)
)

// Accepted returns the best coding for the values of Accept-Encoding, Identity without any. needed reports that the
// client refuses uncompressed answers; if it refuses every coding, it gets them all the same. Of two codings with the
// same weight zstd is used, but only a client that names it gets it: not every one that accepts anything (*) means it.
func Accepted(headers []string) (c Coding, needed bool) {
	zipped, zstd, identity, others := -1.0, -1.0, -1.0, -1.0 // weights; below 0 if it is not named
	for _, header := range headers {
		for element := range strings.SplitSeq(header, ",") {
			name, parameters, _ := strings.Cut(element, ";")
			weight := weightOf(parameters)
			switch strings.ToLower(strings.TrimSpace(name)) {
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

// weightOf returns the q-value among the parameters of a coding: 1 without one, 0 if it is malformed.
func weightOf(parameters string) float64 {
	name, value, _ := strings.Cut(parameters, "=")
	if !strings.EqualFold(strings.TrimSpace(name), "q") {
		return 1
	}
	weight, err := strconv.ParseFloat(strings.TrimSpace(value), 64)
	if err != nil || !(weight >= 0 && weight <= 1) { // not a number is neither
		return 0
	}
	return weight
}

// Choose returns the coding for an answer of a size, given the Accept-Encoding of its request. It sets Vary if the
// answer depends on that.
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

const acceptEncoding = "Accept-Encoding"

var varyEncoding = []string{acceptEncoding}

// vary adds Accept-Encoding to Vary. It leaves the slice that was there unchanged: answers may share it.
func vary(answer http.Header) {
	before := answer["Vary"]
	switch {
	case len(before) == 0:
		answer["Vary"] = varyEncoding
	case !strings.Contains(before[0], acceptEncoding):
		answer["Vary"] = []string{before[0] + ", " + acceptEncoding}
	}
}

// Tag returns the ETag of an answer in the coding, given the tag of the uncompressed answer: a strong tag identifies bytes
// (RFC 9110, section 8.8.1).
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

// Encode returns a body in the coding.
func (c Coding) Encode(body []byte) []byte {
	return c.EncodeTo(bytes.NewBuffer(make([]byte, 0, len(body)/3)), func(w io.Writer) { _, _ = w.Write(body) })
}

// EncodeTo appends to a buffer, in the coding, what write writes, and returns the buffer's bytes.
func (c Coding) EncodeTo(b *bytes.Buffer, write func(io.Writer)) []byte {
	return c.encode(b, write, answerGzip, answerZstd)
}

func (c Coding) encode(b *bytes.Buffer, write func(io.Writer), gzipLevel, zstdLevel int) []byte {
	var w io.WriteCloser
	switch c { // of pools
	case Gzip:
		w = gzkp.NewWriter(b, gzipLevel)
	case Zstd:
		w = zstdkp.NewWriter(b, zstdLevel)
	default:
		write(b)
		return b.Bytes()
	}
	write(w)
	_ = w.Close() // writing to a buffer does not fail
	return b.Bytes()
}

// File is a static file.
type File struct {
	Body       []byte
	gzip, zstd func() []byte // nil if the compressed form is not shorter
}

// NewFile returns a file. It is compressed when it is first sent so.
func NewFile(body []byte) *File {
	form := func(c Coding) func() []byte {
		return sync.OnceValue(func() []byte {
			coded := c.encode(&bytes.Buffer{}, func(w io.Writer) { _, _ = w.Write(body) }, fileGzip, fileZstd)
			if len(coded) >= len(body) {
				return nil
			}
			return coded
		})
	}
	return &File{Body: body, gzip: form(Gzip), zstd: form(Zstd)}
}

// Choose returns the form of the file for an answer, given the Accept-Encoding of its request, and sets Vary.
func (f *File) Choose(answer http.Header, accept []string) (Coding, []byte) {
	vary(answer)
	c, _ := Accepted(accept)
	var coded []byte
	switch c {
	case Gzip:
		coded = f.gzip()
	case Zstd:
		coded = f.zstd()
	}
	if coded == nil {
		return Identity, f.Body
	}
	return c, coded
}
