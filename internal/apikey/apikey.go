// Package apikey generates and parses the API keys with which callers authenticate.
//
// A key is its kind's prefix, 32 random base62 characters and 6 base62 characters of CRC32 (IEEE) over
// everything before them:
//
//	lh_sk_ 0fH3kQ…(32) 01aZ9c
//
// The checksum detects a mistyped key without a lookup; it adds no security. The service stores the
// SHA-256 of the whole key and its last four characters. Nothing in this package prints a key: Key does not
// contain it, and no error quotes its input.
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

// Kind determines what a key may do. The API and the events use the same strings.
type Kind string

const (
	Secret      Kind = "secret"      // server side; spends credits
	Publishable Kind = "publishable" // front ends; search and logos only
	// Operator is the kind of the tokens of the admin API, which belong to no account.
	Operator Kind = "operator"
)

// Prefix is the beginning of every key.
const Prefix = "lh_"

// The parts of a key, in bytes.
const (
	secretPrefix      = Prefix + "sk_"
	publishablePrefix = Prefix + "pk_"
	operatorPrefix    = Prefix + "op_"
	prefixLength      = len(secretPrefix)
	randomLength      = 32
	checksumLength    = 6 // 62^6 exceeds 2^32, so that every CRC32 fits
	last4Length       = 4

	// Length is the length of every key.
	Length = prefixLength + randomLength + checksumLength
)

const (
	alphabet = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"

	// fairBytes is the largest multiple of 62 up to 256. Random bytes from there on are discarded, because
	// they would make the first characters of the alphabet more likely than the rest.
	fairBytes = 256 / len(alphabet) * len(alphabet)

	// maxDraws limits how often random bytes are read for one key. On average 3 % of the bytes are discarded,
	// so only a broken source needs more than a few reads.
	maxDraws = 64
)

var (
	// ErrMalformed means that the text cannot be a key: its length, prefix, alphabet or checksum is wrong.
	ErrMalformed = errors.New("malformed API key")
	// ErrUnknownKind means that the kind is neither Secret, Publishable nor Operator.
	ErrUnknownKind = errors.New("unknown kind of API key")
	// ErrRandom means that the random source failed or does not look random.
	ErrRandom = errors.New("random source for API keys failed")
)

// Key contains the parts of a parsed key that may be stored. It never contains the key itself.
type Key struct {
	Kind  Kind
	Hash  [sha256.Size]byte // of the whole key
	Last4 string            // its last four characters, so that people can distinguish keys
}

// HashHex returns the hash as events carry it.
func (k Key) HashHex() string { return hex.EncodeToString(k.Hash[:]) }

// Generate returns a key made from random bytes (crypto/rand.Reader outside of tests). The caller
// shows it once and stores only the result of Parse.
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
	case Operator:
		return operatorPrefix, nil
	default:
		return "", fmt.Errorf("%w %q: kinds are %s, %s and %s", ErrUnknownKind, string(kind), Secret,
			Publishable, Operator)
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
	return nil, fmt.Errorf("%w: nearly every byte is above %d", ErrRandom, fairBytes-1)
}

// Parse parses a key. It compares the checksum as text, so that each key has exactly one valid spelling.
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
	case operatorPrefix:
		kind = Operator
	default:
		return Key{}, ErrMalformed
	}
	body := Length - checksumLength
	for i := prefixLength; i < body; i++ {
		if !isBase62(s[i]) {
			return Key{}, ErrMalformed
		}
	}
	var key [Length]byte
	copy(key[:], s)
	if sum := checksum(key[:body]); string(sum[:]) != s[body:] {
		return Key{}, ErrMalformed
	}
	return Key{
		Kind:  kind,
		Hash:  sha256.Sum256(key[:]),
		Last4: strings.Clone(s[Length-last4Length:]), // a copy, which does not keep the whole key in memory
	}, nil
}

func isBase62(c byte) bool {
	return '0' <= c && c <= '9' || 'A' <= c && c <= 'Z' || 'a' <= c && c <= 'z'
}

// checksum returns the CRC32 of the preceding part, most significant digit first, with leading zeros.
func checksum(before []byte) [checksumLength]byte {
	n := crc32.ChecksumIEEE(before)
	var out [checksumLength]byte
	for i := checksumLength - 1; i >= 0; i-- {
		out[i] = alphabet[n%uint32(len(alphabet))]
		n /= uint32(len(alphabet))
	}
	return out
}
