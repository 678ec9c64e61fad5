package safehttp

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
)

const (
	// maxTXTRecords and maxTXTBytes limit how much of a name server's response is kept.
	maxTXTRecords = 16
	maxTXTBytes   = 4 << 10
)

// TXTResolver is a Resolver that also resolves TXT records. *net.Resolver implements it.
type TXTResolver interface {
	LookupTXT(ctx context.Context, name string) ([]string, error)
}

// LookupTXT returns the TXT records of a name, each as one string. It returns none if the name has none
// or the configured resolver does not support them. It does not connect to the host. Errors: ErrDNS,
// ErrForbiddenURL if the name is not valid.
func (c *Client) LookupTXT(ctx context.Context, name string) ([]string, error) {
	resolver, ok := c.cfg.Resolver.(TXTResolver)
	if !ok {
		return nil, nil
	}
	if len(name) > maxHostBytes || !strings.Contains(name, ".") || strings.ContainsFunc(name, notInName) {
		return nil, fmt.Errorf("%w: TXT records of %q", ErrForbiddenURL, clip(name))
	}
	ctx, cancel := context.WithTimeout(ctx, dnsTimeout)
	defer cancel()
	records, err := resolver.LookupTXT(ctx, name)
	if err != nil {
		var cause *net.DNSError
		if errors.As(err, &cause) && cause.IsNotFound && !cause.IsTimeout {
			return nil, nil
		}
		return nil, fmt.Errorf("%w: %w", ErrDNS, &DNSError{Host: name, Timeout: ctx.Err() != nil, Err: err})
	}
	out := make([]string, 0, min(len(records), maxTXTRecords))
	for _, r := range records[:min(len(records), maxTXTRecords)] {
		if len(r) <= maxTXTBytes {
			out = append(out, r)
		}
	}
	return out, nil
}

// notInName reports whether a character is not allowed in names. Allowed are letters, digits, hyphens,
// dots, and the underscore of service labels.
func notInName(r rune) bool {
	return !(r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '-' || r == '_' || r == '.')
}

func (r rootedResolver) LookupTXT(ctx context.Context, name string) ([]string, error) {
	return r.Resolver.LookupTXT(ctx, name+".")
}
