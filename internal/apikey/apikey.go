// Package apikey makes and reads the keys that callers authenticate with.
//
// A key is its kind's prefix, 32 random base62 characters and 6 base62 characters of CRC32 (IEEE) over
// everything before them:
//
//	lh_sk_ 0fH3kQ…(32) 01aZ9c
//
// The checksum finds a mistyped key without a look-up; it is no secret. What is stored is the SHA-256
// of the whole key and its last four characters. Nothing in this package prints a key: Key holds none,
// and no error repeats its input.
package apikey

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"strings"
)

// Kind says what a key may do. The strings are those of the API and of the events.
type Kind string

// The kinds.
const (
	Secret      Kind = "secret"      // server side; spends credits
	Publishable Kind = "publishable" // front ends; search and logos only
)

// The parts of a key, in bytes.
const (
	secretPrefix      = "lh_sk_"
	publishablePrefix = "lh_pk_"
	prefixLength      = len(secretPrefix)
	randomLength      = 32
	checksumLength    = 6 // 62^6 is past 2^32, so that every CRC32 fits
	last4Length       = 4

	// Length is that of every key.
	Length = prefixLength + randomLength + checksumLength
)

const (
	alphabet = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"

	// fairBytes is the largest multiple of 62 that a byte can stay below: bytes past it are drawn again,
	// or the first characters of the alphabet would come up more often than the rest.
	fairBytes = 256 / len(alphabet) * len(alphabet)

	// maxDraws bounds how often random bytes are fetched for one key. Each draw of 32 bytes loses 3 % on
	// average; only a broken source needs more than a few.
	maxDraws = 64
)

// Errors.
var (
	// ErrMalformed means that the text cannot be a key: its length, prefix, alphabet or checksum is wrong.
	ErrMalformed = errors.New("malformed API key")
	// ErrUnknownKind means that there is no such kind of key.
	ErrUnknownKind = errors.New("unknown kind of API key")
	// ErrRandom means that the random source failed or does not look random.
	ErrRandom = errors.New("random source for API keys failed")
)

// Key is what may be known about a key after it was read: never the key itself.
type Key struct {
	Kind  Kind
	Hash  [sha256.Size]byte // of the whole key
	Last4 string            // its last four characters, for people to tell keys apart
}

// HashHex returns the hash as events carry it.
func (k Key) HashHex() string { return hex.EncodeToString(k.Hash[:]) }

// Generate makes a key from random bytes (crypto/rand.Reader outside of tests). The caller shows it once
// and keeps only what Parse tells about it.
//
// Errors: ErrUnknownKind, ErrRandom.
func Generate(kind Kind, random io.Reader) (string, error) {
	prefix, err := prefixOf(kind)
	if err != nil {
		return "", err
	}
	key := make([]byte, 0, Length)
	key = append(key, prefix...)
	key, err = appendRandom(key, random)
	if err != nil {
		return "", err
	}
	sum := checksum(key)
	return string(append(key, sum[:]...)), nil
}

func prefixOf(kind Kind) (string, error) {
	switch kind {
	case Secret:
		return secretPrefix, nil
	case Publishable:
		return publishablePrefix, nil
	default:
		return "", fmt.Errorf("%w %q: kinds are %s and %s", ErrUnknownKind, string(kind), Secret, Publishable)
	}
}

func appendRandom(key []byte, random io.Reader) ([]byte, error) {
	var draw [randomLength]byte
	want := len(key) + randomLength
	for range maxDraws {
		if _, err := io.ReadFull(random, draw[:]); err != nil {
			return nil, fmt.Errorf("%w: %w", ErrRandom, err)
		}
		for _, b := range draw {
			if int(b) < fairBytes {
				key = append(key, alphabet[int(b)%len(alphabet)])
			}
			if len(key) == want {
				return key, nil
			}
		}
	}
	return nil, fmt.Errorf("%w: nearly every byte of it is past %d", ErrRandom, fairBytes-1)
}

// Parse reads a key. Only the one spelling that Generate gives is accepted: the checksum is compared as
// text, so that no second text stands for the same number.
//
// Errors: ErrMalformed.
func Parse(s string) (Key, error) {
	if len(s) != Length {
		return Key{}, ErrMalformed
	}
	var kind Kind
	switch s[:prefixLength] {
	case secretPrefix:
		kind = Secret
	case publishablePrefix:
		kind = Publishable
	default:
		return Key{}, ErrMalformed
	}
	body := Length - checksumLength
	for i := prefixLength; i < body; i++ {
		if !isBase62(s[i]) {
			return Key{}, ErrMalformed
		}
	}
	if sum := checksum([]byte(s[:body])); string(sum[:]) != s[body:] {
		return Key{}, ErrMalformed
	}
	return Key{
		Kind:  kind,
		Hash:  sha256.Sum256([]byte(s)),
		Last4: strings.Clone(s[Length-last4Length:]), // a part of the key, not a window onto the whole
	}, nil
}

func isBase62(c byte) bool {
	return '0' <= c && c <= '9' || 'A' <= c && c <= 'Z' || 'a' <= c && c <= 'z'
}

// checksum returns the CRC32 of what stands before it, most significant digit first, with leading zeros.
func checksum(before []byte) [checksumLength]byte {
	n := crc32.ChecksumIEEE(before)
	var out [checksumLength]byte
	for i := checksumLength - 1; i >= 0; i-- {
		out[i] = alphabet[n%uint32(len(alphabet))]
		n /= uint32(len(alphabet))
	}
	return out
}
