package requestbody_test

import (
	"bytes"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"

	"letterhead/internal/requestbody"
)

const (
	limit = 1 << 10
	text  = `{"a":"é😀"}`
)

func gzipped(body string) string {
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	_, _ = w.Write([]byte(body))
	_ = w.Close()
	return b.String()
}

func zstandard(body string) string {
	w, err := zstd.NewWriter(nil)
	if err != nil {
		panic(err)
	}
	return string(w.EncodeAll([]byte(body), nil))
}

func decode(encoding, contentType, body string) (string, error) {
	h := http.Header{"Content-Type": {contentType}}
	if encoding != "" {
		h.Set("Content-Encoding", encoding)
	}
	got, err := requestbody.Read(nil, &http.Request{Header: h, Body: io.NopCloser(strings.NewReader(body))}, limit)
	return string(got), err
}

func TestRead_EncodingsAndCharsets_AreDecoded(t *testing.T) {
	const big, little = "\x00{\x00}", "{\x00}\x00"
	for _, c := range []struct{ encoding, contentType, body, want string }{
		{"", "application/json", text, text}, {"identity", "", text, text}, {"gzip", "application/json", gzipped(text), text}, {"X-GZIP", "", gzipped(text), text},
		{"zstd", "", zstandard(text), text}, {"", "application/json; charset=UTF-8", text, text}, {"", "", "\ufeff" + text, text}, {"gzip", "", gzipped("\ufeff" + text), text},
		{"", "", "\xfe\xff" + big, "{}"}, {"", "", "\xff\xfe" + little, "{}"}, {"", "application/json; charset=utf-16", big, "{}"}, {"", "application/json;charset=\"UTF-16LE\"", little, "{}"},
		{"", "application/json; charset=utf-16le", "\x3d\xd8\x00\xde", "😀"}, {"", "a/b; charset=utf-16", "\xff\xfd", "\ufffd"}, {"", "broken;;;", text, text}, {"gzip", "", "", ""},
	} {
		if got, err := decode(c.encoding, c.contentType, c.body); err != nil || got != c.want {
			t.Errorf("%q, %q, %q: %q, %v; want %q", c.encoding, c.contentType, c.body, got, err, c.want)
		}
	}
}

func TestRead_Unreadable_IsRefusedWithReason(t *testing.T) {
	for _, c := range []struct{ encoding, contentType, body, says string }{
		{"br", "", text, "gzip or zstd"}, {"deflate", "", text, "gzip or zstd"}, {"gzip, zstd", "", text, "gzip or zstd"}, {"gzip", "", text, "not in its Content-Encoding"},
		{"gzip", "", gzipped(text)[:20], "not in its Content-Encoding"}, {"zstd", "", "x", "not in its Content-Encoding"},
		{"", "application/json; charset=iso-8859-1", text, "UTF-8"}, {"", "a/b; charset=utf-16", "\xd8\x00", "UTF-16"}, {"", "", "\xff\xfe{", "UTF-16"},
	} {
		got, err := decode(c.encoding, c.contentType, c.body)
		if refusal := new(*requestbody.RefusedError); !errors.As(err, refusal) || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%q, %q, %q: %q, %v; want a refusal that says %q", c.encoding, c.contentType, c.body, got, err, c.says)
		}
	}
}

// A small body can expand to gigabytes.
func TestRead_LargerThanLimit_Fails(t *testing.T) {
	bomb := strings.Repeat("a", 64<<20)
	for encoding, body := range map[string]string{"gzip": gzipped(bomb), "zstd": zstandard(bomb), "": bomb[:limit+1]} {
		if _, err := decode(encoding, "", body); !errors.Is(err, requestbody.ErrTooLarge) {
			t.Errorf("%q: %v, want %v", encoding, err, requestbody.ErrTooLarge)
		}
	}
	if got, err := decode("gzip", "", gzipped(bomb[:limit])); err != nil || len(got) != limit {
		t.Errorf("a body of the limit: %d bytes, %v", len(got), err)
	}
}

func FuzzRead(f *testing.F) {
	f.Add("gzip", "application/json", []byte(gzipped(text)))
	f.Add("zstd", "application/json; charset=utf-16", []byte(zstandard("\x00{\x00}")))
	f.Add("", "a/b; charset=utf-16le", []byte("\x3d\xd8\x00\xde\xff"))
	f.Fuzz(func(t *testing.T, encoding, contentType string, body []byte) {
		if got, err := decode(encoding, contentType, string(body)); len(got) > limit || err != nil && got != "" {
			t.Errorf("%d bytes, %v", len(got), err)
		}
	})
}
