package elastic_test

import (
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"letterhead/internal/searchindex"
	"letterhead/internal/searchindex/elastic"
	"letterhead/internal/testmust"
)

func TestURL_IsParsed(t *testing.T) {
	for _, c := range []struct {
		cfg                           elastic.Config
		addresses                     []string
		user, password, apiKey, alias string
		replicas                      int
	}{
		{elastic.Config{URL: "http://localhost:9200"}, []string{"http://localhost:9200"}, "", "", "", "brands", 1},
		{
			elastic.Config{URL: "https://me:p%40ss%2Fword@a.example:9200,b.example,[::1]:9201/es/?alias=other&replicas=0"},
			[]string{"https://a.example:9200/es", "https://b.example/es", "https://[::1]:9201/es"}, "me", "p@ss/word", "", "other", 0,
		},
		{elastic.Config{URL: "https://a.example?api_key=YWJj%3D"}, []string{"https://a.example"}, "", "", "YWJj=", "brands", 1},
	} {
		addresses, user, password, apiKey, alias, replicas, err := c.cfg.Read()
		if err != nil || !slices.Equal(addresses, c.addresses) || user != c.user || password != c.password || apiKey != c.apiKey || alias != c.alias || replicas != c.replicas {
			t.Errorf("%s reads as %v %s %s %s %s %d, %v; want %v, %v, %v, %v, %v and %d", c.cfg.URL, addresses, user, password, apiKey, alias, replicas, err, c.addresses, c.user, c.password, c.apiKey, c.alias, c.replicas)
		}
	}
}

// Rule 13.
func TestOpen_BadURL_ErrorOmitsURL(t *testing.T) {
	for _, u := range []string{
		"", "localhost:9200", "ftp://u:secretword@host", "http://", "http://u:secretword@", "http://u:secretword@a,,b", "http://u:secretword@a:port",
		"http://u:secret/word@host:9200", "http://u:secret?word@host", "http://u:secret#word@host", "http://u:secretword%zz@host",
		"http://u:secretword@host?alias=Upper", "http://u:secretword@host?replicas=many", "http://u:secretword@host?replicas=99",
		"http://u:secretword@host?unknown=1", "http://u:secretword@host?api_key=x", "http://u:secretword@host?ca=missing.pem", "http://u:secretword@a b",
		"http://u:secretword@h/%zz", "http://u:secretword@h?%zz",
	} {
		_, err := elastic.Open(t.Context(), elastic.Config{URL: u})
		if err == nil || strings.Contains(err.Error(), "secret") || strings.Contains(err.Error(), "word@") {
			t.Errorf("%q: %v", u, err)
		}
	}
	empty := filepath.Join(t.TempDir(), "ca.pem")
	testmust.Succeed(t, os.WriteFile(empty, []byte("no PEM"), 0o600))
	_, err := elastic.Open(t.Context(), elastic.Config{URL: "http://?alias=_&replicas=-1&ca=" + url.QueryEscape(empty)})
	for _, part := range []string{"URL", "alias", "replicas", "CA"} {
		if err == nil || !strings.Contains(err.Error(), part) {
			t.Errorf("%v does not mention %s", err, part)
		}
	}
}

func FuzzURL(f *testing.F) {
	for _, u := range []string{"http://a:1,b:2/x?alias=y", "https://u:p@[::1]", "http://@", "http://u:hunter2@h?ca=", "://", "http://%", "http://a,@b"} {
		f.Add(u)
	}
	f.Fuzz(func(t *testing.T, u string) {
		if strings.Contains(u, "ca=") { // reads a file
			return
		}
		addresses, _, _, _, _, _, err := elastic.Config{URL: u}.Read()
		if err != nil {
			return
		}
		for _, a := range addresses {
			parsed, err := url.Parse(a)
			if err != nil || parsed.Host == "" || parsed.User != nil {
				t.Errorf("%q gives the address %q, %v", u, a, err)
			}
		}
	})
}

// secured starts a TLS server with a self-signed certificate that accepts one pair of credentials. It returns the path
// of the certificate, escaped for a URL.
func secured(t *testing.T, allowed func(*http.Request) bool) (server *httptest.Server, ca string) {
	server = httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("X-Elastic-Product", "Elasticsearch")
		if !allowed(r) {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		fmt.Fprintf(w, `{"responses":[{"status":200,"hits":{"hits":[]}},{"status":200,"hits":{"hits":[]}},{"status":200,"hits":{"hits":[]}},{"status":200,"hits":{"hits":[]}}],
			"_index":"brands%[1]s_g000001","acknowledged":true,"indices":[{"name":"brands%[1]s_g000001","aliases":["brands%[1]s","brands%[1]s_g000001_w_1"]}],
			"brands%[1]s_g000001":{"mappings":{"_meta":{"letterhead_mapping":%[2]d}}}}`, version, searchindex.Analysis)
	}))
	server.Config.ErrorLog = log.New(io.Discard, "", 0) // one of the tests uses a client that does not trust it
	server.StartTLS()
	t.Cleanup(server.Close)
	path := filepath.Join(t.TempDir(), "ca.pem")
	certificate := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
	testmust.Succeed(t, os.WriteFile(path, certificate, 0o600))
	return server, url.QueryEscape(path)
}

func TestOpen_CredentialsAndCertificates(t *testing.T) {
	byPassword := func(r *http.Request) bool { u, p, _ := r.BasicAuth(); return u == "me" && p == "p@ss" }
	byKey := func(r *http.Request) bool { return strings.EqualFold(r.Header.Get("Authorization"), "ApiKey YWJj") }
	for name, c := range map[string]struct {
		allowed     func(*http.Request) bool
		user, query string
	}{
		"user and password": {byPassword, "me:p%40ss@", ""},
		"API key":           {byKey, "", "&api_key=YWJj"},
	} {
		t.Run(name, func(t *testing.T) {
			server, ca := secured(t, c.allowed)
			u := "https://" + c.user + strings.TrimPrefix(server.URL, "https://") + "?ca=" + ca + c.query
			x := testmust.Get(elastic.Open(t.Context(), elastic.Config{URL: u}))(t)
			defer x.Close()
			if _, err := x.Search(within(t, time.Minute), "a", 1); err != nil {
				t.Errorf("search: %v", err)
			}
		})
	}
	server, _ := secured(t, func(*http.Request) bool { return true })
	untrusting, err := elastic.Open(within(t, time.Second), elastic.Config{URL: server.URL})
	if err == nil {
		defer untrusting.Close()
		_, err = untrusting.Search(within(t, time.Second), "a", 1)
	}
	var unknown x509.UnknownAuthorityError
	if !errors.As(err, &unknown) && !errors.Is(err, searchindex.ErrUnavailable) {
		t.Errorf("a certificate of an unknown authority: %v", err)
	}
}
