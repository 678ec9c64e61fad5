package safehttp_test

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"strings"
	"testing"

	"letterhead/internal/safehttp"
	"letterhead/internal/testmust"
)

// texts is a resolver with TXT records.
type texts struct {
	records map[string][]string
	err     error
}

func (texts) LookupNetIP(context.Context, string, string) ([]netip.Addr, error) { return nil, nil }

func (r texts) LookupTXT(_ context.Context, name string) ([]string, error) {
	if r.err != nil {
		return nil, r.err
	}
	if found, ok := r.records[name]; ok {
		return found, nil
	}
	return nil, &net.DNSError{Err: "no such host", Name: name, IsNotFound: true}
}

func client(t *testing.T, r safehttp.Resolver) *safehttp.Client {
	t.Helper()
	c := testmust.Get(safehttp.New(safehttp.Config{Resolver: r}))(t)
	t.Cleanup(c.Close)
	return c
}

func TestTXTRecords(t *testing.T) {
	many := make([]string, 100)
	c := client(t, texts{records: map[string][]string{
		"default._bimi.acme.com": {"v=BIMI1; l=https://acme.com/b.svg", strings.Repeat("x", 1<<20)},
		"many.acme.com":          many,
	}})
	got, err := c.LookupTXT(t.Context(), "default._bimi.acme.com")
	if err != nil || len(got) != 1 || got[0] != "v=BIMI1; l=https://acme.com/b.svg" {
		t.Errorf("%q, %v", got, err)
	}
	if got, err = c.LookupTXT(t.Context(), "many.acme.com"); err != nil || len(got) > 16 {
		t.Errorf("%d records, %v; want at most 16", len(got), err)
	}
	if got, err = c.LookupTXT(t.Context(), "none.acme.com"); err != nil || len(got) != 0 {
		t.Errorf("a name without TXT records: %q, %v", got, err)
	}
	for _, name := range []string{"", "localhost", "a b.com", "acme.com\r\nx", "acme.com/..", strings.Repeat("a.", 200) + "com", "ü.com"} {
		if _, err := c.LookupTXT(t.Context(), name); !errors.Is(err, safehttp.ErrForbiddenURL) {
			t.Errorf("%q: %v, want ErrForbiddenURL", name, err)
		}
	}
	failing := client(t, texts{err: &net.DNSError{Err: "server misbehaving", IsTemporary: true}})
	if _, err := failing.LookupTXT(t.Context(), "acme.com"); !errors.Is(err, safehttp.ErrDNS) {
		t.Errorf("a name server that fails: %v, want ErrDNS", err)
	}
	without := client(t, newInternet(t)) // a resolver without TXT records
	if got, err := without.LookupTXT(t.Context(), "acme.com"); err != nil || got != nil {
		t.Errorf("a resolver without TXT records: %q, %v", got, err)
	}
}
