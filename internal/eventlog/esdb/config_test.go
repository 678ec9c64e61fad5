package esdb

import (
	"bytes"
	"errors"
	"log"
	"net/url"
	"strings"
	"testing"
)

// sentences are all permitted errors of a connection string without files.
var sentences = []error{
	errScheme, errEscape, errFragment, errQuery, errUnknown, errOverruled, errKeepAlive, errKeepWait, errGossip,
	errParse, errPair,
}

// configError returns the error for a connection string, from this package before and after the client's parser.
func configError(s string) error {
	cfg := Config{ConnectionString: s}.withDefaults()
	if err := checkConnectionString(cfg.ConnectionString); err != nil {
		return err
	}
	_, err := cfg.clientConfig()
	return err
}

// onlySentences checks that an error consists of our fixed texts, which contain nothing of the string.
func onlySentences(t *testing.T, s string, err error) {
	t.Helper()
	if err == nil {
		return
	}
	text := err.Error()
	for _, sentence := range sentences {
		text = strings.ReplaceAll(text, sentence.Error(), "")
	}
	if strings.Trim(text, "\n") != "" {
		t.Fatalf("the error of %q is %q", s, err)
	}
}

func TestParse_ConnectionStrings(t *testing.T) {
	for s, want := range map[string]error{
		"":                               errScheme,
		"localhost:2113":                 errScheme,
		"http://u:s3cret@localhost:2113": errScheme,
		"esdb://":                        errParse,
		"esdb://u:s3cret@localhost:port": errParse,
		"esdb://u:s3cret@local host":     errParse,
		"esdb://u:s3cret@localhost:2113?tls=perhaps":             errParse,
		"esdb://u:s3cret@localhost:2113?a=%zz":                   errQuery,
		"esdb://u:s3cret@localhost:2113?tsl=false":               errUnknown,
		"esdb://u:s3cret@localhost:2113#tls":                     errFragment,
		"esdb://u:abc?s3cret@localhost:2113?tls=true":            errEscape,
		"esdb://u:s3?cret@localhost:2113":                        errEscape,
		"esdb://u:s3/cret@localhost:2113":                        errEscape,
		"esdb://u:s3#cret@localhost:2113":                        errEscape,
		"esdb://u:12,s3cret@localhost:2113,other":                errEscape,
		"esdb://u:x?tlsCAFile=s3cret@localhost:2113":             errEscape,
		"esdb://u:s3cret@localhost:2113?userCertFile=x":          errPair,
		"esdb://u:s3cret@localhost:2113?gossipTimeout=soon":      errGossip,
		"esdb://u:s3cret@localhost:2113?keepAliveInterval=5000":  errKeepAlive,
		"esdb://u:s3cret@localhost:2113?keepAliveInterval=-2":    errKeepAlive,
		"esdb://u:s3cret@localhost:2113?keepAliveTimeout=-1":     errKeepWait,
		"esdb://u:s3cret@localhost:2113?discoveryInterval=500":   errOverruled,
		"esdb://u:s3cret@localhost:2113?maxDiscoverAttempts=3":   errOverruled,
		"esdb://u:s3cret@localhost:2113?DefaultDeadline=60000":   errOverruled,
		"esdb://localhost:2113?tls=false":                        nil,
		"esdb://localhost:2113?keepAliveInterval=-1":             nil,
		"esdb://u:s3%3Fcr%2Fe%40t%2C@localhost:2113?tls=false":   nil,
		"esdb://u:s3,cret@localhost:2113?tls=false":              nil,
		"esdb://u:s3@cret@localhost:2113?tls=false":              nil,
		"esdb+discover://a:1,b:2,c:3?nodePreference=follower":    nil,
		"esdb://a?keepAliveInterval=10000&keepAliveTimeout=5000": nil,
	} {
		err := configError(s)
		if !errors.Is(err, want) || want == nil && err != nil {
			t.Errorf("%q: %v, want %v", s, err, want)
		}
		onlySentences(t, s, err)
	}
}

// FuzzPassword puts a password into connection strings, both raw and escaped: no error may contain a part
// of it, and the escaped one must arrive.
func FuzzPassword(f *testing.F) {
	for _, s := range []string{
		"s3cret", "abc?s3cret", "s3?cret", "a/b", "a#b", "a@b", "a,b", "12,b", "?tlsCAFile=b", "a?tls=b&c=d", "%zz", "a b", "a\x00b",
		"[", "1?discoveryInterval=x", "a%3Fb", "a:b", "a?keepAliveInterval=7", "://", "é", ";a=b", "?userCertFile=a&userKeyFile=b",
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, password string) {
		for _, s := range []string{
			"esdb://u:" + password + "@host:2113?tls=false", "esdb+discover://u:" + password + "@a:1,b:2", "esdb://" + password + "@host",
		} {
			onlySentences(t, s, configError(s))
		}
		cfg := Config{ConnectionString: "esdb://" + url.UserPassword("u", password).String() + "@host:2113"}.withDefaults()
		conf, err := cfg.clientConfig()
		if err := checkConnectionString(cfg.ConnectionString); err != nil {
			t.Fatalf("%q: %v", cfg.ConnectionString, err)
		}
		if err != nil || conf.Password != password {
			t.Fatalf("%q: %v", cfg.ConnectionString, err)
		}
	})
}

// FuzzConnectionString checks that the client's parser never sees a string about which it would complain on
// the console.
func FuzzConnectionString(f *testing.F) {
	for _, s := range []string{
		"esdb://localhost:2113?tls=false", "esdb+discover://a,b:1,c?nodePreference=leader", "esdb://u:p@h/x?y=1",
		"esdb://?keepAliveInterval=-1", "esdb://h?keepAliveInterval=1&tls=maybe", "esdb://[::1]:2113", "esdb://%",
	} {
		f.Add(s)
	}
	var console bytes.Buffer
	before := log.Writer()
	log.SetOutput(&console)
	f.Cleanup(func() { log.SetOutput(before) })
	f.Fuzz(func(t *testing.T, s string) {
		cfg := Config{ConnectionString: s}.withDefaults()
		if checkConnectionString(s) != nil {
			return
		}
		if conf, err := cfg.clientConfig(); err == nil && conf.Logger == nil {
			t.Fatal("a client without our logger")
		}
		if console.Len() > 0 {
			t.Fatalf("on the console: %s", console.String())
		}
	})
}
