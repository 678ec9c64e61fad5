package kafka

import (
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"
)

// Scheme is the scheme of the URLs that ParseURL parses.
const Scheme = "kafka"

const (
	defaultPort = "9092"
	maxURLBytes = 16 << 10
)

// ErrURL means that a URL does not describe a Kafka cluster. The error never quotes the URL, because
// any part of it may contain a password.
var ErrURL = errors.New("not the URL of a Kafka cluster (kafka://host:9092,host2:9092?tls=true&…)")

// urlSettings are the settings of a URL's query.
var urlSettings = map[string]func(c *Config, value string) error{
	"tls":         func(c *Config, v string) (err error) { c.TLS, err = strconv.ParseBool(v); return },
	"ca":          func(c *Config, v string) error { c.CAFile = v; return nil },
	"cert":        func(c *Config, v string) error { c.CertFile = v; return nil },
	"key":         func(c *Config, v string) error { c.KeyFile = v; return nil },
	"sasl":        func(c *Config, v string) error { c.SASL = Mechanism(strings.ToLower(v)); return nil },
	"prefix":      func(c *Config, v string) error { c.TopicPrefix = v; return nil },
	"replication": func(c *Config, v string) (err error) { c.Replication, err = strconv.Atoi(v); return },
	"min_insync":  func(c *Config, v string) (err error) { c.MinInsync, err = strconv.Atoi(v); return },
	"partitions":  func(c *Config, v string) (err error) { c.Partitions, err = strconv.Atoi(v); return },
}

// ParseURL parses
//
//	kafka://user:password@host:9092,host2:9092?tls=true&sasl=scram-sha-512&ca=FILE&prefix=P&replication=3
//
// Settings: tls (true, false), ca, cert and key (PEM files), sasl (plain, scram-sha-256, scram-sha-512), prefix (of
// topics and groups; may be empty), and replication, min_insync and partitions (of created topics). User and password
// may be percent-encoded; a ? in a password must be. The default port is 9092. The result is valid; New sets the
// remaining defaults. Errors: ErrURL, with all faults.
func ParseURL(raw string) (Config, error) {
	c := Config{TopicPrefix: DefaultTopicPrefix}
	rest, ok := strings.CutPrefix(raw, Scheme+"://")
	if !ok || len(raw) > maxURLBytes {
		return Config{}, ErrURL
	}
	authority, query, _ := strings.Cut(rest, "?")
	var errs []error
	if at := strings.LastIndexByte(authority, '@'); at >= 0 {
		user, password, _ := strings.Cut(authority[:at], ":")
		u, err1 := url.PathUnescape(user)
		p, err2 := url.PathUnescape(password)
		if err1 != nil || err2 != nil {
			errs = append(errs, errors.New("user or password is not percent-encoded correctly"))
		}
		c.User, c.Password, authority = u, Secret(p), authority[at+1:]
	}
	for _, host := range strings.Split(strings.TrimSuffix(authority, "/"), ",") {
		c.Brokers = append(c.Brokers, withPort(host))
	}
	errs = append(errs, c.readQuery(query)...)
	if len(errs) == 0 {
		filled := c
		filled.setDefaults()
		if err := filled.Validate(); err != nil {
			errs = append(errs, err)
		}
	}
	if len(errs) > 0 {
		return Config{}, fmt.Errorf("%w: %w", ErrURL, errors.Join(errs...))
	}
	return c, nil
}

func (c *Config) readQuery(query string) []error {
	values, err := url.ParseQuery(query)
	if err != nil {
		return []error{errors.New("the query cannot be parsed; a ? in a password must be written as %3F")}
	}
	var errs []error
	unknown := false
	for key, all := range values {
		set, known := urlSettings[key]
		switch {
		case !known:
			unknown = true
		case len(all) != 1:
			errs = append(errs, fmt.Errorf("%s is set %d times", key, len(all)))
		case set(c, all[0]) != nil:
			errs = append(errs, fmt.Errorf("%s has an invalid value", key))
		}
	}
	if unknown {
		names := make([]string, 0, len(urlSettings))
		for name := range urlSettings {
			names = append(names, name)
		}
		slices.Sort(names)
		errs = append(errs, fmt.Errorf("unknown setting; the settings are %s", strings.Join(names, ", ")))
	}
	return errs
}

// withPort adds the default port if there is none.
func withPort(host string) string {
	end := strings.LastIndexByte(host, ']')
	if strings.Contains(host[end+1:], ":") || host == "" {
		return host
	}
	return host + ":" + defaultPort
}
