package notices

import (
	"context"
	"errors"
	"fmt"
	"net/mail"
	"time"

	"letterhead/internal/email"
)

// Mail sends notices to e-mail addresses, as plain text.
type Mail struct {
	Server     email.Server
	From       *mail.Address
	BillingURL string // where credits are added
	Now        func() time.Time
}

// Send implements Sender.
func (m *Mail) Send(ctx context.Context, address string, n Notice) Result {
	err := m.Server.Send(ctx, email.Message{
		From: m.From, To: address, ID: n.NoticeID, At: m.Now(),
		Subject: fmt.Sprintf("Low balance: %d credits", n.Balance),
		Text: fmt.Sprintf("On %s the balance of the account %s fell to %d credits, below its threshold of %d.\n\nTo add credits: %s\n",
			n.RaisedAt.UTC().Format("2 January 2006 at 15:04 UTC"), n.AccountID, n.Balance, n.Threshold, m.BillingURL),
	})
	switch {
	case err == nil:
		return Result{}
	case errors.Is(err, email.ErrRejected):
		return Result{Reason: "rejected", Final: true}
	case errors.Is(ctx.Err(), context.Canceled):
		return Result{Reason: "canceled"}
	case ctx.Err() != nil:
		return Result{Reason: "timeout"}
	}
	return Result{Reason: "mail_server"}
}
