package internet

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"fmt"
	"math/big"
	"sync"
	"time"
)

// validTime is how long certificates are valid, before and after now.
const validTime = 24 * time.Hour

// Authority signs the certificates of every host. Several internets may share one.
type Authority struct {
	roots *x509.CertPool
	own   *x509.Certificate
	key   *ecdsa.PrivateKey // of the authority and of all hosts: nobody is to be kept out

	mu    sync.Mutex
	certs map[string]*tls.Certificate
}

// NewAuthority makes an authority.
func NewAuthority() (*Authority, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("make an authority: %w", err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "closed internet"}, IsCA: true, BasicConstraintsValid: true,
		NotBefore: time.Now().Add(-validTime), NotAfter: time.Now().Add(validTime), KeyUsage: x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		return nil, fmt.Errorf("make an authority: %w", err)
	}
	own, err := x509.ParseCertificate(der)
	if err != nil {
		return nil, fmt.Errorf("make an authority: %w", err)
	}
	a := &Authority{roots: x509.NewCertPool(), own: own, key: key, certs: map[string]*tls.Certificate{}}
	a.roots.AddCert(own)
	return a, nil
}

// certificate makes a certificate for the name that is asked for.
func (a *Authority) certificate(hello *tls.ClientHelloInfo) (*tls.Certificate, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if c := a.certs[hello.ServerName]; c != nil {
		return c, nil
	}
	if len(a.certs) >= maxHosts {
		return nil, errors.New("too many hosts")
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(int64(len(a.certs) + 2)), Subject: pkix.Name{CommonName: hello.ServerName}, DNSNames: []string{hello.ServerName},
		NotBefore: time.Now().Add(-validTime), NotAfter: time.Now().Add(validTime), KeyUsage: x509.KeyUsageDigitalSignature,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, a.own, &a.key.PublicKey, a.key)
	if err != nil {
		return nil, err
	}
	c := &tls.Certificate{Certificate: [][]byte{der}, PrivateKey: a.key}
	a.certs[hello.ServerName] = c
	return c, nil
}
