package kafka_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"

	"letterhead/internal/broker/kafka"
	"letterhead/internal/testmust"
)

func TestURL_IsParsed(t *testing.T) {
	c, err := kafka.ParseURL("kafka://us%40er:p%3Fa%2Fss@one.example:9093,two,[::1]:9094?tls=true&sasl=SCRAM-SHA-512&ca=/etc/ca.pem&prefix=acme.&replication=3&min_insync=2&partitions=24")
	testmust.Succeed(t, err)
	if want := []string{"one.example:9093", "two:9092", "[::1]:9094"}; !slices.Equal(c.Brokers, want) {
		t.Errorf("brokers are %q, want %q", c.Brokers, want)
	}
	if c.User != "us@er" || string(c.Password) != "p?a/ss" || !c.TLS || c.SASL != kafka.ScramSHA512 || c.CAFile != "/etc/ca.pem" {
		t.Errorf("security is %q, %t, %q, %q", c.User, c.TLS, c.SASL, c.CAFile)
	}
	if c.TopicPrefix != "acme." || c.Replication != 3 || c.MinInsync != 2 || c.Partitions != 24 {
		t.Errorf("topics are %q, %d, %d, %d", c.TopicPrefix, c.Replication, c.MinInsync, c.Partitions)
	}
	if c, err = kafka.ParseURL("kafka://host"); err != nil || c.KafkaTopic("ledger") != kafka.DefaultTopicPrefix+"ledger" {
		t.Errorf("a URL without settings gives the topic %s: %v", c.KafkaTopic("ledger"), err)
	}
	if c, err = kafka.ParseURL("kafka://host/?prefix="); err != nil || c.KafkaTopic("ledger") != "ledger" {
		t.Errorf("an empty prefix gives topic %s: %v", c.KafkaTopic("ledger"), err)
	}
}

// No error repeats a password, even if it is in an unexpected part of the URL.
// Rule 13.
func TestParseURL_Faulty_ErrorOmitsPassword(t *testing.T) {
	for name, url := range map[string]string{
		"another scheme":               "http://user:hunter2@host",
		"no host":                      "kafka://user:hunter2@?sasl=plain",
		"no @":                         "kafka://user:hunter2",
		"a ? in the password":          "kafka://user:x?hunter2=1@host",
		"a password as a setting":      "kafka://host?password=hunter2",
		"an invalid setting":           "kafka://host?tls=hunter2",
		"no mechanism":                 "kafka://user:hunter2@host",
		"an unknown mechanism":         "kafka://user:hunter2@host?sasl=hunter2",
		"a bad escape":                 "kafka://user:%zzhunter2@host?sasl=plain",
		"an empty host in the middle":  "kafka://user:hunter2@one,,two?sasl=plain",
		"a setting twice":              "kafka://host?ca=hunter2&ca=hunter2&tls=true",
		"certificates without tls":     "kafka://host?ca=hunter2",
		"min_insync above replication": "kafka://host?replication=2&min_insync=3&prefix=hunter2",
		"a bad prefix":                 "kafka://host?prefix=hunter2%20%20",
		"a port out of range":          "kafka://host:70000",
		"no port":                      "kafka://hunter2:",
	} {
		c, err := kafka.ParseURL(url)
		if !errors.Is(err, kafka.ErrURL) {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if strings.Contains(err.Error(), "hunter2") || len(c.Brokers) > 0 || c.Password != "" {
			t.Errorf("%s: ParseURL = %+v, %q", name, c, err)
		}
	}
}

func TestConfig_HidesPassword(t *testing.T) {
	c := testmust.Get(kafka.ParseURL("kafka://user:hunter2@host?sasl=plain&tls=1"))(t)
	var logged strings.Builder
	slog.New(slog.NewTextHandler(&logged, nil)).Info("x", "config", c, "password", c.Password)
	slog.New(slog.NewJSONHandler(&logged, nil)).Info("x", "password", c.Password)
	encoded := testmust.Get(json.Marshal(struct{ P kafka.Secret }{c.Password}))(t)
	for _, shown := range []string{fmt.Sprint(c), fmt.Sprintf("%+v", c), fmt.Sprintf("%#v", c), logged.String(), string(encoded)} {
		if strings.Contains(shown, "hunter2") {
			t.Errorf("the output contains the password: %s", shown)
		}
	}
}

func TestConfig_ReportsEveryFault(t *testing.T) {
	err := kafka.Config{
		TopicPrefix: "no blanks", Partitions: -1, Replication: 99, SASL: "kerberos", CertFile: "x",
	}.Validate()
	for _, fault := range []string{
		"brokers", "prefix", "Partitions", "Replication", "SASL", "TLS is off", "needs its key",
	} {
		if err == nil || !strings.Contains(err.Error(), fault) {
			t.Errorf("the error does not mention %s: %v", fault, err)
		}
	}
}

func FuzzParseURL(f *testing.F) {
	for _, seed := range []string{
		"kafka://host", "kafka://user:password@host:9092,host2:9092?tls=true&sasl=scram-sha-512&ca=f&prefix=p&replication=3",
		"kafka://[::1]:9092", "kafka://@", "kafka://a@b@c?sasl=plain", "kafka://%", "kafka://host?%", "kafka://,", "kafka://h?prefix=", "kafka://h:0",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, url string) {
		c, err := kafka.ParseURL(url)
		if err != nil {
			if !errors.Is(err, kafka.ErrURL) || len(c.Brokers) > 0 {
				t.Fatalf("ParseURL returned the error %v with %+v", err, c)
			}
			return
		}
		if len(c.Brokers) == 0 || (c.Password != "") != (c.SASL != "") {
			t.Fatalf("%q was parsed as %+v", url, c)
		}
		for _, b := range c.Brokers {
			if strings.ContainsAny(b, "@/?, ") {
				t.Fatalf("ParseURL(%q) has the broker %q", url, b)
			}
		}
		if again, err := kafka.ParseURL(url); err != nil || !slices.Equal(again.Brokers, c.Brokers) {
			t.Fatalf("parsing again gives %+v: %v", again, err)
		}
	})
}
