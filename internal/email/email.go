// Package email sends plain text messages through a mail server that the operator sets. Its address may be private.
package email

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/mail"
	"net/netip"
	"net/url"
	"strconv"
	"strings"
	"time"

	gomail "github.com/wneessen/go-mail"
)

const (
	// stepTime limits the connecting, and then the conversation.
	stepTime = 10 * time.Second

	submissionPort  = 587
	submissionsPort = 465
)

// errURL means that a URL of a mail server cannot be used. It never has the URL, which may have a password.
var errURL = errors.New(`it is neither smtp://host:port nor smtps://user:password@host:port; "?tls=off" after smtp:// allows a connection without TLS`)

// ErrRejected means that the server rejects the message or its address for good.
var ErrRejected = errors.New("the mail server rejects the message")

// Server is a mail server. The zero Server sends nothing.
type Server struct {
	host           string
	port           int
	implicit       bool // TLS from the first byte; otherwise STARTTLS
	plain          bool // no TLS
	user, password string
	address        string         // dialed instead of host and port, if set
	roots          *x509.CertPool // nil: the machine's
}

// ParseURL parses the URL of a mail server. Without a port it is 587 for smtp, which begins with STARTTLS, and 465 for
// smtps. TLS is required, unless the host is loopback or the query says tls=off.
func ParseURL(text string) (Server, error) {
	u, err := url.Parse(text)
	if err != nil || u.Scheme != "smtp" && u.Scheme != "smtps" || u.Hostname() == "" || u.Fragment != "" ||
		u.Path != "" && u.Path != "/" {
		return Server{}, errURL
	}
	s := Server{host: u.Hostname(), port: submissionPort, implicit: u.Scheme == "smtps"}
	if s.implicit {
		s.port = submissionsPort
	}
	if text := u.Port(); text != "" {
		if s.port, err = strconv.Atoi(text); err != nil || s.port < 1 || s.port > 65535 {
			return Server{}, errURL
		}
	}
	switch u.RawQuery {
	case "":
		s.plain = !s.implicit && isLoopback(s.host)
	case "tls=off":
		if s.implicit {
			return Server{}, errURL
		}
		s.plain = true
	default:
		return Server{}, errURL
	}
	if u.User != nil {
		password, set := u.User.Password()
		if s.user, s.password = u.User.Username(), password; s.user == "" || !set {
			return Server{}, errURL
		}
	}
	return s, nil
}

func isLoopback(host string) bool {
	ip, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && ip.IsLoopback()
}

// IsSet reports whether there is a server.
func (s Server) IsSet() bool { return s.host != "" }

// String returns the address of the server, without user and password.
func (s Server) String() string { return net.JoinHostPort(s.host, strconv.Itoa(s.port)) }

// ParseSender parses the sender of messages: an address, or a name and an address.
func ParseSender(text string) (*mail.Address, error) {
	address, err := mail.ParseAddress(text)
	if err != nil || strings.ContainsAny(text, "\r\n") {
		return nil, errors.New("it is neither billing@example.com nor Example <billing@example.com>")
	}
	return address, nil
}

// Message is a plain text message to one address.
type Message struct {
	From    *mail.Address
	To      string // address
	Subject string
	Text    string
	ID      string // left part of the Message-ID, which has the domain of the sender
	At      time.Time
}

// Send passes a message to the server. Errors: ErrRejected, ctx.Err(), and others, after which a later attempt may
// succeed. Errors never contain the recipient's address.
func (s Server) Send(ctx context.Context, m Message) error {
	if strings.ContainsAny(m.To+m.Subject+m.ID, "\r\n") {
		return fmt.Errorf("%w: a header would have several lines", ErrRejected)
	}
	message := gomail.NewMsg(gomail.WithNoDefaultUserAgent())
	message.FromMailAddress(m.From)
	if err := message.To(m.To); err != nil {
		return fmt.Errorf("%w: %w", ErrRejected, err)
	}
	_, domain, _ := strings.Cut(m.From.Address, "@")
	message.SetMessageIDWithValue(m.ID + "@" + domain)
	message.SetDateWithValue(m.At)
	message.SetGenHeader("Auto-Submitted", "auto-generated")
	message.Subject(m.Subject)
	message.SetBodyString(gomail.TypeTextPlain, m.Text)
	ctx, end := context.WithCancel(ctx)
	defer end()
	client, err := gomail.NewClient(s.host,
		append(s.options(), gomail.WithDialContextFunc(func(dialing context.Context, _, _ string) (net.Conn, error) {
			connection, err := s.dial(dialing)
			// the module does not follow ctx from here on, and leaves the connection open after an error
			if err == nil {
				context.AfterFunc(ctx, func() { connection.Close() })
			}
			return connection, err
		}))...)
	if err != nil {
		return err
	}
	conversation, err := client.DialToSMTPClientWithContext(ctx)
	if err != nil {
		return fmt.Errorf("connect to the mail server: %w", err)
	}
	err = client.SendWithSMTPClient(conversation, message)
	closed := client.CloseWithSMTPClient(conversation)
	if message.IsDelivered() { // it would arrive twice if an error of the end of the conversation counted
		return nil
	}
	var failed *gomail.SendError
	// Only an answer about this message that begins with 5 is final.
	if errors.As(err, &failed) && failed.ErrorCode() >= 500 && !failed.IsTemp() {
		return fmt.Errorf("%w: answer %d", ErrRejected, failed.ErrorCode())
	}
	if failed != nil { // its text contains the address
		err = fmt.Errorf("the mail server did not accept the message (%s): answer %d",
			failed.Reason, failed.ErrorCode())
	}
	return errors.Join(err, closed)
}

func (s Server) dial(ctx context.Context) (net.Conn, error) {
	address := cmp.Or(s.address, s.String())
	if s.implicit {
		return (&tls.Dialer{Config: s.tlsConfig()}).DialContext(ctx, "tcp", address)
	}
	return (&net.Dialer{}).DialContext(ctx, "tcp", address)
}

func (s Server) tlsConfig() *tls.Config {
	return &tls.Config{MinVersion: tls.VersionTLS12, ServerName: s.host, RootCAs: s.roots}
}

func (s Server) options() []gomail.Option {
	policy, auth := gomail.TLSMandatory, gomail.SMTPAuthAutoDiscover
	switch {
	case s.plain:
		policy, auth = gomail.NoTLS, gomail.SMTPAuthPlainNoEnc
	case s.implicit:
		policy = gomail.TLSOpportunistic // the connection is encrypted already, which the module finds with this policy
	}
	options := []gomail.Option{
		gomail.WithPort(s.port), gomail.WithTimeout(stepTime), gomail.WithoutNoop(), gomail.WithoutRset(),
		gomail.WithTLSPolicy(policy), gomail.WithTLSConfig(s.tlsConfig()),
	}
	if s.user != "" {
		options = append(options, gomail.WithSMTPAuth(auth), gomail.WithUsername(s.user),
			gomail.WithPassword(s.password))
	}
	return options
}
