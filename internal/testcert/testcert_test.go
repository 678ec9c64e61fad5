package testcert_test

import (
	"crypto/tls"
	"crypto/x509"
	"testing"
	"time"

	"letterhead/internal/testcert"
	"letterhead/internal/testmust"
)

func authority(t *testing.T) *testcert.Authority {
	t.Helper()
	a := testmust.Get(testcert.NewAuthority())(t)
	return a
}

// verify checks a certificate as a client of the host would.
func verify(t *testing.T, c tls.Certificate, pool *x509.CertPool, host string) error {
	t.Helper()
	leaf, err := x509.ParseCertificate(c.Certificate[0])
	testmust.Succeed(t, err)
	_, err = leaf.Verify(x509.VerifyOptions{Roots: pool, DNSName: host})
	return err
}

func TestIssue_CertificateVerifiesForNamesAndAuthority(t *testing.T) {
	a, other := authority(t), authority(t)
	c := testmust.Get(a.Issue(nil, "acme.example", "127.0.0.1"))(t)
	fromPEM := x509.NewCertPool()
	if !fromPEM.AppendCertsFromPEM(a.PEM()) {
		t.Fatal("PEM returned no certificate")
	}
	for name, s := range map[string]struct {
		pool *x509.CertPool
		host string
		good bool
	}{
		"a host":            {a.Pool(), "acme.example", true},
		"an address":        {a.Pool(), "127.0.0.1", true},
		"from a file":       {fromPEM, "acme.example", true},
		"another host":      {a.Pool(), "other.example", false},
		"another authority": {other.Pool(), "acme.example", false},
	} {
		if err := verify(t, c, s.pool, s.host); (err == nil) != s.good {
			t.Errorf("%s: %v", name, err)
		}
	}
	spoilt := testmust.Get(a.Issue(func(c *x509.Certificate) { c.NotAfter = time.Unix(1000, 0) }, "acme.example"))(t)
	if err := verify(t, spoilt, a.Pool(), "acme.example"); err == nil {
		t.Error("an expired certificate is valid")
	}
}

func TestCertificate_OnePerName(t *testing.T) {
	a := authority(t)
	ask := func(name string) *tls.Certificate {
		c := testmust.Get(a.Certificate(&tls.ClientHelloInfo{ServerName: name}))(t)
		return c
	}
	one := ask("one.example")
	if ask("one.example") != one || ask("two.example") == one {
		t.Error("Certificate must return the same certificate for the same name only")
	}
	if err := verify(t, *one, a.Pool(), "one.example"); err != nil {
		t.Error(err)
	}
}
