package account

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"letterhead/eventschemas"
)

func TestKeys(t *testing.T) {
	given(t, opened).
		when(issueKey("k1", keyA)).then(eventschemas.KeyIssued{KeyID: "k1", Hash: keyA, Last4: "aB3d", Kind: "secret"}).
		when(issueKey("k1", keyA)).isRepeated().
		when(issueKey("k1", keyB)).rejected(ErrKeyExists).
		when(revokeKey("k2")).rejected(ErrUnknownKey).
		when(revokeKey("k1")).then(eventschemas.KeyRevoked{KeyID: "k1"}).
		when(revokeKey("k1")).isRepeated().
		when(issueKey("k1", keyA)).isRepeated()
}

func TestValidKeys_AreLimited(t *testing.T) {
	s := given(t, opened)
	for i := range MaxKeys {
		s.and(eventschemas.KeyIssued{KeyID: fmt.Sprint("k", i), Hash: keyA, Last4: "aB3d", Kind: "secret"})
	}
	s.when(issueKey("one more", keyB)).rejected(ErrTooManyKeys).
		and(eventschemas.KeyRevoked{KeyID: "k0"}).
		when(issueKey("one more", keyB))
	if s.err != nil {
		t.Fatal(s.err)
	}
}

// limited is the event of a publishable key with terms.
func limited(id string, expires time.Time, scopes, origins []string) eventschemas.KeyIssued {
	ev := eventschemas.KeyIssued{KeyID: id, Hash: keyB, Last4: "aB3d", Kind: "publishable", Scopes: scopes, Origins: origins}
	if !expires.IsZero() {
		ev.ExpiresAt = &expires
	}
	return ev
}

func TestKeyTerms_Issued_AreCanonical(t *testing.T) {
	expires := start.Add(time.Hour)
	elsewhere := expires.In(time.FixedZone("", 3600)).Add(999 * time.Nanosecond)
	terms := KeyTerms{
		ExpiresAt: elsewhere, Scopes: []string{ScopeSearch, ScopeLogos, ScopeSearch},
		Origins: []string{"https://www.Acme.com:443/", "https://*.acme.com", "https://www.acme.com"},
	}
	given(t, opened).
		when(issueLimited("k1", terms)).
		then(limited("k1", expires, []string{"logos", "search"}, []string{"https://*.acme.com", "https://www.acme.com"}))
	given(t, opened).
		when(issuing(IssueKey{KeyID: "k1", Hash: keyA, Last4: "aB3d", Kind: "secret", Terms: KeyTerms{ExpiresAt: expires}})).
		then(eventschemas.KeyIssued{KeyID: "k1", Hash: keyA, Last4: "aB3d", Kind: "secret", ExpiresAt: &expires})
}

func TestIssueKey_SameKeyOtherTerms_IsRejected(t *testing.T) {
	terms := KeyTerms{ExpiresAt: start.Add(time.Hour), Scopes: []string{ScopeSearch}, Origins: []string{"https://acme.com"}}
	s := given(t, opened).when(issueLimited("k1", terms)).then(limited("k1", terms.ExpiresAt, terms.Scopes, terms.Origins)).
		when(issueLimited("k1", KeyTerms{ExpiresAt: terms.ExpiresAt, Scopes: terms.Scopes, Origins: []string{"https://ACME.com/"}})).isRepeated()
	for name, other := range map[string]KeyTerms{
		"none":    {},
		"expiry":  {ExpiresAt: terms.ExpiresAt.Add(time.Second), Scopes: terms.Scopes, Origins: terms.Origins},
		"scopes":  {ExpiresAt: terms.ExpiresAt, Origins: terms.Origins},
		"origins": {ExpiresAt: terms.ExpiresAt, Scopes: terms.Scopes, Origins: []string{"https://acme.com", "https://www.acme.com"}},
	} {
		t.Log(name)
		s.when(issueLimited("k1", other)).rejected(ErrKeyExists)
	}
	s.now = terms.ExpiresAt.Add(time.Hour)
	s.when(issueLimited("k1", terms)).isRepeated()
}

func TestIssueKey_BadTerms_ErrorSaysWhatToDo(t *testing.T) {
	many := make([]string, MaxKeyOrigins+1)
	for i := range many {
		many[i] = fmt.Sprintf("https://shop-%d.acme.com", i)
	}
	for want, in := range map[string]IssueKey{
		"is in the past; choose a later time":                  {Kind: "secret", Terms: KeyTerms{ExpiresAt: start}},
		"more than 100 years away; choose an earlier time":     {Kind: "secret", Terms: KeyTerms{ExpiresAt: start.Add(MaxKeyLife + time.Hour)}},
		"key kind must be publishable for a key with scopes":   {Kind: "secret", Terms: KeyTerms{Scopes: []string{ScopeLogos}}},
		"must be publishable for a key with scopes or origins": {Kind: "secret", Terms: KeyTerms{Origins: []string{"https://acme.com"}}},
		`scope must be logos or search, not "lookups"`:         {Kind: "publishable", Terms: KeyTerms{Scopes: []string{"lookups"}}},
		`origin "acme.com" has no scheme; write https://host`:  {Kind: "publishable", Terms: KeyTerms{Origins: []string{"https://acme.com", "acme.com"}}},
		"origins must be at most 16, not 17":                   {Kind: "publishable", Terms: KeyTerms{Origins: many}},
	} {
		in.KeyID, in.Hash, in.Last4 = "k1", keyA, "aB3d"
		s := given(t, opened)
		s.now = start
		if s.when(issuing(in)).rejected(ErrInvalid); !strings.Contains(s.err.Error(), want) {
			t.Errorf("%v, want an error with %q", s.err, want)
		}
	}
}

func TestValidKeys_Expired_AreNotCounted(t *testing.T) {
	s := given(t, opened)
	expires := start.Add(24 * time.Hour)
	for i := range MaxKeys {
		s.and(limited(fmt.Sprint("k", i), expires, nil, nil))
	}
	s.when(issueKey("one more", keyB)).rejected(ErrTooManyKeys)
	s.now = expires
	s.when(issueKey("one more", keyB)).then(eventschemas.KeyIssued{KeyID: "one more", Hash: keyB, Last4: "aB3d", Kind: "secret"}).
		when(revokeKey("k0")).then(eventschemas.KeyRevoked{KeyID: "k0"})
}

func TestKeyTerms_Use(t *testing.T) {
	terms := KeyTerms{ExpiresAt: start, Scopes: []string{ScopeLogos}, Origins: []string{"https://acme.com"}}
	for _, c := range []struct {
		name      string
		got, want bool
	}{
		{"a moment before the expiry", terms.Expired(start.Add(-time.Microsecond)), false},
		{"at the expiry", terms.Expired(start), true},
		{"no expiry", KeyTerms{}.Expired(start), false},
		{"its scope", terms.InScope(ScopeLogos), true},
		{"another scope", terms.InScope(ScopeSearch), false},
		{"no scopes", KeyTerms{}.InScope(ScopeSearch), true},
		{"its origin", terms.FromOrigin("https://acme.com"), true},
		{"another origin", terms.FromOrigin("https://evil.example"), false},
		{"no origin sent", terms.FromOrigin(""), false},
		{"no origins", KeyTerms{}.FromOrigin(""), true},
	} {
		if c.got != c.want {
			t.Errorf("%s: %v, want %v", c.name, c.got, c.want)
		}
	}
}
