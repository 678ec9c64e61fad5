package safehttp

import (
	"bufio"
	"compress/flate"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
)

const (
	// maxLayers bounds how often a body is unpacked. Two, because servers that compress what is compressed
	// already do exist.
	maxLayers = 2
	// wireSlack is how much longer than its limit a compressed body may be: members and blocks without
	// content would otherwise cost time for ever and never count.
	wireSlack = 64 << 10
	chunkSize = 32 << 10
)

// readBody reads at most limit bytes after decompression. truncated means that body is the beginning of
// what was sent, either with ErrTooLarge or ErrBudget, or without an error when the server stopped early.
func (s *Session) readBody(answer *http.Response, limits Limits) (body []byte, truncated bool, err error) {
	limit := limits.Body
	wire := &cappedReader{r: answer.Body, left: limit + wireSlack}
	decoded, err := decode(wire, answer.Header)
	if err != nil {
		return nil, false, err
	}
	chunk := make([]byte, chunkSize)
	for {
		// A byte past the limit tells a body that ends there from one that goes on.
		n, err := decoded.Read(chunk[:min(chunkSize, limit+1-int64(len(body)))])
		if s.bytes.Add(int64(n)) > s.maxBytes {
			return body, true, fmt.Errorf("%w: %d bytes", ErrBudget, s.maxBytes)
		}
		if int64(len(body)+n) > limit {
			return append(body, chunk[:n-1]...), true, fmt.Errorf("%w: body past %d bytes", ErrTooLarge, limit)
		}
		if n > 0 && limits.Hold != nil && !limits.Hold(int64(n)) {
			return body, true, fmt.Errorf("%w: no memory for a longer body", ErrBudget)
		}
		body = append(body, chunk[:n]...)
		switch {
		case err == nil:
		case err == io.EOF:
			return body, false, nil
		case len(body) > 0 && isCutOff(err):
			// A wrong Content-Length, a missing gzip trailer: browsers show what came, and so do we.
			return body, true, nil
		default:
			return body, false, bodyError(err)
		}
	}
}

// isCutOff says that a stream ended where its framing said that more would follow, or that something
// follows a complete gzip member that is not gzip.
func isCutOff(err error) bool {
	return errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, gzip.ErrHeader)
}

// bodyError marks errors of decoding; the others are the network's.
func bodyError(err error) error {
	var corrupt flate.CorruptInputError
	if errors.As(err, &corrupt) || errors.Is(err, gzip.ErrChecksum) || errors.Is(err, gzip.ErrHeader) {
		return fmt.Errorf("%w: %w", ErrMalformed, err)
	}
	return err
}

// cappedReader refuses to read on past a number of bytes.
type cappedReader struct {
	r    io.Reader
	left int64
}

func (c *cappedReader) Read(p []byte) (int, error) {
	if c.left <= 0 {
		// One more byte tells a body that ends here from one that goes on.
		var one [1]byte
		if n, err := c.r.Read(one[:]); n == 0 {
			return 0, err
		}
		return 0, fmt.Errorf("%w: compressed body", ErrTooLarge)
	}
	n, err := c.r.Read(p[:min(int64(len(p)), c.left)])
	c.left -= int64(n)
	return n, err
}

// decode undoes Content-Encoding as far as it is true: a body that says gzip and is not passes as it is,
// and a text that is still gzip after one layer is unpacked once more. Encodings that were not asked for
// are ErrMalformed.
func decode(r io.Reader, header http.Header) (io.Reader, error) {
	declared, err := encodings(header)
	if err != nil {
		return nil, err
	}
	layers := declared
	if isText(header.Get("Content-Type")) {
		layers = min(declared+1, maxLayers)
	}
	for range layers {
		buffered := bufio.NewReader(r)
		r = buffered
		// An error here comes again with the first Read.
		if magic, _ := buffered.Peek(2); len(magic) < 2 || magic[0] != 0x1f || magic[1] != 0x8b {
			return r, nil
		}
		unzipped, err := gzip.NewReader(buffered)
		if err != nil {
			return nil, bodyError(err)
		}
		r = unzipped
	}
	return r, nil
}

// encodings counts the gzip layers that the header declares.
func encodings(header http.Header) (int, error) {
	count := 0
	for _, line := range header.Values("Content-Encoding") {
		for name := range strings.SplitSeq(line, ",") {
			switch name = lowerASCII(strings.TrimSpace(name)); name {
			case "", "identity":
			case "gzip", "x-gzip":
				count++
			default:
				return 0, fmt.Errorf("%w: content encoding %q", ErrMalformed, clip(name))
			}
		}
	}
	if count > maxLayers {
		return 0, fmt.Errorf("%w: %d content encodings", ErrMalformed, count)
	}
	return count, nil
}

func isText(contentType string) bool {
	kind := lowerASCII(contentType)
	return strings.HasPrefix(kind, "text/") || strings.Contains(kind, "xml") || strings.Contains(kind, "json") || strings.Contains(kind, "javascript")
}
