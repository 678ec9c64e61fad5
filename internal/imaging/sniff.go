package imaging

import (
	"bytes"
	"compress/gzip"
	"errors"
	"io"
	"regexp"
	"slices"
)

// sniffWindow is how far into a file the svg element may begin: comments and entity lists precede it.
const sniffWindow = 16 << 10

// isSVG reports whether the first element of a text is svg, with any namespace prefix.
func isSVG(data []byte) bool {
	head := data[:min(len(data), sniffWindow)]
	if isUTF16(head) {
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
			return svgTag.Match(head)
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

// isUTF16 reports whether a text is UTF-16 by its byte order mark, or by its first character, which is
// always "<" in XML.
func isUTF16(data []byte) bool {
	return slices.ContainsFunc([]string{"\xff\xfe", "<\x00", "\xfe\xff", "\x00<"}, func(start string) bool {
		return bytes.HasPrefix(data, []byte(start))
	})
}
