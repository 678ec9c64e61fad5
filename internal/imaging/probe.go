package imaging

import (
	"bytes"
	"cmp"
	"compress/gzip"
	"encoding/binary"
	"errors"
	"fmt"
	"image"
	"io"
	"regexp"
	"slices"

	"golang.org/x/image/webp"
)

// Format is a file format, determined by the first bytes.
type Format string

// Formats that Probe recognizes.
const (
	PNG  Format = "png"
	JPEG Format = "jpeg"
	GIF  Format = "gif"
	WebP Format = "webp"
	ICO  Format = "ico"
	BMP  Format = "bmp"
	SVG  Format = "svg"
	SVGZ Format = "svgz" // SVG in gzip
	AVIF Format = "avif"
)

// IsVector reports whether the format has no pixels.
func (f Format) IsVector() bool { return f == SVG || f == SVGZ }

// Default limits of an image.
const (
	MaxBytes  = 5 << 20
	MaxPixels = 16 << 20
	// MaxSide limits width and height: an image of 16 million by 1 is not useful.
	MaxSide = 16384
)

// Limits of an image. A zero field means the default above.
type Limits struct {
	Bytes  int // of the file
	Pixels int // width times height
	Side   int // pixels of the longer side
}

func (l Limits) withDefaults() Limits {
	return Limits{cmp.Or(l.Bytes, MaxBytes), cmp.Or(l.Pixels, MaxPixels), cmp.Or(l.Side, MaxSide)}
}

func (l Limits) check(width, height int) error {
	switch {
	case width <= 0 || height <= 0:
		return fmt.Errorf("%w: %d×%d pixels", ErrMalformed, width, height)
	case width > l.Side || height > l.Side || width > l.Pixels/height:
		return fmt.Errorf("%w: %d×%d pixels", ErrTooLarge, width, height)
	}
	return nil
}

// Errors of this package; they are wrapped with the details.
var (
	// ErrUnknown: not an image, or one of an unknown format.
	ErrUnknown = errors.New("not a known image format")
	// ErrUnsupported: a known format that is not supported, such as a palette that is run-length encoded.
	ErrUnsupported = errors.New("image format is not supported")
	// ErrTooLarge: a limit of bytes, pixels, or complexity is exceeded.
	ErrTooLarge = errors.New("image is too large")
	// ErrMalformed: the file has the format's signature, but is broken.
	ErrMalformed = errors.New("image is malformed")
)

// Info is the information in an image's header.
type Info struct {
	Format Format
	// Width and Height are in pixels. For an ICO they belong to the entry that Decode would take, for a JPEG or AVIF
	// those after its orientation is applied, for a vector 0.
	Width, Height int
}

// Probe returns the format and size of a file within the default limits, reading only its header. Of a vector it
// returns the format; package svg reads the rest. With ErrTooLarge and ErrUnsupported the format is still returned.
func Probe(data []byte) (Info, error) { return ProbeWithin(data, Limits{}) }

// ProbeWithin is Probe with other limits.
func ProbeWithin(data []byte, limits Limits) (info Info, err error) {
	limits = limits.withDefaults()
	info.Format = Sniff(data)
	if info.Format == "" {
		return Info{}, ErrUnknown
	}
	if len(data) > limits.Bytes {
		return info, fmt.Errorf("%w: %d bytes", ErrTooLarge, len(data))
	}
	err = Guarded("codec", func() (err error) {
		info.Width, info.Height, err = size(info.Format, data, limits)
		return err
	})
	if err == nil && !info.Format.IsVector() {
		err = limits.check(info.Width, info.Height)
	}
	if err != nil {
		return Info{Format: info.Format}, fmt.Errorf("probe %s: %w", info.Format, err)
	}
	return info, nil
}

// Guarded turns a panic of a codec or another reader of images into ErrMalformed. They process hostile images here, and
// a panic must not end the process.
func Guarded(reader string, work func() error) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("%w: %s failed: %v", ErrMalformed, reader, p)
		}
	}()
	return work()
}

// size parses a header. Decoders' own errors are returned as ErrMalformed.
func size(format Format, data []byte, limits Limits) (width, height int, err error) {
	switch format {
	case PNG, JPEG, GIF:
		c, _, err := image.DecodeConfig(bytes.NewReader(data))
		if err == nil && format == JPEG && jpegOrientation(data).swapsSides() {
			c.Width, c.Height = c.Height, c.Width
		}
		return c.Width, c.Height, malformed(err)
	case WebP:
		if frames, canvas := webpFrames(data); frames != nil {
			return canvas.X, canvas.Y, nil
		}
		still, err := firstWebPFrame(data)
		if err != nil {
			return 0, 0, err
		}
		c, err := webp.DecodeConfig(bytes.NewReader(still))
		return c.Width, c.Height, malformed(err)
	case BMP:
		h, err := parseBMP(data)
		return h.width, h.height, err
	case ICO:
		best, err := largestEntry(data, limits)
		return best.width, best.height, err
	case AVIF:
		h, turned, err := avifHeader(data)
		if turned.swapsSides() {
			h.Width, h.Height = h.Height, h.Width
		}
		return h.Width, h.Height, err
	case SVG, SVGZ:
		return 0, 0, nil
	}
	return 0, 0, ErrUnsupported
}

func malformed(err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%w: %w", ErrMalformed, err)
}

// Sniff returns the format according to the first bytes, or "".
func Sniff(data []byte) Format {
	has := func(at int, magic string) bool {
		return len(data) >= at+len(magic) && string(data[at:at+len(magic)]) == magic
	}
	switch {
	case has(0, "\x89PNG\r\n\x1a\n"):
		return PNG
	case has(0, "\xff\xd8\xff"):
		return JPEG
	case has(0, "GIF87a"), has(0, "GIF89a"):
		return GIF
	case has(0, "RIFF") && has(8, "WEBP"):
		return WebP
	case has(0, "BM") && len(data) >= bmpFileHeader+dibCoreHeader &&
		isDIBHeader(binary.LittleEndian.Uint32(data[bmpFileHeader:])):
		return BMP
	case isICO(data):
		return ICO
	case has(4, "ftyp") && (has(8, "avif") || has(8, "avis") || has(8, "mif1")):
		return AVIF
	case has(0, "\x1f\x8b") && isSVGZ(data):
		return SVGZ
	case isSVG(data):
		return SVG
	}
	return ""
}

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
