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
	// maxLayers limits how often a body is decompressed. Some servers compress files that are already compressed.
	maxLayers = 2
	// wireSlack is how much longer than the limit a compressed body may be. Without this limit empty gzip
	// members and blocks could go on forever, because they decompress to nothing.
	wireSlack = 64 << 10
	chunkSize = 32 << 10
)

// readBody reads at most limits.Body bytes after decompression. If truncated is true, body is only the beginning of the
// response: either err is ErrTooLarge or ErrBudget, or the server stopped early and err is nil.
func (s *Session) readBody(answer *http.Response, limits Limits) (body []byte, truncated bool, err error) {
	limit := limits.Body
	wire := &cappedReader{r: answer.Body, left: limit + wireSlack}
	decoded, err := decode(wire, answer.Header)
	if err != nil {
		return nil, false, err
	}
	chunk := make([]byte, chunkSize)
	for {
		// One byte beyond the limit distinguishes a body that ends there from a longer one.
		n, err := decoded.Read(chunk[:min(chunkSize, limit+1-int64(len(body)))])
		if s.bytes.Add(int64(n)) > s.maxBytes {
			return body, true, fmt.Errorf("%w: %d bytes", ErrBudget, s.maxBytes)
		}
		if int64(len(body)+n) > limit {
			return append(body, chunk[:n-1]...), true, fmt.Errorf("%w: body of more than %d bytes", ErrTooLarge, limit)
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
			// The Content-Length was wrong or the gzip trailer is missing. Like browsers, use the received part.
			return body, true, nil
		default:
			return body, false, bodyError(err)
		}
	}
}

// isCutOff reports whether a stream ended too early, or has other data after a complete gzip member.
func isCutOff(err error) bool {
	return errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, gzip.ErrHeader)
}

// bodyError marks decoding errors with ErrMalformed. Other errors are network errors.
func bodyError(err error) error {
	var corrupt flate.CorruptInputError
	if errors.As(err, &corrupt) || errors.Is(err, gzip.ErrChecksum) || errors.Is(err, gzip.ErrHeader) {
		return fmt.Errorf("%w: %w", ErrMalformed, err)
	}
	return err
}

// cappedReader fails with ErrTooLarge after a number of bytes.
type cappedReader struct {
	r    io.Reader
	left int64
}

func (c *cappedReader) Read(p []byte) (int, error) {
	if c.left <= 0 {
		// One more byte distinguishes a body that ends here from a longer one.
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

// decode decompresses a body. It does not trust Content-Encoding completely: a body that is declared as
// gzip but is not passes unchanged, and a text that is still gzip after one layer is decompressed once
// more. Encodings that were not requested are ErrMalformed.
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
		// The first Read returns this error again.
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

// encodings returns the number of gzip layers in the header.
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
	return strings.HasPrefix(kind, "text/") || strings.Contains(kind, "xml") || strings.Contains(kind, "json") ||
		strings.Contains(kind, "javascript")
}
