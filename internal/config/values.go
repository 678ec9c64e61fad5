package config

import (
	"fmt"
	"net"
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

// none is the default of settings without a value; see Load.
const none = "none"

// set returns a function that parses a value into a field. It leaves the field if the value is empty.
func set[T any](field func(*Config) *T, parse func(string) (T, error)) func(*Config, string) error {
	return func(c *Config, v string) (err error) {
		if v != "" {
			*field(c), err = parse(v)
		}
		return err
	}
}

func asIs(v string) (string, error) { return v, nil }

// list parses values separated by commas.
func list[T any](parse func(string) (T, error)) func(string) ([]T, error) {
	return func(v string) (all []T, err error) {
		for part := range strings.SplitSeq(v, ",") {
			one, err := parse(strings.TrimSpace(part))
			if err != nil {
				return nil, err
			}
			all = append(all, one)
		}
		return all, nil
	}
}

// hostPort checks the address of a listener; wrong ends the error.
func hostPort(v, wrong string) (string, error) {
	if _, _, err := net.SplitHostPort(v); err != nil {
		return "", fmt.Errorf("%q %s", v, wrong)
	}
	return v, nil
}

// webURL returns the URL of a service without slashes at its end.
func webURL(v string) (string, error) {
	u, err := url.Parse(v)
	if err != nil || (u.Scheme != "http" && u.Scheme != "https") || u.Host == "" || u.RawQuery != "" || u.Fragment != "" {
		err = fmt.Errorf("%q is not an http or https URL without query", v)
	}
	return strings.TrimRight(v, "/"), err
}

// contact parses an e-mail address, which becomes a mailto URL, or the URL of a page.
func contact(v string) (string, error) {
	if address, err := mail.ParseAddress(v); err == nil && address.Address == v {
		return "mailto:" + v, nil
	}
	if u, err := url.Parse(v); err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		return "", fmt.Errorf("%q is neither an e-mail address nor an http or https URL", v)
	}
	return v, nil
}

// databaseConnections limits the pools of the database in its URL.
func databaseConnections(c *Config, v string) error {
	if v == "" {
		return nil
	}
	if _, err := number(4, 1000)(v); err != nil || c.Database == Embedded {
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
func embeddedOr(embedded string, schemes ...string) func(string) (string, error) {
	return func(v string) (string, error) {
		if v == embedded {
			return Embedded, nil
		}
		scheme, rest, found := strings.Cut(v, "://")
		if !found || rest == "" || !slices.Contains(schemes, scheme) {
			return "", fmt.Errorf("it is neither %q nor a URL that begins with %s://",
				embedded, strings.Join(schemes, ":// or "))
		}
		return v, nil
	}
}

func oneOf(known ...string) func(string) (string, error) {
	return func(v string) (string, error) {
		if !slices.Contains(known, v) {
			return "", fmt.Errorf("%q is not one of %s", v, strings.Join(known, ", "))
		}
		return v, nil
	}
}

func onOff(v string) (bool, error) {
	switch v {
	case "on", "true", "1":
		return true, nil
	case "off", "false", "0":
		return false, nil
	}
	return false, fmt.Errorf("%q is neither on nor off", v)
}

func duration(low, high time.Duration) func(string) (time.Duration, error) {
	return func(v string) (time.Duration, error) {
		d, err := time.ParseDuration(v)
		if err != nil || d < low || d > high {
			return 0, fmt.Errorf("%q is not a duration from %s to %s", v, low, high)
		}
		return d, nil
	}
}

func number(low, high int) func(string) (int, error) {
	return func(v string) (int, error) {
		n, err := strconv.Atoi(v)
		if err != nil || n < low || n > high {
			return 0, fmt.Errorf("%q is not a number from %d to %d", v, low, high)
		}
		return n, nil
	}
}

// minBytes is the minimum size of a cache.
const minBytes = 1 << 20

func byteCount(v string) (int64, error) {
	n, err := strconv.ParseInt(v, 10, 64)
	if err != nil || n < minBytes {
		return 0, fmt.Errorf("%q is not a number of bytes of at least %d", v, minBytes)
	}
	return n, nil
}

// maxWitnesses limits the witnesses of checkpoints.
const maxWitnesses = 8

// witnesses parses LETTERHEAD_WITNESSES. Its errors have no URL, which may have a secret; a query would get into logs.
func witnesses(v string) ([]string, error) {
	names := strings.Split(v, ",")
	for i, name := range names {
		u, err := safehttp.CheckURL(name)
		if len(names) > maxWitnesses || slices.Contains(names[:i], name) || name != strings.TrimSpace(name) ||
			!filepath.IsAbs(name) && (err != nil || u.Scheme != "https" || u.RawQuery != "" || u.User != nil) {
			return nil, fmt.Errorf("number %d: want absolute paths, and https URLs without a query, at most %d, each once", i+1, maxWitnesses)
		}
	}
	return names, nil
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
func logoHosts(v string) (hosts []LogoHost, err error) {
	for i, part := range strings.Split(strings.TrimSuffix(v, ";"), ";") {
		name, rest, ok := strings.Cut(strings.TrimSpace(part), "=")
		profile, key, _ := strings.Cut(rest, ":")
		if !ok || profile == "" {
			return nil, fmt.Errorf("entry %d is not host=profile or host=profile:key", i+1) // it may contain a key
		}
		host, err := hostWithPort(name)
		if err != nil {
			return nil, err
		}
		hosts = append(hosts, LogoHost{host, strings.ToLower(profile), key})
	}
	return hosts, nil
}

// hostWithPort returns a host name with an optional port, in lower case.
func hostWithPort(v string) (string, error) {
	u, err := url.Parse("//" + v)
	if err != nil || u.Host != v || u.Hostname() == "" || strings.Trim(strings.ToLower(v), hostBytes) != "" {
		return "", fmt.Errorf("%q is not a host name with an optional port (write international names in Punycode, xn--…)", v)
	}
	return strings.ToLower(v), nil
}
