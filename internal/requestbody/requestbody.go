// Package requestbody reads bodies of requests and decodes their content coding and character set.
package requestbody

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"slices"
	"strings"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
)

// maxWindow limits the memory of the zstd decoder, in bytes: RFC 9659 allows no larger window for this coding.
const maxWindow = 8 << 20

// ErrTooLarge means that the body, as sent or decoded, is larger than the limit.
var ErrTooLarge = errors.New("the body is too large")

// RefusedError explains in one sentence what a client has to change.
type RefusedError struct{ Sentence string }

func (e *RefusedError) Error() string { return e.Sentence }

func refused(format string, args ...any) error {
	return &RefusedError{Sentence: fmt.Sprintf(format, args...)}
}

// Read returns the body of a request in UTF-8 without a byte order mark. It decodes gzip and zstd, and UTF-16 that a
// byte order mark or the charset of the content type declares. Other text is returned unchanged. max limits the bytes
// that are sent and those that are returned. Errors: ErrTooLarge, *RefusedError, and the errors of reading.
func Read(w http.ResponseWriter, r *http.Request, max int) ([]byte, error) {
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, int64(max)))
	if errors.As(err, new(*http.MaxBytesError)) {
		return nil, ErrTooLarge
	}
	if err != nil || len(body) == 0 {
		return nil, err
	}
	if body, err = uncompressed(strings.Join(r.Header.Values("Content-Encoding"), ","), body, max); err != nil {
		return nil, err
	}
	if body, err = inUTF8(r.Header.Get("Content-Type"), body); err != nil {
		return nil, err
	}
	if len(body) > max {
		return nil, ErrTooLarge
	}
	return body, nil
}

func uncompressed(coding string, sent []byte, max int) ([]byte, error) {
	var r io.Reader
	var err error
	switch coding = strings.ToLower(strings.TrimSpace(coding)); coding {
	case "", "identity":
		return sent, nil
	case "gzip", "x-gzip": // RFC 9110, section 8.4.1.3
		r, err = gzip.NewReader(bytes.NewReader(sent))
	case "zstd":
		var z *zstd.Decoder
		z, err = zstd.NewReader(bytes.NewReader(sent), zstd.WithDecoderConcurrency(1),
			zstd.WithDecoderMaxWindow(maxWindow),
			zstd.WithDecoderLowmem(true))
		if err == nil {
			defer z.Close()
			r = z
		}
	default:
		return nil, refused("The body has the Content-Encoding %.40q. Use gzip or zstd, or send it without one.",
			coding)
	}
	var body []byte
	if err == nil {
		body, err = io.ReadAll(io.LimitReader(r, int64(max)+1))
	}
	switch {
	case len(body) > max:
		return nil, ErrTooLarge
	case err != nil:
		return nil, refused("The body is not in its Content-Encoding, %s. "+
			"Send all of it in that encoding, or leave the header out.", coding)
	}
	return body, nil
}

// inUTF8 converts a body from its character set. A byte order mark takes precedence over the content type (RFC 2781,
// section 3.2, and the WHATWG Encoding Standard).
func inUTF8(contentType string, body []byte) ([]byte, error) {
	charset := "utf-8"
	if _, parameters, err := mime.ParseMediaType(contentType); err == nil && parameters["charset"] != "" {
		charset = strings.ToLower(parameters["charset"])
	}
	for _, marked := range [][2]string{{"\xef\xbb\xbf", "utf-8"}, {"\xfe\xff", "utf-16be"}, {"\xff\xfe", "utf-16le"}} {
		if rest, ok := bytes.CutPrefix(body, []byte(marked[0])); ok {
			body, charset = rest, marked[1]
			break
		}
	}
	switch charset {
	case "utf-8", "utf8", "us-ascii":
		return body, nil
	case "iso-8859-1", "latin1", "windows-1252": // defaults of libraries, which usually send ASCII
		if !bytes.ContainsFunc(body, func(r rune) bool { return r >= utf8.RuneSelf }) {
			return body, nil
		}
	case "utf-16", "utf-16be": // without a mark it is big-endian (RFC 2781, section 4.3)
		return fromUTF16(body, binary.BigEndian)
	case "utf-16le":
		return fromUTF16(body, binary.LittleEndian)
	}
	return nil, refused("The body has the charset %.40q. Send JSON in UTF-8.", charset)
}

func fromUTF16(body []byte, order binary.ByteOrder) ([]byte, error) {
	units := make([]uint16, len(body)/2)
	for i := range units {
		units[i] = order.Uint16(body[2*i:])
	}
	runes := utf16.Decode(units) // which replaces lone surrogates
	if len(body)%2 != 0 || !slices.Equal(utf16.Encode(runes), units) {
		return nil, refused("The body is not valid UTF-16. Send JSON in UTF-8.")
	}
	return []byte(string(runes)), nil
}
