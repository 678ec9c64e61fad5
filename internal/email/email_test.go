package email_test

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"net/mail"
	"strings"
	"testing"
	"time"

	"letterhead/internal/email"
	"letterhead/internal/email/emailtest"
	"letterhead/internal/testcert"
	"letterhead/internal/testmust"
)

func parse(t *testing.T, url string) email.Server {
	t.Helper()
	s := testmust.Get(email.ParseURL(url))(t)
	return s
}

func message(t *testing.T) email.Message {
	t.Helper()
	from := testmust.Get(email.ParseSender("Brands of Bücher <billing@example.com>"))(t)
	return email.Message{From: from, To: "ann@customer.example", Subject: "Low balance: 9 credits", Text: "The balance is low.\n.\nBye\n", ID: "notice-1", At: time.Date(2026, 11, 21, 9, 0, 0, 0, time.UTC)}
}

func TestSend_MessageArrives(t *testing.T) {
	server := emailtest.Start(t, emailtest.Config{})
	testmust.Succeed(t, parse(t, "smtp://"+server.Addr()).Send(t.Context(), message(t)))
	all := server.Messages()
	if len(all) != 1 || all[0].From != "billing@example.com" || all[0].To != "ann@customer.example" {
		t.Fatalf("messages %+v", all)
	}
	got := testmust.Get(mail.ReadMessage(strings.NewReader(all[0].Data)))(t)
	for name, want := range map[string]string{
		"Message-Id": "<notice-1@example.com>", "Subject": "Low balance: 9 credits", "To": "<ann@customer.example>",
		"Date": "Sat, 21 Nov 2026 09:00:00 +0000", "Auto-Submitted": "auto-generated",
	} {
		if got.Header.Get(name) != want {
			t.Errorf("%s is %q, want %q", name, got.Header.Get(name), want)
		}
	}
	if from, err := mail.ParseAddress(got.Header.Get("From")); err != nil || from.Name != "Brands of Bücher" {
		t.Errorf("From is %v, %v", from, err)
	}
	if !strings.Contains(all[0].Data, "The balance is low.\n.\nBye") {
		t.Errorf("the text has changed: %q", all[0].Data)
	}
}

func TestSend_LineBreakInHeader_SendsNothing(t *testing.T) {
	server := emailtest.Start(t, emailtest.Config{})
	for _, change := range []func(*email.Message){
		func(m *email.Message) { m.To += "\r\nRCPT TO:<eve@example.com>" },
		func(m *email.Message) { m.To += "\nBcc: eve@example.com" },
		func(m *email.Message) { m.Subject += "\r\nBcc: eve@example.com" },
		func(m *email.Message) { m.ID += "\r\nBcc: eve@example.com" },
	} {
		m := message(t)
		change(&m)
		if err := parse(t, "smtp://"+server.Addr()).Send(t.Context(), m); !errors.Is(err, email.ErrRejected) {
			t.Errorf("Send = %v, want %v", err, email.ErrRejected)
		}
	}
	if all := server.Messages(); len(all) != 0 {
		t.Errorf("messages %+v, want none", all)
	}
}

func TestSend_UsesTLSAndPassword(t *testing.T) {
	authority := testmust.Get(testcert.NewAuthority())(t)
	for _, of := range []struct {
		scheme, host string
		implicit     bool
	}{{"smtp", "mail.example.com", false}, {"smtps", "localhost", true}} {
		server := emailtest.Start(t, emailtest.Config{TLS: &tls.Config{GetCertificate: authority.Certificate}, Implicit: of.implicit, Password: "s3cret"})
		_, port, err := net.SplitHostPort(server.Addr())
		testmust.Succeed(t, err)
		send := func(password string) error {
			s := parse(t, of.scheme+"://user:"+password+"@"+of.host+":"+port).Trusting(authority.Pool())
			if !of.implicit {
				s = s.Dialing(server.Addr())
			}
			return s.Send(t.Context(), message(t))
		}
		if err := send("s3cret"); err != nil {
			t.Fatalf("%s: %v", of.scheme, err)
		}
		if all := server.Messages(); len(all) != 1 || all[0].User != "user" || !all[0].Encrypted {
			t.Errorf("%s: messages %+v, want one of user, encrypted", of.scheme, all)
		}
		if err := send("wrong"); err == nil || strings.Contains(err.Error(), "wrong") || len(server.Messages()) != 1 {
			t.Errorf("%s with a wrong password: %v", of.scheme, err)
		}
	}
}

func TestSend_RejectedAddress_IsFinal(t *testing.T) {
	for answer, final := range map[string]bool{"550 no such user": true, "450 try again": false, "drop": false} {
		server := emailtest.Start(t, emailtest.Config{Answer: func(command string) string {
			if strings.HasPrefix(command, "RCPT") {
				return answer
			}
			return ""
		}})
		err := parse(t, "smtp://"+server.Addr()).Send(t.Context(), message(t))
		if err == nil || errors.Is(err, email.ErrRejected) != final {
			t.Errorf("after %q: %v, final %v", answer, err, final)
		}
	}
}

// A message that the server has accepted would arrive twice if an error after that counted.
func TestSend_ServerLeavesAfterMessage_Succeeds(t *testing.T) {
	server := emailtest.Start(t, emailtest.Config{Answer: func(command string) string {
		if command == "QUIT" || command == "RSET" {
			return "drop"
		}
		return ""
	}})
	if err := parse(t, "smtp://"+server.Addr()).Send(t.Context(), message(t)); err != nil || len(server.Messages()) != 1 {
		t.Errorf("Send = %v, messages %+v", err, server.Messages())
	}
}

func TestSend_ContextEnds_LeavesServer(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	left := make(chan struct{})
	server := emailtest.Start(t, emailtest.Config{Answer: func(command string) string {
		if strings.HasPrefix(command, "MAIL") {
			cancel()
			<-left // the server would answer now
		}
		return ""
	}})
	err := parse(t, "smtp://"+server.Addr()).Send(ctx, message(t))
	close(left)
	if err == nil || errors.Is(err, email.ErrRejected) || len(server.Messages()) != 0 {
		t.Errorf("Send = %v, messages %+v", err, server.Messages())
	}
}

// TLS is required: a server without it gets neither message nor password.
func TestSend_NoTLSOffered_SendsNothing(t *testing.T) {
	server := emailtest.Start(t, emailtest.Config{Password: "s3cret"})
	_, port, err := net.SplitHostPort(server.Addr())
	testmust.Succeed(t, err)
	const host = "mail.example.com" // not loopback, and not resolved
	s := parse(t, "smtp://user:s3cret@"+host+":"+port).Dialing(server.Addr())
	if err := s.Send(t.Context(), message(t)); err == nil || len(server.Messages()) != 0 {
		t.Errorf("Send = %v, messages %+v", err, server.Messages())
	}
	s = parse(t, "smtp://user:s3cret@"+host+":"+port+"?tls=off").Dialing(server.Addr())
	if err := s.Send(t.Context(), message(t)); err != nil || len(server.Messages()) != 1 {
		t.Errorf("Send with tls=off = %v, messages %+v", err, server.Messages())
	}
}

func TestParseURL_Faulty_ErrorOmitsPassword(t *testing.T) {
	for _, url := range []string{
		"", "mail.example.com", "http://mail.example.com", "smtp://", "smtp://:25", "smtp://a:0", "smtp://a:99999", "smtp://a/path", "smtp://a#f", "smtp://a?tls=no",
		"smtps://a?tls=off", "smtp://user@a", "smtp://:s3cret@a", "smtp://user:s3cret@a:x", "smtp://user:s3%zzcret@a",
	} {
		if _, err := email.ParseURL(url); err == nil || strings.Contains(err.Error(), "s3") {
			t.Errorf("ParseURL(%q) = %v", url, err)
		}
	}
	for url, want := range map[string]string{"smtp://mail.example.com": "mail.example.com:587", "smtps://u:s3cret@mail.example.com/": "mail.example.com:465", "smtp://10.0.0.1:25?tls=off": "10.0.0.1:25", "smtp://[::1]:25": "[::1]:25"} {
		if s := parse(t, url); s.String() != want || !s.IsSet() {
			t.Errorf("ParseURL(%q) = %s, want %s", url, s, want)
		}
	}
}

func TestParseSender_Faulty_IsRejected(t *testing.T) {
	for _, text := range []string{"", "billing", "a@b.example\r\nBcc: c@d.example", "a@b.example, c@d.example"} {
		if got, err := email.ParseSender(text); err == nil {
			t.Errorf("ParseSender(%q) = %v", text, got)
		}
	}
}

func FuzzParseURL(f *testing.F) {
	f.Add("smtp://user:s3cret@mail.example.com:25?tls=off")
	f.Fuzz(func(t *testing.T, text string) {
		if s, err := email.ParseURL(text); err == nil != s.IsSet() {
			t.Errorf("ParseURL(%q) = %s, %v", text, s, err)
		}
	})
}
