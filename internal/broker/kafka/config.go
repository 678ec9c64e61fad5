package kafka

import (
	"cmp"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net"
	"net/url"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/IBM/sarama"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/segmentio/kafka-go/sasl"
	"github.com/segmentio/kafka-go/sasl/plain"
	"github.com/segmentio/kafka-go/sasl/scram"
	xdg "github.com/xdg-go/scram"

	"letterhead/internal/broker"
)

// Defaults of Config.
const (
	// DefaultTopicPrefix is the prefix of topics and consumer groups of a URL without one, so that installations can
	// share a cluster.
	DefaultTopicPrefix = "letterhead."
	// DefaultPartitions limits how many messages of a topic all members of a group handle concurrently.
	DefaultPartitions = 12
	// DefaultCrawlRetention is how long crawl requests are kept. Older requests have expired.
	DefaultCrawlRetention = 24 * time.Hour
	// DefaultDeadLetterRetention gives operators two weeks to inspect dead letters.
	DefaultDeadLetterRetention = 14 * 24 * time.Hour
	// DefaultSessionTimeout is how long a dead member keeps its partitions. Brokers reject less than their
	// group.min.session.timeout.ms, which is 6 s by default.
	DefaultSessionTimeout = 6 * time.Second
	// closeTimeout limits how long an ending subscription waits for its handlers, and how long
	// Close waits for the broker.
	closeTimeout = 10 * time.Second
	// DefaultRedeliverAfter is the wait before a nacked message is redelivered.
	DefaultRedeliverAfter = 100 * time.Millisecond
	// DefaultLagEvery is how often the lag of groups is measured.
	DefaultLagEvery = 15 * time.Second
)

// Forever is an unlimited Retention.
const Forever time.Duration = -1

const (
	// maxMessageBytes is max.message.bytes of the topics, and also Kafka's default. It has room for a
	// batch of maxBatchBytes and for a message of broker.MaxPayloadBytes with its headers.
	maxMessageBytes = 1 << 20
	maxBrokers      = 64
	maxPartitions   = 1024
	maxReplication  = 15
	maxPrefixBytes  = 100
)

// Mechanism is a SASL mechanism.
type Mechanism string

// Supported mechanisms.
const (
	Plain       Mechanism = "plain"
	ScramSHA256 Mechanism = "scram-sha-256"
	ScramSHA512 Mechanism = "scram-sha-512"
)

// Secret is a password. It is hidden from fmt, slog and encoding/json.
type Secret string

const hidden = "[hidden]"

// String implements fmt.Stringer.
func (Secret) String() string { return hidden }

// GoString implements fmt.GoStringer.
func (Secret) GoString() string { return hidden }

// LogValue implements slog.LogValuer.
func (Secret) LogValue() slog.Value { return slog.StringValue(hidden) }

// MarshalText implements encoding.TextMarshaler.
func (Secret) MarshalText() ([]byte, error) { return []byte(hidden), nil }

// Topic is a topic that Letterhead creates and uses.
type Topic struct {
	Name string
	// Partitions is the number of partitions (Config.Partitions).
	Partitions int
	// Retention is how long messages are kept. Forever keeps all of them; 0 means the cluster's default.
	Retention time.Duration
	// Record means that the topic holds copies of events for external consumers, and has no dead-letter topic.
	Record bool
}

// DefaultTopics returns all topics of Letterhead. Messages in topics of record are kept forever,
// because new consumers read them from the beginning.
func DefaultTopics() []Topic {
	return []Topic{
		{Name: broker.CrawlLive, Retention: DefaultCrawlRetention},
		{Name: broker.CrawlRefresh, Retention: DefaultCrawlRetention},
		{Name: broker.Ledger, Retention: Forever, Record: true},
		{Name: broker.Brands, Retention: Forever, Record: true},
	}
}

// Config configures a Transport.
type Config struct {
	Brokers     []string // host:port, at least one
	TopicPrefix string

	TLS      bool
	CAFile   string // PEM; the system's authorities when empty
	CertFile string // PEM, with KeyFile, if the brokers require a client certificate
	KeyFile  string

	SASL     Mechanism // none when empty
	User     string
	Password Secret

	Topics     []Topic // DefaultTopics
	Partitions int     // DefaultPartitions
	// Replication is the replication factor of created topics; 0 leaves it to the cluster's default.replication.factor.
	Replication int
	// MinInsync is min.insync.replicas of created topics: how many brokers must have a message before it is safe. 0
	// means Replication - 1, so that one broker may be down, or the cluster's default if Replication is 0.
	MinInsync int

	SessionTimeout time.Duration // DefaultSessionTimeout
	RedeliverAfter time.Duration // DefaultRedeliverAfter
	LagEvery       time.Duration // DefaultLagEvery

	Logger     *slog.Logger          // nil: none
	Registerer prometheus.Registerer // nil: none
}

func (c *Config) setDefaults() {
	c.Partitions = cmp.Or(c.Partitions, DefaultPartitions)
	c.SessionTimeout = cmp.Or(c.SessionTimeout, DefaultSessionTimeout)
	c.RedeliverAfter = cmp.Or(c.RedeliverAfter, DefaultRedeliverAfter)
	c.LagEvery = cmp.Or(c.LagEvery, DefaultLagEvery)
	if c.MinInsync == 0 && c.Replication > 0 {
		c.MinInsync = max(1, c.Replication-1)
	}
	if c.Topics == nil {
		c.Topics = DefaultTopics()
	}
	c.Topics = slices.Clone(c.Topics)
	for i := range c.Topics {
		c.Topics[i].Partitions = cmp.Or(c.Topics[i].Partitions, c.Partitions)
	}
	c.Logger = cmp.Or(c.Logger, slog.New(slog.DiscardHandler))
}

// namePattern matches the topic names that Kafka accepts, except that they must not exceed 249 bytes.
var namePattern = regexp.MustCompile(`^[a-zA-Z0-9._-]+$`)

// Validate reports all errors of the settings that a URL has.
func (c Config) Validate() error {
	var errs []error
	fault := func(format string, args ...any) { errs = append(errs, fmt.Errorf("kafka: "+format, args...)) }
	if len(c.Brokers) == 0 || len(c.Brokers) > maxBrokers {
		fault("%d brokers are configured, must be 1 to %d", len(c.Brokers), maxBrokers)
	}
	for i, b := range c.Brokers {
		if !validAddress(b) {
			// not quoted, because it may contain a password
			fault("broker %d of %d is not host:port", i+1, len(c.Brokers))
		}
	}
	if c.TopicPrefix != "" && (!namePattern.MatchString(c.TopicPrefix) || len(c.TopicPrefix) > maxPrefixBytes) {
		fault("the topic prefix must have at most %d letters, digits, dots, underscores and hyphens", maxPrefixBytes)
	}
	between := func(name string, value, least, most int) {
		if value < least || value > most {
			fault("%s is %d, must be %d to %d", name, value, least, most)
		}
	}
	between("Partitions", c.Partitions, 1, maxPartitions)
	between("Replication", c.Replication, 0, maxReplication)
	between("MinInsync", c.MinInsync, 0, maxReplication)
	if c.Replication > 0 && c.MinInsync > c.Replication {
		fault("MinInsync is %d, must not exceed Replication, %d", c.MinInsync, c.Replication)
	}
	c.validateSecurity(fault)
	return errors.Join(errs...)
}

func (c Config) validateSecurity(fault func(format string, args ...any)) {
	switch c.SASL {
	case "":
		if c.User != "" || c.Password != "" {
			fault("a user needs a SASL mechanism: %s, %s or %s", Plain, ScramSHA256, ScramSHA512)
		}
	case Plain, ScramSHA256, ScramSHA512:
		if c.User == "" || c.Password == "" {
			fault("SASL needs a user and a password")
		}
	default:
		fault("the SASL mechanism must be %s, %s or %s", Plain, ScramSHA256, ScramSHA512)
	}
	if !c.TLS && (c.CAFile != "" || c.CertFile != "" || c.KeyFile != "") {
		fault("certificates are configured, but TLS is off")
	}
	if (c.CertFile == "") != (c.KeyFile == "") {
		fault("a certificate needs its key, and a key its certificate")
	}
}

func validAddress(address string) bool {
	host, port, err := net.SplitHostPort(address)
	n, portErr := strconv.ParseUint(port, 10, 16)
	return err == nil && portErr == nil && n > 0 && host != "" && hostPattern.MatchString(host)
}

// hostPattern matches names and IP addresses, including IPv6 with a zone.
var hostPattern = regexp.MustCompile(`^[a-zA-Z0-9._:%-]{1,253}$`)

// topics returns the configured topics and the dead-letter topic of each topic of work.
func (c Config) topics() []Topic {
	var all []Topic
	for _, each := range c.Topics {
		all = append(all, each)
		if !each.Record {
			// One partition keeps the messages in order for the people who read them.
			all = append(all,
				Topic{Name: broker.DeadLetterTopic(each.Name), Partitions: 1, Retention: DefaultDeadLetterRetention})
		}
	}
	return all
}

// topicNames returns the names of topics, with their prefix.
func (c Config) topicNames() (names []string) {
	for _, each := range c.topics() {
		names = append(names, c.KafkaTopic(each.Name))
	}
	return names
}

// KafkaTopic returns the name of a topic with its prefix.
func (c Config) KafkaTopic(topic string) string { return c.TopicPrefix + topic }

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
	for host := range strings.SplitSeq(strings.TrimSuffix(authority, "/"), ",") {
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
		errs = append(errs, fmt.Errorf("unknown setting; the settings are %s",
			strings.Join(slices.Sorted(maps.Keys(urlSettings)), ", ")))
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

// tlsConfig returns the TLS configuration, or nil if TLS is off. Errors contain the names of files,
// never their contents.
func (c Config) tlsConfig() (*tls.Config, error) {
	if !c.TLS {
		return nil, nil
	}
	out := &tls.Config{MinVersion: tls.VersionTLS12}
	if c.CAFile != "" {
		pem, err := os.ReadFile(c.CAFile)
		if err != nil {
			return nil, fmt.Errorf("read the certificate authorities of kafka: %w", err)
		}
		out.RootCAs = x509.NewCertPool()
		if !out.RootCAs.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("%s contains no certificate", c.CAFile)
		}
	}
	if c.CertFile != "" {
		cert, err := tls.LoadX509KeyPair(c.CertFile, c.KeyFile)
		if err != nil {
			return nil, fmt.Errorf("load the client certificate for kafka: %w", err)
		}
		out.Certificates = []tls.Certificate{cert}
	}
	return out, nil
}

// mechanism returns the SASL mechanism for kafka-go, or nil without SASL.
func (c Config) mechanism() (sasl.Mechanism, error) {
	switch c.SASL {
	case Plain:
		return plain.Mechanism{Username: c.User, Password: string(c.Password)}, nil
	case ScramSHA256, ScramSHA512:
		algorithm := scram.SHA512
		if c.SASL == ScramSHA256 {
			algorithm = scram.SHA256
		}
		m, err := scram.Mechanism(algorithm, c.User, string(c.Password))
		if err != nil { // the error may quote its input
			return nil, errors.New("user or password of kafka contains characters that SCRAM forbids")
		}
		return m, nil
	default:
		return nil, nil
	}
}

// secure sets TLS and SASL of a sarama configuration.
func (c Config) secure(to *sarama.Config) error {
	config, err := c.tlsConfig()
	if err != nil {
		return err
	}
	to.Net.TLS.Enable, to.Net.TLS.Config = config != nil, config
	if c.SASL == "" {
		return nil
	}
	to.Net.SASL.Enable, to.Net.SASL.User, to.Net.SASL.Password = true, c.User, string(c.Password)
	switch c.SASL {
	case ScramSHA256:
		to.Net.SASL.Mechanism = sarama.SASLTypeSCRAMSHA256
		to.Net.SASL.SCRAMClientGeneratorFunc = func() sarama.SCRAMClient { return &conversation{hash: xdg.SHA256} }
	case ScramSHA512:
		to.Net.SASL.Mechanism = sarama.SASLTypeSCRAMSHA512
		to.Net.SASL.SCRAMClientGeneratorFunc = func() sarama.SCRAMClient { return &conversation{hash: xdg.SHA512} }
	default:
		to.Net.SASL.Mechanism = sarama.SASLTypePlaintext
	}
	return nil
}

// conversation implements one SCRAM login for sarama, which does not implement SCRAM itself.
type conversation struct {
	hash xdg.HashGeneratorFcn
	*xdg.ClientConversation
}

// Begin implements sarama.SCRAMClient.
func (s *conversation) Begin(user, password, authorization string) error {
	client, err := s.hash.NewClient(user, password, authorization)
	if err != nil {
		return errors.New("user or password of kafka contains characters that SCRAM forbids")
	}
	s.ClientConversation = client.NewConversation()
	return nil
}
