package account

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"
	"time"

	"letterhead/domain/origin"
	"letterhead/eventschemas"
)

// Scopes of publishable keys.
const (
	ScopeLogos  = "logos"
	ScopeSearch = "search"
)

// KeyScopes are all scopes.
var KeyScopes = []string{ScopeLogos, ScopeSearch}

const (
	// MaxKeyOrigins limits the allowed origins of a key, which nodes keep in memory.
	MaxKeyOrigins = 16
	// MaxKeyLife limits the time until a key expires.
	MaxKeyLife = 100 * 365 * 24 * time.Hour
)

// keyKinds are the kinds of keys in the API.
var keyKinds = []string{secretKey, publishableKey}

const (
	secretKey      = "secret"
	publishableKey = "publishable"
)

// KeyTerms limit a key. The zero KeyTerms do not.
type KeyTerms struct {
	// ExpiresAt is when the key stops being valid; zero if it does not.
	ExpiresAt time.Time `json:"expires_at,omitzero"`
	// Scopes are what a publishable key may be used for; none for everything.
	Scopes []string `json:"scopes,omitempty"`
	// Origins are the sites whose pages may use a publishable key; none for all. origin.Parse has their form.
	Origins []string `json:"origins,omitempty"`
}

// Expired reports whether the key is no longer valid.
func (t KeyTerms) Expired(now time.Time) bool {
	return !t.ExpiresAt.IsZero() && !now.Before(t.ExpiresAt)
}

// InScope reports whether the key may be used for a scope.
func (t KeyTerms) InScope(scope string) bool {
	return len(t.Scopes) == 0 || slices.Contains(t.Scopes, scope)
}

// FromOrigin reports whether the pages of an origin, as a browser sends it, may use the key.
func (t KeyTerms) FromOrigin(sent string) bool {
	return len(t.Origins) == 0 || origin.Allows(t.Origins, sent)
}

// ForLogo reports whether the key may be used for a logo on a page of an origin, or of an unknown one, "": browsers
// leave Referer out at the wish of the page or its visitor.
func (t KeyTerms) ForLogo(page string) bool {
	return t.InScope(ScopeLogos) && (page == "" || t.FromOrigin(page))
}

// Canonical returns the terms of a key of a kind in the form that events contain: distinct, sorted scopes and origins.
// Errors: ErrInvalid.
func (t KeyTerms) Canonical(kind string) (KeyTerms, error) {
	out := KeyTerms{Scopes: distinct(slices.Clone(t.Scopes))}
	if !t.ExpiresAt.IsZero() {
		out.ExpiresAt = t.ExpiresAt.UTC().Truncate(time.Microsecond)
	}
	if !slices.Contains(keyKinds, kind) {
		return out, &InvalidError{Field: "key kind",
			Reason: fmt.Sprintf("must be secret or publishable, not %.40q", kind)}
	}
	if kind != publishableKey && len(t.Scopes)+len(t.Origins) > 0 {
		return out, &InvalidError{Field: "key kind",
			Reason: "must be publishable for a key with scopes or origins; a secret key is for servers and has neither"}
	}
	for _, scope := range t.Scopes {
		if !slices.Contains(KeyScopes, scope) {
			return out, &InvalidError{Field: "scope",
				Reason: fmt.Sprintf("must be %s, not %.40q", strings.Join(KeyScopes, " or "), scope)}
		}
	}
	if len(t.Origins) > MaxKeyOrigins {
		return out, &InvalidError{Field: "origins", Reason: fmt.Sprintf(
			"must be at most %d, not %d; a wildcard such as https://*.acme.com covers several hosts",
			MaxKeyOrigins, len(t.Origins))}
	}
	for _, text := range t.Origins {
		one, err := origin.Parse(text)
		if err != nil {
			return out, &InvalidError{Field: "origin", Reason: err.Error()}
		}
		out.Origins = append(out.Origins, one)
	}
	out.Origins = distinct(out.Origins)
	return out, nil
}

// checkExpiry returns an error for a key that would expire too early or too late.
func (t KeyTerms) checkExpiry(now time.Time) error {
	switch {
	case t.Expired(now):
		return &InvalidError{Field: "expiry",
			Reason: fmt.Sprintf("%s is in the past; choose a later time, or none for a key that does not expire",
				t.ExpiresAt.Format(time.RFC3339))}
	case !t.ExpiresAt.IsZero() && t.ExpiresAt.Sub(now) > MaxKeyLife:
		return &InvalidError{Field: "expiry", Reason: fmt.Sprintf(
			"%s is more than 100 years away; choose an earlier time, or none for a key that does not expire",
			t.ExpiresAt.Format(time.RFC3339))}
	}
	return nil
}

// distinct sorts a list and drops repeated elements.
func distinct(list []string) []string {
	slices.Sort(list)
	return slices.Compact(list)
}

// key is a key that was issued.
type key struct {
	Hash      string    `json:"hash"`
	Last4     string    `json:"last4"`
	Kind      string    `json:"kind"`
	Revoked   bool      `json:"revoked"`
	ExpiresAt time.Time `json:"expires_at,omitzero"`
	Terms     string    `json:"terms,omitempty"` // digest of scopes and origins, which may be long
}

func keyOf(ev eventschemas.KeyIssued) key {
	k := key{Hash: ev.Hash, Last4: ev.Last4, Kind: ev.Kind}
	if ev.ExpiresAt != nil {
		k.ExpiresAt = ev.ExpiresAt.UTC()
	}
	if len(ev.Scopes)+len(ev.Origins) > 0 {
		sum := sha256.Sum256([]byte(strings.Join(ev.Scopes, " ") + "\n" + strings.Join(ev.Origins, " ")))
		k.Terms = hex.EncodeToString(sum[:16])
	}
	return k
}

// IssueKey is the command to issue a key.
type IssueKey struct {
	KeyID string
	Hash  string // hex SHA-256 of the whole key
	Last4 string
	Kind  string // secret, publishable
	Terms KeyTerms
}

// IssueKey makes a key valid. The same key under the same id is a repeat, even after it was revoked or has expired.
// Errors: ErrInvalid, ErrNotFound, ErrClosed, ErrKeyExists, ErrTooManyKeys.
func (a *Account) IssueKey(in IssueKey, now time.Time) (Outcome, error) {
	if err := firstError(text("key id", in.KeyID, true), hexHash("key hash", in.Hash), a.notClosed()); err != nil {
		return Outcome{}, err
	}
	if len(in.Last4) != 4 {
		return Outcome{}, &InvalidError{Field: "last4", Reason: "must be four characters"}
	}
	terms, err := in.Terms.Canonical(in.Kind)
	if err != nil {
		return Outcome{}, err
	}
	issued := eventschemas.KeyIssued{KeyID: in.KeyID, Hash: in.Hash, Last4: in.Last4, Kind: in.Kind,
		Scopes: terms.Scopes, Origins: terms.Origins}
	if !terms.ExpiresAt.IsZero() {
		issued.ExpiresAt = &terms.ExpiresAt
	}
	if known, ok := a.keys[in.KeyID]; ok {
		same := keyOf(issued)
		same.Last4, same.Revoked = known.Last4, known.Revoked
		if known != same {
			return Outcome{}, ErrKeyExists
		}
		return repeated(), nil
	}
	if err := terms.checkExpiry(now); err != nil {
		return Outcome{}, err
	}
	if a.core.validKeys >= MaxKeys && a.validKeys(now) >= MaxKeys {
		return Outcome{}, ErrTooManyKeys
	}
	return decided(issued), nil
}

// validKeys returns the number of keys that are neither revoked nor expired.
func (a *Account) validKeys(now time.Time) int {
	n := 0
	for _, k := range a.keys {
		if !k.Revoked && !(KeyTerms{ExpiresAt: k.ExpiresAt}).Expired(now) {
			n++
		}
	}
	return n
}

// RevokeKey revokes a key forever, even if the account is suspended or closed. Errors: ErrInvalid,
// ErrNotFound, ErrUnknownKey.
func (a *Account) RevokeKey(keyID string) (Outcome, error) {
	if err := firstError(text("key id", keyID, true), a.exists()); err != nil {
		return Outcome{}, err
	}
	known, ok := a.keys[keyID]
	if !ok {
		return Outcome{}, ErrUnknownKey
	}
	if known.Revoked {
		return repeated(), nil
	}
	return decided(eventschemas.KeyRevoked{KeyID: keyID}), nil
}

// hexHash validates a SHA-256 hash in lower-case hex.
func hexHash(field, value string) error {
	if len(value) != 64 {
		return &InvalidError{Field: field, Reason: "must be 64 hex digits"}
	}
	if strings.Trim(value, "0123456789abcdef") != "" {
		return &InvalidError{Field: field, Reason: "must be 64 lower-case hex digits"}
	}
	return nil
}
