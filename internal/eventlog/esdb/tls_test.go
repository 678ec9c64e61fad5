package esdb_test

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"letterhead/internal/eventlog"
	"letterhead/internal/eventlog/esdb"
	"letterhead/internal/eventlog/esdb/esdbtest"
	"letterhead/internal/testcert"
	"letterhead/internal/testlink"
	"letterhead/internal/testmust"
)

// authority issues certificates for one test.
type authority struct {
	*testcert.Authority
	file string // its certificate, PEM
}

func newAuthority(t testing.TB) authority {
	t.Helper()
	signs := testmust.Get(testcert.NewAuthority())(t)
	a := authority{signs, filepath.Join(t.TempDir(), "ca.pem")}
	testmust.Succeed(t, os.WriteFile(a.file, a.PEM(), 0o600))
	return a
}

// issue returns a certificate for a server at an address, or for a user.
func (a authority) issue(t testing.TB, name string) tls.Certificate {
	t.Helper()
	c := testmust.Get(a.Issue(nil, name))(t)
	return c
}

// files writes a certificate and its key.
func files(t testing.TB, c tls.Certificate) (certificate, key string) {
	t.Helper()
	dir := t.TempDir()
	certificate, key = filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
	writePEM(t, certificate, "CERTIFICATE", c.Certificate[0])
	der := testmust.Get(x509.MarshalPKCS8PrivateKey(c.PrivateKey))(t)
	writePEM(t, key, "PRIVATE KEY", der)
	return certificate, key
}

func writePEM(t testing.TB, path, kind string, der []byte) {
	t.Helper()
	testmust.Succeed(t, os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600))
}

// withUser puts credentials into a connection string.
func withUser(connection, name, password string) string {
	return strings.Replace(connection, "://", "://"+name+":"+password+"@", 1)
}

// Credentials are checked, and no error or log line contains the password.
func TestOpen_Credentials_AreCheckedAndNeverPrinted(t *testing.T) {
	t.Parallel() // two cases wait for the timeout
	const (
		password = "hunter2-hunter2"
		timeout  = 10 * time.Second // others connect within it on a busy machine
	)
	authority := newAuthority(t)
	certificate := authority.issue(t, "127.0.0.1")
	server := esdbtest.StartWith(t, esdbtest.Config{
		Certificate: &certificate, ClientCAs: authority.Pool(), Users: map[string]string{"ops": password},
	})
	plain := server.ConnectionString()
	ca := "&tlsCAFile=" + authority.file
	certFile, keyFile := files(t, authority.issue(t, "somebody"))
	user := "&userCertFile=" + certFile + "&userKeyFile=" + keyFile
	other := newAuthority(t)

	for name, c := range map[string]struct {
		connection string
		want       error
		text       string
	}{
		"password":                  {withUser(plain, "ops", password) + ca, nil, ""},
		"unverified certificate":    {withUser(plain, "ops", password) + "&tlsVerifyCert=false", nil, ""},
		"user certificate":          {plain + ca + user, nil, ""},
		"no credentials":            {plain + ca, eventlog.ErrUnavailable, "the password in LETTERHEAD_EVENTSTORE"},
		"wrong password":            {withUser(plain, "ops", password+"x") + ca, eventlog.ErrUnavailable, "LETTERHEAD_EVENTSTORE"},
		"unknown authority":         {withUser(plain, "ops", password) + "&tlsCAFile=" + other.file, eventlog.ErrUnavailable, "certificate"},
		"no TLS":                    {strings.Replace(withUser(plain, "ops", password), "tls=true", "tls=false", 1), eventlog.ErrUnavailable, ""},
		"missing file of authority": {withUser(plain, "ops", password) + "&tlsCAFile=" + certFile + ".not", os.ErrNotExist, "tlsCAFile"},
		"file without certificate":  {withUser(plain, "ops", password) + "&tlsCAFile=" + keyFile, nil, "no certificate"},
		"half a user certificate":   {withUser(plain, "ops", password) + ca + "&userCertFile=" + certFile, nil, "must be set together"},
		"mixed-up user certificate": {withUser(plain, "ops", password) + ca + "&userCertFile=" + keyFile + "&userKeyFile=" + certFile, nil, "userCertFile"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var lines strings.Builder
			l, err := esdb.Open(t.Context(), esdb.Config{
				ConnectionString: c.connection, ConnectTimeout: timeout,
				Logger: slog.New(slog.NewTextHandler(&lines, &slog.HandlerOptions{Level: slog.LevelDebug})),
			})
			if err == nil {
				if _, err := l.Append(t.Context(), "s-"+strings.ReplaceAll(name, " ", "-"), eventlog.NoStream(), batch(0, 1)); err != nil {
					t.Errorf("append: %v", err)
				}
				if err := l.Close(); err != nil {
					t.Error(err)
				}
			}
			switch {
			case c.want == nil && c.text == "" && err != nil:
				t.Errorf("open: %v", err)
			case c.want != nil && !errors.Is(err, c.want):
				t.Errorf("%v, want %v", err, c.want)
			case c.text != "" && (err == nil || !strings.Contains(strings.ToLower(err.Error()), strings.ToLower(c.text))):
				t.Errorf("%v, want an error that contains %q", err, c.text)
			}
			if err != nil && strings.Contains(err.Error(), password) || strings.Contains(lines.String(), password) {
				t.Errorf("the password is in %v\n%s", err, lines.String())
			}
		})
	}
}

// The error of an earlier attempt is reported even if the last attempt is cut off by the timeout.
func TestOpen_HangingServer_ReportsFirstError(t *testing.T) {
	t.Parallel()
	certificate := newAuthority(t).issue(t, "127.0.0.1")
	server := esdbtest.StartWith(t, esdbtest.Config{Certificate: &certificate})
	address := server.Addresses()[0]
	link := testlink.Through(t, address)
	opened := make(chan error, 1)
	go func() {
		_, err := esdb.Open(t.Context(), esdb.Config{
			ConnectionString: strings.Replace(server.ConnectionString(), address, link.Address(), 1) + "&tlsCAFile=" + newAuthority(t).file,
			ConnectTimeout:   3 * time.Second,
		})
		opened <- err
	}()
	for link.RoundTrips() < 6 && len(opened) == 0 { // of a connection: the client's greeting, and its alert that the certificate is bad
		runtime.Gosched()
	}
	link.Hang()
	if err := <-opened; !errors.Is(err, eventlog.ErrUnavailable) || !strings.Contains(err.Error(), "certificate") {
		t.Error(err)
	}
}
