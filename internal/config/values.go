package config

import (
	"fmt"
	"net/mail"
	"net/netip"
	"net/url"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"letterhead/internal/safehttp"
)

// webURL checks the URL of a service.
func webURL(v string) error {
	u, err := url.Parse(v)
	if err != nil || (u.Scheme != "http" && u.Scheme != "https") || u.Host == "" || u.RawQuery != "" || u.Fragment != "" {
		return fmt.Errorf("%q is not an http or https URL without query", v)
	}
	return nil
}

// contact parses an e-mail address, which becomes a mailto URL, or the URL of a page.
func contact(c *Config, v string) error {
	if v == "none" {
		return nil
	}
	c.Contact = v
	if address, err := mail.ParseAddress(v); err == nil && address.Address == v {
		c.Contact = "mailto:" + v
	} else if u, err := url.Parse(v); err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		return fmt.Errorf("%q is neither an e-mail address nor an http or https URL", v)
	}
	return nil
}

// databaseConnections limits the pools of the database in its URL.
func databaseConnections(c *Config, v string) error {
	if v == "" {
		return nil
	}
	var n int
	if err := number(4, 1000, func(*Config) *int { return &n })(c, v); err != nil || c.Database == Embedded {
		return err
	}
	separator := "?"
	if strings.Contains(c.Database, "?") {
		separator = "&"
	}
	c.Database += separator + "pool_max_conns=" + v
	return nil
}

// embeddedOr accepts the name of the embedded store, or a URL of one of the schemes. An error never
// contains the URL, which may contain a password.
func embeddedOr(embedded string, field func(*Config) *string, schemes ...string) func(*Config, string) error {
	return func(c *Config, v string) error {
		if v == embedded {
			*field(c) = Embedded
			return nil
		}
		scheme, rest, found := strings.Cut(v, "://")
		if !found || rest == "" || !slices.Contains(schemes, scheme) {
			return fmt.Errorf("it is neither %q nor a URL that begins with %s://",
				embedded, strings.Join(schemes, ":// or "))
		}
		*field(c) = v
		return nil
	}
}

func oneOf(known []string, field func(*Config) *string) func(*Config, string) error {
	return func(c *Config, v string) error {
		if !slices.Contains(known, v) {
			return fmt.Errorf("%q is not one of %s", v, strings.Join(known, ", "))
		}
		*field(c) = v
		return nil
	}
}

func onOff(field func(*Config) *bool) func(*Config, string) error {
	return func(c *Config, v string) error {
		switch v {
		case "on", "true", "1":
			*field(c) = true
		case "off", "false", "0":
			*field(c) = false
		default:
			return fmt.Errorf("%q is neither on nor off", v)
		}
		return nil
	}
}

func duration(low, high time.Duration, field func(*Config) *time.Duration) func(*Config, string) error {
	return func(c *Config, v string) error {
		d, err := time.ParseDuration(v)
		if err != nil || d < low || d > high {
			return fmt.Errorf("%q is not a duration from %s to %s", v, low, high)
		}
		*field(c) = d
		return nil
	}
}

func number(low, high int, field func(*Config) *int) func(*Config, string) error {
	return func(c *Config, v string) error {
		n, err := strconv.Atoi(v)
		if err != nil || n < low || n > high {
			return fmt.Errorf("%q is not a number from %d to %d", v, low, high)
		}
		*field(c) = n
		return nil
	}
}

// minBytes is the minimum size of a cache.
const minBytes = 1 << 20

func byteCount(field func(*Config) *int64) func(*Config, string) error {
	return func(c *Config, v string) error {
		n, err := strconv.ParseInt(v, 10, 64)
		if err != nil || n < minBytes {
			return fmt.Errorf("%q is not a number of bytes of at least %d", v, minBytes)
		}
		*field(c) = n
		return nil
	}
}

// networks parses comma-separated IP addresses and networks.
func networks(field func(*Config) *[]netip.Prefix) func(*Config, string) error {
	return func(c *Config, v string) error {
		if v == "none" {
			return nil
		}
		for part := range strings.SplitSeq(v, ",") {
			network, err := parseNetwork(strings.TrimSpace(part))
			if err != nil {
				return err
			}
			*field(c) = append(*field(c), network)
		}
		return nil
	}
}

// maxWitnesses limits the witnesses of checkpoints.
const maxWitnesses = 8

// witnesses sets the witnesses of checkpoints. A query, which may be secret, would get into logs.
func witnesses(c *Config, v string) error {
	if v == "none" {
		return nil
	}
	c.Witnesses = strings.Split(v, ",")
	for _, name := range c.Witnesses {
		u, err := safehttp.CheckURL(name)
		if len(c.Witnesses) > maxWitnesses || !filepath.IsAbs(name) && (err != nil || u.Scheme != "https" || u.RawQuery != "") {
			return fmt.Errorf("%q: want absolute paths, and https URLs without a query, at most %d", name, maxWitnesses)
		}
	}
	return nil
}

// parseNetwork parses a network, or an IP address, which is a network of one.
func parseNetwork(s string) (netip.Prefix, error) {
	if network, err := netip.ParsePrefix(s); err == nil {
		return network.Masked(), nil
	}
	addr, err := netip.ParseAddr(s)
	if err != nil || addr.Zone() != "" {
		return netip.Prefix{}, fmt.Errorf("%q is neither an address nor a network such as 10.0.0.0/8", s)
	}
	return netip.PrefixFrom(addr, addr.BitLen()), nil
}

// LogoHost is a host that serves logos in the forms of another service.
type LogoHost struct {
	Host    string // lower case, with an optional port
	Profile string // the service's name, which the API checks
	Key     string // the publishable key of requests that send none; "" = they have no key
}

// logoHosts parses LETTERHEAD_LOGO_HOSTS. Hosts that are named twice, and profiles and keys that do not exist, are
// errors of the API's configuration.
func logoHosts(c *Config, v string) error {
	if v == "none" {
		return nil
	}
	for i, part := range strings.Split(strings.TrimSuffix(v, ";"), ";") {
		host, rest, ok := strings.Cut(strings.TrimSpace(part), "=")
		profile, key, _ := strings.Cut(rest, ":")
		if !ok || profile == "" {
			return fmt.Errorf("entry %d is not host=profile or host=profile:key", i+1) // it may contain a key
		}
		if err := hostWithPort(host); err != nil {
			return err
		}
		c.LogoHosts = append(c.LogoHosts, LogoHost{strings.ToLower(host), strings.ToLower(profile), key})
	}
	return nil
}

func hostWithPort(v string) error {
	u, err := url.Parse("//" + v)
	if err != nil || u.Host != v || u.Hostname() == "" || strings.Trim(strings.ToLower(v), hostBytes) != "" {
		return fmt.Errorf("%q is not a host name with an optional port (write international names in Punycode, xn--…)", v)
	}
	return nil
}
