package apikey

import (
	"bytes"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"math"
	"regexp"
	"strings"
	"testing"

	mathrand "math/rand/v2"

	"letterhead/internal/testmust"
)

func generate(t testing.TB, kind Kind) string {
	t.Helper()
	key := testmust.Get(Generate(kind, rand.Reader))(t)
	return key
}

func TestGenerate_KeysParse(t *testing.T) {
	shapes := map[Kind]*regexp.Regexp{
		Secret:      regexp.MustCompile(`^lh_sk_[0-9A-Za-z]{38}$`),
		Publishable: regexp.MustCompile(`^lh_pk_[0-9A-Za-z]{38}$`),
		Operator:    regexp.MustCompile(`^lh_op_[0-9A-Za-z]{38}$`),
	}
	for kind, shape := range shapes {
		for range 200 {
			key := generate(t, kind)
			if !shape.MatchString(key) {
				t.Fatalf("a %s key has the wrong shape (length %d)", kind, len(key))
			}
			got := testmust.Get(Parse(key))(t)
			want := Key{Kind: kind, Hash: sha256.Sum256([]byte(key)), Last4: key[len(key)-4:]}
			if got != want {
				t.Fatalf("Parse = %+v, want %+v", got, want)
			}
			if got.HashHex() != hex.EncodeToString(want.Hash[:]) {
				t.Fatalf("HashHex = %s", got.HashHex())
			}
		}
	}
}

// The format must never change, because issued keys would become invalid. The expected checksum was computed
// by another implementation (zlib in Python).
func TestKey_FormatIsStable(t *testing.T) {
	key := testmust.Get(Generate(Secret, bytes.NewReader(make([]byte, randomLength))))(t)
	body := "lh_sk_" + strings.Repeat("0", 32)
	n := uint64(crc32.ChecksumIEEE([]byte(body)))
	want := ""
	for range 6 {
		want = string("0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"[n%62]) + want
		n /= 62
	}
	if key != body+want || n != 0 {
		t.Fatalf("key = %s, want %s", key, body+want)
	}
	if key != "lh_sk_000000000000000000000000000000001tMXUl" {
		t.Fatalf("Parse rejects a key of the fixed format: %s", key)
	}
}

// Rule 13.
func TestParse_ChangedCharacter_IsMalformed(t *testing.T) {
	for _, kind := range []Kind{Secret, Publishable, Operator} {
		key := generate(t, kind)
		for at := range len(key) {
			for c := range 256 {
				if byte(c) == key[at] {
					continue
				}
				changed := key[:at] + string([]byte{byte(c)}) + key[at+1:]
				if _, err := Parse(changed); !errors.Is(err, ErrMalformed) {
					t.Fatalf("character %d replaced by %#x: %v", at, c, err)
				}
			}
		}
	}
}

func TestParse_SwappedNeighbors_IsMalformed(t *testing.T) {
	key := generate(t, Secret)
	for at := range len(key) - 1 {
		if key[at] == key[at+1] {
			continue
		}
		changed := key[:at] + string([]byte{key[at+1], key[at]}) + key[at+2:]
		if _, err := Parse(changed); !errors.Is(err, ErrMalformed) {
			t.Fatalf("characters %d and %d swapped: %v", at, at+1, err)
		}
	}
}

func TestParse_Malformed_Fails(t *testing.T) {
	key := generate(t, Secret)
	for name, s := range map[string]string{
		"empty":           "",
		"prefix alone":    "lh_sk_",
		"short":           key[:len(key)-1],
		"long":            key + "0",
		"leading space":   " " + key,
		"trailing line":   key + "\n",
		"upper prefix":    "LH_SK_" + key[6:],
		"unknown kind":    "lh_xk_" + key[6:],
		"other kind":      "lh_pk_" + key[6:],
		"no random part":  key[:6] + key[38:],
		"padded with NUL": key[:43] + "\x00",
		"multibyte":       key[:40] + "éé",
		"very long":       strings.Repeat(key, 10_000),
	} {
		got, err := Parse(s)
		if !errors.Is(err, ErrMalformed) || got != (Key{}) {
			t.Errorf("%s: %+v, %v", name, got, err)
		}
		if err != nil && s != "" && strings.Contains(err.Error(), s) {
			t.Errorf("%s: the error quotes its input", name)
		}
	}
}

// Rule 13.
func TestErrorsAndKey_OmitKey(t *testing.T) {
	key := generate(t, Secret)
	parsed, err := Parse(key)
	testmust.Succeed(t, err)
	for _, format := range []string{"%v", "%+v", "%#v", "%s"} {
		if out := fmt.Sprintf(format, parsed); strings.Contains(out, key[6:38]) {
			t.Errorf("%s prints the key", format)
		}
	}
	_, err = Generate("root", rand.Reader)
	if !errors.Is(err, ErrUnknownKind) {
		t.Errorf("unknown kind: %v", err)
	}
}

func TestGenerate_BrokenRandomSource_Fails(t *testing.T) {
	for name, source := range map[string]io.Reader{
		"empty":        bytes.NewReader(nil),
		"ends early":   bytes.NewReader(make([]byte, randomLength-1)),
		"never usable": &constant{b: 0xff},
	} {
		key, err := Generate(Secret, source)
		if !errors.Is(err, ErrRandom) || key != "" {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// constant is a reader that returns the same byte forever.
type constant struct{ b byte }

func (c *constant) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = c.b
	}
	return len(p), nil
}

// Every character must be equally likely. The limit of 120 is above the 99.9th percentile of chi-squared with
// 61 degrees of freedom (100.9); a plain byte % 62 gives over 2,000. The seed is fixed, so the result is too.
func TestGenerate_CharactersAreUnbiased(t *testing.T) {
	seed := [32]byte{1}
	source := mathrand.NewChaCha8(seed)
	counts := map[byte]int{}
	const keys = 5_000
	for range keys {
		key := testmust.Get(Generate(Secret, source))(t)
		for i := 6; i < 38; i++ {
			counts[key[i]]++
		}
	}
	expected := float64(keys*32) / 62
	chi := 0.0
	for i := range len(alphabet) {
		chi += math.Pow(float64(counts[alphabet[i]])-expected, 2) / expected
	}
	if chi > 120 {
		t.Fatalf("chi squared %.1f over 62 characters (seed %v)", chi, seed)
	}
}

func FuzzParse(f *testing.F) {
	secret, publishable := generate(f, Secret), generate(f, Publishable)
	f.Add(secret)
	f.Add(publishable)
	f.Add(secret[:43])
	f.Add("lh_pk_" + secret[6:])
	f.Add("")
	f.Add("lh_sk_" + strings.Repeat("\xff", 38))
	f.Fuzz(func(t *testing.T, s string) {
		key, err := Parse(s)
		if err != nil {
			if !errors.Is(err, ErrMalformed) || key != (Key{}) {
				t.Fatalf("Parse = %+v, %v; want no key and ErrMalformed", key, err)
			}
			return
		}
		if key.Hash != sha256.Sum256([]byte(s)) || !strings.HasSuffix(s, key.Last4) || len(s) != Length {
			t.Fatalf("Parse = %+v, which does not match the key", key)
		}
		// Every accepted key has exactly one spelling.
		sum := checksum([]byte(s[:Length-checksumLength]))
		if s[Length-checksumLength:] != string(sum[:]) {
			t.Fatal("Parse accepted a checksum that is not canonical")
		}
	})
}
