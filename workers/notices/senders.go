package notices

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/mail"
	"strconv"
	"time"

	"letterhead/domain/books"
	"letterhead/domain/notices"
	"letterhead/internal/email"
	"letterhead/internal/safehttp"
	"letterhead/internal/webhook"
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
	message := email.Message{From: m.From, To: address, ID: n.NoticeID, At: m.Now()}
	message.Subject, message.Text = m.text(n)
	err := m.Server.Send(ctx, message)
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

func (m *Mail) text(n Notice) (subject, text string) {
	const at = "2 January 2006 at 15:04 UTC"
	if n.Payment == nil {
		return fmt.Sprintf("Low balance: %d credits", n.Balance),
			fmt.Sprintf("On %s the balance of the account %s fell to %d credits, below its threshold of %d.\n\nTo add credits: %s\n",
				n.RaisedAt.UTC().Format(at), n.AccountID, n.Balance, n.Threshold, m.BillingURL)
	}
	attempt, amount := "Payment", ""
	if n.Payment.Attempt > 0 {
		attempt = fmt.Sprintf("Attempt %d to collect payment", n.Payment.Attempt)
	}
	subject = "A payment failed"
	if paid := n.Payment.Money; paid != nil {
		money := books.Grouped(string(books.AppendAmount(nil, paid.Minor, paid.Currency))) + " " + paid.Currency
		subject, amount = subject+": "+money, " ("+money+")"
	}
	return subject, fmt.Sprintf("%s %s%s for account %s failed on %s.\n\nTo pay, or to change how you pay: %s\n",
		attempt, n.Payment.ID, amount, n.AccountID, n.Payment.FailedAt.Format(at), m.BillingURL)
}

// Webhook sends notices to URLs, as Standard Webhooks specify. A redirect is a failure.
type Webhook struct {
	Client *safehttp.Client
	Key    func() (webhook.Key, error)
	Now    func() time.Time
}

// webhookBody is the same in each attempt.
type webhookBody struct {
	Type      string      `json:"type"`
	Timestamp time.Time   `json:"timestamp"`
	Data      webhookData `json:"data"`
}

type webhookData struct {
	NoticeID  string           `json:"notice_id"`
	AccountID string           `json:"account_id"`
	Balance   int64            `json:"balance"`
	Threshold int64            `json:"threshold"`
	Payment   *notices.Payment `json:"payment,omitempty"`
}

// Send implements Sender.
func (h *Webhook) Send(ctx context.Context, url string, n Notice) Result {
	key, err := h.Key()
	if err != nil {
		return Result{Reason: notConfigured}
	}
	body, err := json.Marshal(webhookBody{"account." + n.Kind,
		n.RaisedAt.UTC(), webhookData{n.NoticeID, n.AccountID, n.Balance, n.Threshold, n.Payment}})
	if err != nil {
		return Result{Reason: "not_encodable", Final: true}
	}
	headers := []safehttp.Header{{Name: "Content-Type", Value: "application/json"}}
	for name, value := range key.Headers(n.NoticeID, h.Now(), body) {
		headers = append(headers, safehttp.Header{Name: name, Value: value})
	}
	answer, err := h.Client.Post(ctx, url, body, safehttp.Limits{}, headers...)
	switch {
	case answer == nil:
		return Result{Reason: safehttp.Reason(err)}
	case answer.StatusCode >= 200 && answer.StatusCode < 300:
		return Result{}
	}
	return Result{Reason: "status_" + strconv.Itoa(answer.StatusCode), Final: answer.StatusCode == http.StatusGone}
}
