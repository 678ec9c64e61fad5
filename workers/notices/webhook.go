package notices

import (
	"context"
	"encoding/json"
	"net/http"
	"strconv"
	"time"

	"letterhead/domain/notices"
	"letterhead/internal/safehttp"
	"letterhead/internal/webhook"
)

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
