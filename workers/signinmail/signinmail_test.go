package signinmail_test

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"letterhead/domain/account"
	"letterhead/internal/email"
	"letterhead/internal/email/emailtest"
	"letterhead/internal/testwait"
	"letterhead/workers/signinmail"
)

// links are accounts by the address of their owner. Accounts that are closed have no links.
type links struct {
	accounts map[string][]string
	closed   string
	issued   atomic.Int64
}

func (l *links) WithEmail(_ context.Context, address string) ([]string, error) {
	return l.accounts[address], nil
}

func (l *links) Issue(_ context.Context, accountID string) (signinmail.Link, error) {
	if accountID == l.closed {
		return signinmail.Link{}, account.ErrClosed
	}
	l.issued.Add(1)
	return signinmail.Link{AccountID: accountID, URL: "https://brands.example.com/dashboard/sign-in?account=" + accountID, Expires: time.Date(2026, 11, 21, 9, 15, 0, 0, time.UTC)}, nil
}

// start runs a mailer until the test ends.
func start(t *testing.T, l *links, answer func(command string) string) (*signinmail.Mailer, *emailtest.Server) {
	t.Helper()
	mails := emailtest.Start(t, emailtest.Config{Answer: answer})
	server, err := email.ParseURL("smtp://" + mails.Addr())
	if err != nil {
		t.Fatal(err)
	}
	from, err := email.ParseSender("Brands <brands@example.com>")
	if err != nil {
		t.Fatal(err)
	}
	m := signinmail.New(signinmail.Config{Server: server, From: from, Service: "https://brands.example.com", Links: l, Now: time.Now, Logger: slog.New(slog.NewTextHandler(io.Discard, nil))})
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() { ended <- m.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	return m, mails
}

func send(t *testing.T, m *signinmail.Mailer, address string) {
	t.Helper()
	if err := m.Send(address); err != nil {
		t.Fatal(err)
	}
}

// arrived waits for a number of messages.
func arrived(t *testing.T, mails *emailtest.Server, n int) []emailtest.Message {
	t.Helper()
	testwait.Until(testwait.Timeout, func() bool { return len(mails.Messages()) >= n })
	all := mails.Messages()
	if len(all) != n {
		t.Fatalf("messages %+v, want %d", all, n)
	}
	return all
}

func TestSend_AddressOfAccounts_GetsTheirLinksInOneMessage(t *testing.T) {
	l := &links{accounts: map[string][]string{"ann@example.com": {"a", "b", "c"}}, closed: "b"}
	m, mails := start(t, l, nil)
	send(t, m, "stranger@example.com")
	send(t, m, "ann@example.com")
	message := arrived(t, mails, 1)[0]
	if message.To != "ann@example.com" {
		t.Errorf("the message is to %s", message.To)
	}
	for _, part := range []string{"Account a:", "sign-in?account=3Da", "Account c:", "sign-in?account=3Dc", "21 November 2026 at 09:15 UTC", "https://brands.example.com"} {
		if !strings.Contains(message.Data, part) {
			t.Errorf("the message lacks %q:\n%s", part, message.Data)
		}
	}
	if strings.Contains(message.Data, "account=3Db") {
		t.Errorf("the message has a link of the closed account:\n%s", message.Data)
	}
}

func TestSend_ServerRejectsAddress_IsNotTriedAgain(t *testing.T) {
	l := &links{accounts: map[string][]string{"gone@example.com": {"a"}, "ann@example.com": {"b"}}}
	var rejected atomic.Int64
	m, mails := start(t, l, func(command string) string {
		if strings.HasPrefix(command, "RCPT") && strings.Contains(command, "gone@") {
			rejected.Add(1)
			return "550 no such user"
		}
		return ""
	})
	send(t, m, "gone@example.com")
	send(t, m, "ann@example.com")
	arrived(t, mails, 1)
	testwait.Until(testwait.Timeout, func() bool { return rejected.Load() > 0 })
	if n := rejected.Load(); n != 1 {
		t.Errorf("%d attempts, want 1", n)
	}
}

func TestSend_TooManyWait_IsRefused(t *testing.T) {
	m := signinmail.New(signinmail.Config{})
	var err error
	for range 1000 {
		if err = m.Send("ann@example.com"); err != nil {
			break
		}
	}
	if !errors.Is(err, signinmail.ErrFull) {
		t.Errorf("Send = %v, want %v", err, signinmail.ErrFull)
	}
}
