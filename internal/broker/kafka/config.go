package kafka

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"regexp"
	"slices"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"

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
	return errors.Join(append(errs, c.validateSecurity()...)...)
}

func (c Config) validateSecurity() []error {
	var errs []error
	switch c.SASL {
	case "":
		if c.User != "" || c.Password != "" {
			errs = append(errs,
				fmt.Errorf("kafka: a user needs a SASL mechanism: %s, %s or %s", Plain, ScramSHA256, ScramSHA512))
		}
	case Plain, ScramSHA256, ScramSHA512:
		if c.User == "" || c.Password == "" {
			errs = append(errs, errors.New("kafka: SASL needs a user and a password"))
		}
	default:
		errs = append(errs,
			fmt.Errorf("kafka: the SASL mechanism must be %s, %s or %s", Plain, ScramSHA256, ScramSHA512))
	}
	if !c.TLS && (c.CAFile != "" || c.CertFile != "" || c.KeyFile != "") {
		errs = append(errs, errors.New("kafka: certificates are configured, but TLS is off"))
	}
	if (c.CertFile == "") != (c.KeyFile == "") {
		errs = append(errs, errors.New("kafka: a certificate needs its key, and a key its certificate"))
	}
	return errs
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

// KafkaTopic returns the name of a topic with its prefix.
func (c Config) KafkaTopic(topic string) string { return c.TopicPrefix + topic }
