// Package emailtest is a mail server for tests. It speaks as much of SMTP (RFC 5321) as a client that submits messages needs.
package emailtest

import (
	"bufio"
	"crypto/tls"
	"encoding/base64"
	"fmt"
	"net"
	"net/textproto"
	"strings"
	"sync"
	"testing"
	"time"
)

// hangTime ends a conversation that hangs.
const hangTime = 30 * time.Second

// Message is a message that the server has accepted.
type Message struct {
	From, To  string
	Data      string
	Encrypted bool
	User      string // that has authenticated
}

// Config says how a server behaves.
type Config struct {
	TLS      *tls.Config // offers STARTTLS
	Implicit bool        // TLS from the first byte
	Password string      // accepts any user with this password; "" offers no authentication
	// Answer returns the answer to a command; "" for the usual one. After an answer of "drop" the server closes the
	// connection.
	Answer func(command string) string
}

// Server is a mail server on a loopback address.
type Server struct {
	cfg      Config
	listener net.Listener
	running  sync.WaitGroup

	mu       sync.Mutex
	messages []Message
}

// Start starts a server that stops when the test ends.
func Start(t testing.TB, cfg Config) *Server {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := &Server{cfg: cfg, listener: listener}
	s.running.Go(s.serve)
	t.Cleanup(func() {
		if err := listener.Close(); err != nil {
			t.Error(err)
		}
		s.running.Wait()
	})
	return s
}

// Addr returns the host and port of the server.
func (s *Server) Addr() string { return s.listener.Addr().String() }

// Messages returns the messages that were accepted.
func (s *Server) Messages() []Message {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]Message(nil), s.messages...)
}

func (s *Server) serve() {
	for {
		conn, err := s.listener.Accept()
		if err != nil {
			return // closed
		}
		s.running.Go(func() {
			defer conn.Close()
			if err := conn.SetDeadline(time.Now().Add(hangTime)); err == nil {
				s.converse(conn)
			}
		})
	}
}

// converse has a conversation, which ends with QUIT or with the connection.
func (s *Server) converse(conn net.Conn) {
	encrypted := s.cfg.Implicit
	if encrypted {
		conn = tls.Server(conn, s.cfg.TLS)
	}
	lines := textproto.NewReader(bufio.NewReader(conn))
	say := func(text string) bool {
		_, err := fmt.Fprint(conn, text, "\r\n")
		return err == nil
	}
	var m Message
	ok := say("220 mail.example ESMTP")
	for ok {
		line, err := lines.ReadLine()
		if err != nil {
			return
		}
		if s.cfg.Answer != nil {
			if answer := s.cfg.Answer(line); answer == "drop" {
				return
			} else if answer != "" {
				ok = say(answer)
				continue
			}
		}
		word, rest, _ := strings.Cut(line, " ")
		switch strings.ToUpper(word) {
		case "EHLO":
			extensions := "250-mail.example\r\n"
			if s.cfg.TLS != nil && !encrypted {
				extensions += "250-STARTTLS\r\n"
			}
			if s.cfg.Password != "" {
				extensions += "250-AUTH PLAIN\r\n"
			}
			ok = say(extensions + "250 8BITMIME")
		case "STARTTLS":
			if ok = say("220 go ahead"); ok {
				conn, encrypted = tls.Server(conn, s.cfg.TLS), true
				lines = textproto.NewReader(bufio.NewReader(conn))
			}
		case "AUTH":
			raw, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(rest, "PLAIN "))
			parts := strings.Split(string(raw), "\x00")
			if err != nil || len(parts) != 3 || parts[2] != s.cfg.Password {
				ok = say("535 authentication failed")
				continue
			}
			m.User = parts[1]
			ok = say("235 welcome")
		case "MAIL":
			m.From = address(rest)
			ok = say("250 ok")
		case "RCPT":
			m.To = address(rest)
			ok = say("250 ok")
		case "DATA":
			if !say("354 go ahead") {
				return
			}
			data, err := lines.ReadDotBytes()
			if err != nil {
				return
			}
			m.Data, m.Encrypted = string(data), encrypted
			s.mu.Lock()
			s.messages = append(s.messages, m)
			s.mu.Unlock()
			ok = say("250 queued")
		case "QUIT":
			say("221 bye")
			return
		default:
			ok = say("250 ok")
		}
	}
}

func address(rest string) string {
	_, rest, _ = strings.Cut(rest, "<")
	found, _, _ := strings.Cut(rest, ">")
	return found
}
