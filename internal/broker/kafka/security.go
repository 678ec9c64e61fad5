package kafka

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"os"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/sasl/plain"
	"github.com/twmb/franz-go/pkg/sasl/scram"
)

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

// securityOptions returns the options of a client for TLS and SASL.
func (c Config) securityOptions() ([]kgo.Opt, error) {
	config, err := c.tlsConfig()
	if err != nil {
		return nil, err
	}
	var opts []kgo.Opt
	if config != nil {
		opts = append(opts, kgo.DialTLSConfig(config))
	}
	login := scram.Auth{User: c.User, Pass: string(c.Password)}
	switch c.SASL {
	case Plain:
		opts = append(opts, kgo.SASL(plain.Auth{User: c.User, Pass: string(c.Password)}.AsMechanism()))
	case ScramSHA256:
		opts = append(opts, kgo.SASL(login.AsSha256Mechanism()))
	case ScramSHA512:
		opts = append(opts, kgo.SASL(login.AsSha512Mechanism()))
	}
	return opts, nil
}
