package kafka

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"os"

	"github.com/IBM/sarama"
	"github.com/segmentio/kafka-go/sasl"
	"github.com/segmentio/kafka-go/sasl/plain"
	"github.com/segmentio/kafka-go/sasl/scram"
	xdg "github.com/xdg-go/scram"
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
