package signinmail_test

import (
	"cmp"
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"letterhead/domain/account"
	"letterhead/domain/signin"
	"letterhead/internal/email"
	"letterhead/internal/email/emailtest"
	"letterhead/internal/testmust"
	"letterhead/internal/testwait"
	"letterhead/workers/signinmail"
)

// links are accounts, with a person unless it is the owner, by the address of the person. Accounts that are closed have no
// links.
type links struct {
	accounts map[string][]string
	closed   string
	full     string       // has too many links
	loading  atomic.Int64 // failures of the next calls for account c
	issued   atomic.Int64
}

func (l *links) WithEmail(_ context.Context, address string) ([]signin.Person, error) {
	var people []signin.Person
	for _, text := range l.accounts[address] {
		accountID, person, _ := strings.Cut(text, "/")
		people = append(people, signin.Person{AccountID: accountID, ID: cmp.Or(person, signin.Owner)})
	}
	return people, nil
}

func (l *links) Issue(_ context.Context, of signin.Person) (signinmail.Link, error) {
	accountID := of.AccountID
	if accountID == l.closed {
		return signinmail.Link{}, account.ErrClosed
	}
	if accountID == l.full {
		return signinmail.Link{}, signin.ErrTooManyLinks
	}
	if accountID == "c" && l.loading.Add(-1) >= 0 {
		return signinmail.Link{}, errors.New("the account is being loaded")
	}
	l.issued.Add(1)
	return signinmail.Link{Person: of, URL: "https://brands.example.com/dashboard/sign-in?account=" + accountID, Expires: time.Date(2026, 11, 21, 9, 15, 0, 0, time.UTC)}, nil
}

// start runs a mailer until the test ends.
func start(t *testing.T, l *links, answer func(command string) string) (*signinmail.Mailer, *emailtest.Server, testwait.Lines) {
	t.Helper()
	mails := emailtest.Start(t, emailtest.Config{Answer: answer})
	server := testmust.Get(email.ParseURL("smtp://" + mails.Addr()))(t)
	from := testmust.Get(email.ParseSender("Brands <brands@example.com>"))(t)
	lines := testwait.NewLines()
	m := signinmail.New(signinmail.Config{Server: server, From: from, Service: "https://brands.example.com", Links: l, Now: time.Now, Logger: lines.Logger(), Pause: time.Millisecond})
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() { ended <- m.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	return m, mails, lines
}

func send(t *testing.T, m *signinmail.Mailer, address string) {
	t.Helper()
	testmust.Succeed(t, m.Send(address))
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
	l := &links{accounts: map[string][]string{"ann@example.com": {"a", "b", "c/p2"}}, closed: "b"}
	m, mails, _ := start(t, l, nil)
	send(t, m, "stranger@example.com")
	send(t, m, "ann@example.com")
	message := arrived(t, mails, 1)[0]
	if message.To != "ann@example.com" {
		t.Errorf("the message is to %s", message.To)
	}
	for _, part := range []string{"Account a:", "sign-in?account=3Da", "Account c, as p2:", "sign-in?account=3Dc", "21 November 2026 at 09:15 UTC", "https://brands.example.com"} {
		if !strings.Contains(message.Data, part) {
			t.Errorf("the message lacks %q:\n%s", part, message.Data)
		}
	}
	if strings.Contains(message.Data, "account=3Db") {
		t.Errorf("the message has a link of the closed account:\n%s", message.Data)
	}
}

func TestSend_ServerRejectsAddress_IsNotTriedAgain(t *testing.T) {
	var attempts atomic.Int64
	m, _, log := start(t, &links{accounts: map[string][]string{"gone@example.com": {"a"}}}, func(command string) string {
		if strings.HasPrefix(command, "RCPT") {
			attempts.Add(1)
			return "550 no such user"
		}
		return ""
	})
	send(t, m, "gone@example.com")
	if text := testwait.Receive(t, log, "a warning"); strings.Contains(text, "gone@") {
		t.Errorf("the log has the address: %s", text)
	}
	if n := attempts.Load(); n != 1 {
		t.Errorf("%d attempts, want 1", n)
	}
}

func TestSend_ServerFails_IsTriedAgainWithTheSameLink(t *testing.T) {
	for failures, want := range map[int64]int{2: 1, 3: 0} {
		var left atomic.Int64
		left.Store(failures)
		l := &links{accounts: map[string][]string{"ann@example.com": {"a"}}}
		m, mails, log := start(t, l, func(command string) string {
			if strings.HasPrefix(command, "RCPT") && left.Add(-1) >= 0 {
				return "450 later"
			}
			return ""
		})
		send(t, m, "ann@example.com")
		if want == 0 {
			if text := testwait.Receive(t, log, "a warning"); strings.Contains(text, "ann@") || !strings.Contains(text, "450") {
				t.Errorf("the log should have the answer, and not the address: %s", text)
			}
		}
		arrived(t, mails, want)
		if n := l.issued.Load(); n != 1 {
			t.Errorf("after %d failures %d links were issued, want 1", failures, n)
		}
	}
}

func TestSend_LinkCannotBeIssuedYet_MessageHasAllThatCan(t *testing.T) {
	for failures, want := range map[int64]bool{2: true, 3: false} {
		l := &links{accounts: map[string][]string{"ann@example.com": {"a", "c", "d"}}}
		l.loading.Store(failures)
		m, mails, _ := start(t, l, nil)
		send(t, m, "ann@example.com")
		message := arrived(t, mails, 1)[0]
		for account, want := range map[string]bool{"a": true, "c": want, "d": true} {
			if strings.Contains(message.Data, "sign-in?account=3D"+account) != want {
				t.Errorf("after %d failures: link of account %s should be in the message: %t\n%s", failures, account, want, message.Data)
			}
		}
	}
}

func TestSend_AccountHasTooManyLinks_IsLogged(t *testing.T) {
	m, mails, log := start(t, &links{accounts: map[string][]string{"ann@example.com": {"a", "b"}}, full: "a"}, nil)
	send(t, m, "ann@example.com")
	if message := arrived(t, mails, 1)[0]; !strings.Contains(message.Data, "account=3Db") {
		t.Errorf("the message lacks the link of the other account:\n%s", message.Data)
	}
	if text := testwait.Receive(t, log, "a warning"); !strings.Contains(text, "account=a") || strings.Contains(text, "ann@") {
		t.Errorf("the log should have the account, and not the address: %s", text)
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
