package contentcoding_test

import (
	"bytes"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"

	"letterhead/internal/contentcoding"
	"letterhead/internal/testmust"
)

const (
	identity = contentcoding.Identity
	gzipped  = contentcoding.Gzip
	zstded   = contentcoding.Zstd
)

func TestAccepted_Headers_ChooseBestCoding(t *testing.T) {
	for _, c := range []struct {
		headers []string
		want    contentcoding.Coding
		needed  bool
	}{
		{nil, identity, false},
		{[]string{""}, identity, false},
		{[]string{"gzip, deflate, br, zstd"}, zstded, false}, // Chrome 123 and later
		{[]string{"gzip, deflate, br"}, gzipped, false},
		{[]string{"gzip"}, gzipped, false}, // Go
		{[]string{"X-GZIP"}, gzipped, false},
		{[]string{"deflate", "gzip"}, gzipped, false},
		{[]string{"gzip;q=0.8, zstd;q=0.5"}, gzipped, false},
		{[]string{"gzip;q=0.5, zstd;q=0.5"}, zstded, false},
		{[]string{"gzip;q=0, zstd;q=0"}, identity, false},
		{[]string{"zstd;q=0, *"}, gzipped, false},
		{[]string{"gzip;q=0, *"}, identity, false},
		{[]string{"*"}, gzipped, false},
		{[]string{"identity, gzip;q=0.5"}, identity, false},
		{[]string{"identity;q=0.5, gzip;Q = 1.0"}, gzipped, false},
		{[]string{"identity;q=0, gzip"}, gzipped, true},
		{[]string{"*;q=0, zstd"}, zstded, true},
		{[]string{"identity;q=0"}, identity, false},
		{[]string{"*;q=0"}, identity, false},
		{[]string{"gzip;q=2"}, identity, false},
		{[]string{"gzip;q=NaN"}, identity, false},
		{[]string{"gzip;q=-1"}, identity, false},
	} {
		if got, needed := contentcoding.Accepted(c.headers); got != c.want || needed != c.needed {
			t.Errorf("%q: %q, needed %t; want %q, %t", c.headers, got, needed, c.want, c.needed)
		}
	}
}

func TestChoose_TypeAndSize_DecideAndSetVary(t *testing.T) {
	const json, large = "application/json; charset=utf-8", contentcoding.MinSize
	for _, c := range []struct {
		contentType  string
		size         int
		accept, vary string
		want         contentcoding.Coding
	}{
		{json, large, "gzip", "Accept-Encoding", gzipped},
		{json, large, "", "Accept-Encoding", identity},
		{json, large - 1, "gzip", "", identity},
		{json, large - 1, "gzip, identity;q=0", "Accept-Encoding", gzipped},
		{json, 0, "gzip, identity;q=0", "", identity},
		{"image/svg+xml", large, "zstd", "Accept-Encoding", zstded},
		{"image/png", large, "gzip", "", identity},
		{"image/x-icon", large, "gzip, identity;q=0", "", identity},
		{"text/csv; charset=utf-8", large, "gzip", "Accept-Encoding", gzipped},
	} {
		h := http.Header{}
		if got := contentcoding.Choose(h, accepts(c.accept), c.contentType, c.size); got != c.want || h.Get("Vary") != c.vary {
			t.Errorf("%+v: %q, Vary %q", c, got, h.Get("Vary"))
		}
	}
	shared := []string{"Accept"}
	h := http.Header{"Vary": shared}
	for range 2 {
		contentcoding.Choose(h, nil, json, large)
	}
	if got := h.Values("Vary"); len(got) != 1 || got[0] != "Accept, Accept-Encoding" || shared[0] != "Accept" {
		t.Errorf("Vary %q, shared slice %q", got, shared)
	}
}

func accepts(header string) []string {
	if header == "" {
		return nil
	}
	return []string{header}
}

func TestEncode_EveryCoding_DecodesToSameBytes(t *testing.T) {
	body := []byte(strings.Repeat(`{"name":"Acme","tags":[]},`, 1000))
	for range 2 { // also with a writer of the pool
		for _, c := range []contentcoding.Coding{identity, gzipped, zstded} {
			coded := c.Encode(body)
			if got := decoded(t, c, coded); !bytes.Equal(got, body) || c != identity && len(coded) > len(body)/10 {
				t.Errorf("%q: %d bytes decode to %d of %d", c, len(coded), len(got), len(body))
			}
		}
	}
}

func decoded(t *testing.T, c contentcoding.Coding, body []byte) []byte {
	t.Helper()
	var r io.Reader = bytes.NewReader(body)
	var err error
	switch c {
	case gzipped:
		r, err = gzip.NewReader(r)
	case zstded:
		r, err = zstd.NewReader(r)
	}
	testmust.Succeed(t, err)
	all := testmust.Get(io.ReadAll(r))(t)
	return all
}

func TestFile_Choose_SendsShorterForm(t *testing.T) {
	long := contentcoding.NewFile([]byte(strings.Repeat("User-agent: *\n", 100)))
	for accept, want := range map[string]contentcoding.Coding{"": identity, "gzip": gzipped, "gzip, zstd": zstded} {
		h := http.Header{}
		got, body := long.Choose(h, accepts(accept))
		if got != want || !bytes.Equal(decoded(t, got, body), long.Body) || h.Get("Vary") != "Accept-Encoding" {
			t.Errorf("Accept-Encoding %q: %q with %d bytes, header %v", accept, got, len(body), h)
		}
	}
	short := contentcoding.NewFile([]byte("x"))
	if got, body := short.Choose(http.Header{}, accepts("gzip")); got != identity || string(body) != "x" {
		t.Errorf("a file that does not get shorter: %q, %q", got, body)
	}
}

func TestMatch_IfNoneMatch_FindsTagOfAnyCoding(t *testing.T) {
	const etag = `"abc"`
	for _, c := range []struct {
		sent []string
		want string
	}{
		{nil, ""},
		{[]string{`"abc"`}, `"abc"`},
		{[]string{`W/"abc"`}, `"abc"`},
		{[]string{`"x", W/"abc-gzip"`}, `"abc-gzip"`},
		{[]string{`"x"`, `"abc-zstd"`}, `"abc-zstd"`},
		{[]string{"*"}, "*"},
		{[]string{`abc`}, ""},
		{[]string{`"abcd"`}, ""},
		{[]string{`"abc-br"`}, ""},
		{[]string{`w/"abc"`}, ""},
	} {
		if got := contentcoding.Match(c.sent, etag); got != c.want {
			t.Errorf("If-None-Match %q: %q, want %q", c.sent, got, c.want)
		}
	}
}

func FuzzAccepted(f *testing.F) {
	f.Add("gzip;q=0.5, *;q=0")
	f.Add("identity;q=0, zstd")
	f.Fuzz(func(t *testing.T, header string) {
		c, needed := contentcoding.Accepted([]string{header})
		lower := strings.ToLower(header)
		switch {
		case c == identity && needed, needed && !strings.Contains(lower, "q"):
			t.Fatalf("%q: %q, needed %t", header, c, needed)
		case c == zstded && !strings.Contains(lower, "zstd"), c == gzipped && !strings.Contains(lower, "gzip") && !strings.Contains(lower, "*"):
			t.Fatalf("%q: %q, which it does not name", header, c)
		}
	})
}
