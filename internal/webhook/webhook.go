// Package webhook signs webhooks as Standard Webhooks specify (https://www.standardwebhooks.com), with Ed25519:
// receivers verify them with a public key, and share no secret with the sender.
package webhook

import (
	"bytes"
	"crypto/ed25519"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"
)

// Headers of a webhook.
const (
	IDHeader        = "Webhook-Id" // the same in each attempt
	TimestampHeader = "Webhook-Timestamp"
	SignatureHeader = "Webhook-Signature"
)

// Prefixes of keys as text, and of a signature.
const (
	privatePrefix   = "whsk_"
	publicPrefix    = "whpk_"
	signaturePrefix = "v1a,"
)

// ErrKey means that a text is not a private key. It never has the text.
var ErrKey = errors.New("it is not a private key like whsk_…")

// Key signs webhooks. The zero Key signs nothing.
type Key struct{ private ed25519.PrivateKey }

// NewKey returns a new key.
func NewKey(random io.Reader) (Key, error) {
	_, private, err := ed25519.GenerateKey(random)
	return Key{private}, err
}

// ParseKey parses a private key. Errors: ErrKey.
func ParseKey(text string) (Key, error) {
	encoded, ok := strings.CutPrefix(strings.TrimSpace(text), privatePrefix)
	raw, err := base64.StdEncoding.Strict().DecodeString(encoded)
	if !ok || err != nil || len(raw) != ed25519.PrivateKeySize {
		return Key{}, ErrKey
	}
	// The second half is the public key; a wrong one would reveal the private key with the signatures.
	if !bytes.Equal(ed25519.NewKeyFromSeed(raw[:ed25519.SeedSize]), raw) {
		return Key{}, ErrKey
	}
	return Key{raw}, nil
}

// IsZero reports whether there is no key.
func (k Key) IsZero() bool { return k.private == nil }

// Private returns the key as text that ParseKey accepts.
func (k Key) Private() string { return privatePrefix + base64.StdEncoding.EncodeToString(k.private) }

// Public returns the public key as receivers take it.
func (k Key) Public() string {
	return publicPrefix + base64.StdEncoding.EncodeToString(k.private[ed25519.SeedSize:])
}

// String hides the key in logs.
func (k Key) String() string { return privatePrefix + "…" }

// Headers are the headers of an attempt to send a webhook.
func (k Key) Headers(id string, at time.Time, body []byte) map[string]string {
	timestamp := strconv.FormatInt(at.Unix(), 10)
	signed := fmt.Appendf(nil, "%s.%s.%s", id, timestamp, body)
	return map[string]string{
		IDHeader: id, TimestampHeader: timestamp,
		SignatureHeader: signaturePrefix + base64.StdEncoding.EncodeToString(ed25519.Sign(k.private, signed)),
	}
}
