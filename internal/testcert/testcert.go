// Package testcert issues certificates for test servers and for the closed network in which extraction is
// measured. Do not use it for anything else: the private keys are not protected.
package testcert

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"net"
	"sync"
	"time"
)

// maxNames limits the certificates that Certificate caches.
const maxNames = 4000

// Certificates are valid at any time, including the fake time of a synctest bubble.
var validFrom, validUntil = time.Unix(0, 0), time.Unix(1<<34, 0)

// Authority signs certificates that only its Pool trusts. It is safe for concurrent use.
type Authority struct {
	own *x509.Certificate
	key *ecdsa.PrivateKey

	mu    sync.Mutex
	asked map[string]*tls.Certificate
}

// NewAuthority returns a new authority.
func NewAuthority() (*Authority, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("create a certificate authority: %w", err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "test authority"}, IsCA: true, BasicConstraintsValid: true,
		NotBefore: validFrom, NotAfter: validUntil, KeyUsage: x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		return nil, fmt.Errorf("create a certificate authority: %w", err)
	}
	own, err := x509.ParseCertificate(der)
	if err != nil {
		return nil, fmt.Errorf("create a certificate authority: %w", err)
	}
	return &Authority{own: own, key: key, asked: map[string]*tls.Certificate{}}, nil
}

// Pool returns a pool that trusts only the authority.
func (a *Authority) Pool() *x509.CertPool {
	pool := x509.NewCertPool()
	pool.AddCert(a.own)
	return pool
}

// PEM returns the authority's certificate in PEM format.
func (a *Authority) PEM() []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: a.own.Raw})
}

// Issue issues a server and client certificate for host names and IP addresses. If change is not nil it may
// modify the certificate before it is signed, for example to invalidate it.
func (a *Authority) Issue(change func(*x509.Certificate), names ...string) (tls.Certificate, error) {
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 64))
	if err != nil {
		return tls.Certificate{}, fmt.Errorf("issue a certificate: %w", err)
	}
	template := &x509.Certificate{
		SerialNumber: serial, NotBefore: validFrom, NotAfter: validUntil,
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	for _, name := range names {
		template.Subject.CommonName = name
		if ip := net.ParseIP(name); ip != nil {
			template.IPAddresses = append(template.IPAddresses, ip)
		} else {
			template.DNSNames = append(template.DNSNames, name)
		}
	}
	if change != nil {
		change(template)
	}
	der, err := x509.CreateCertificate(rand.Reader, template, a.own, &a.key.PublicKey, a.key)
	if err != nil {
		return tls.Certificate{}, fmt.Errorf("issue a certificate for %v: %w", names, err)
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: a.key}, nil
}

// Certificate implements tls.Config.GetCertificate. It issues one certificate for each name.
func (a *Authority) Certificate(hello *tls.ClientHelloInfo) (*tls.Certificate, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if c := a.asked[hello.ServerName]; c != nil {
		return c, nil
	}
	if len(a.asked) >= maxNames {
		return nil, errors.New("too many hosts")
	}
	c, err := a.Issue(nil, hello.ServerName)
	if err != nil {
		return nil, err
	}
	a.asked[hello.ServerName] = &c
	return &c, nil
}
