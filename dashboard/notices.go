package dashboard

import (
	"errors"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/google/uuid"

	"letterhead/commands"
	"letterhead/domain/account"
	"letterhead/domain/notices"
	"letterhead/internal/web"
	"letterhead/operations"
)

// noticesView is the data of the page of notices.
type noticesView struct {
	Form      noticesForm
	Latest    []notices.Delivery
	PublicKey string // which verifies webhooks; empty without a webhook
	NoMail    bool   // the service sends no e-mail
	Done      string // a sentence about the action that led to the page
	SignIn    string // address to which links of the person are sent; empty if there is none
}

// noticesForm is the form of the settings as it was filled in. The problems are sentences for its fields.
type noticesForm struct {
	LowBalance, Webhook, Email                      string
	LowBalanceProblem, WebhookProblem, EmailProblem string
	Failed                                          string
}

func (x *exchange) showNotices() error { return x.showNoticesWith(http.StatusOK, nil) }

// showNoticesWith shows a form that was rejected, or else the settings.
func (x *exchange) showNoticesWith(status int, rejected *noticesForm) error {
	current, err := x.Operations.Notices.Of(x.Ctx, x.session.AccountID)
	if err != nil {
		return err
	}
	v := noticesView{Latest: current.Notices, NoMail: !x.Sessions.MailsLinks()}
	v.Form = noticesForm{LowBalance: strconv.FormatInt(current.LowBalance, 10), Webhook: current.Webhook,
		Email: current.Email}
	if rejected != nil {
		v.Form = *rejected
	}
	emails, err := x.Operations.SignIns.Emails(x.Ctx, x.session.AccountID)
	if err != nil {
		return err
	}
	if at := slices.IndexFunc(emails, func(e commands.Email) bool { return e.Person == x.session.Person }); at >= 0 {
		v.SignIn = emails[at].Address
	}
	if current.Webhook != "" {
		if key, err := x.Operations.Notices.SigningKey(); err == nil {
			v.PublicKey = key.Public()
		}
	}
	switch x.Request.URL.Query().Get("done") {
	case "saved":
		v.Done = "The settings are saved."
	case "retried":
		v.Done = "The notice is sent again."
	}
	return x.show(status, "notices", view{Title: "Notices", Section: "Notices", Page: v})
}

func (x *exchange) setNotices() error {
	f := noticesForm{LowBalance: strings.TrimSpace(x.Form.Get("low_balance")),
		Webhook: strings.TrimSpace(x.Form.Get("webhook")), Email: strings.TrimSpace(x.Form.Get("email"))}
	low, err := strconv.ParseInt(f.LowBalance, 10, 64)
	if f.LowBalance == "" {
		low, err = 0, nil
	}
	if err != nil || (commands.SetNotices{LowBalance: &low}).Validate() != nil {
		f.LowBalanceProblem = "Give a whole number of credits such as 100, or 0 for no notice."
	}
	if (commands.SetNotices{Webhook: &f.Webhook}).Validate() != nil {
		f.WebhookProblem =
			"Give an https URL on the public internet such as https://example.com/letterhead, or leave the field empty."
	}
	if (commands.SetNotices{Email: &f.Email}).Validate() != nil {
		f.EmailProblem = "Give one address such as billing@example.com, or leave the field empty."
	}
	if f.LowBalanceProblem+f.WebhookProblem+f.EmailProblem != "" {
		return x.showNoticesWith(http.StatusUnprocessableEntity, &f)
	}
	_, err = x.Operations.Notices.Set(x.Ctx, commands.SetNotices{
		Request: x.by(uuid.NewString()), AccountID: x.session.AccountID, LowBalance: &low, Webhook: &f.Webhook,
		Email: &f.Email,
	})
	switch {
	case errors.Is(err, operations.ErrNoNoticesKey):
		x.log(&problem{Status: http.StatusConflict, Cause: err})
		f.WebhookProblem = "This service cannot sign webhooks, because its operator has configured no key for it. Leave the field empty."
	case errors.Is(err, account.ErrClosed):
		f.Failed = "The account is closed, so it gets no notices."
	case err != nil:
		return err
	default:
		return x.redirect("/notices?done=saved")
	}
	return x.showNoticesWith(http.StatusConflict, &f)
}

func (x *exchange) retryNotice() error {
	id := x.Request.PathValue("id")
	err := notices.ErrUnknown
	if web.IsText(id) {
		_, err = x.Operations.Notices.Retry(x.Ctx, x.by(uuid.NewString()), x.session.AccountID, id)
	}
	switch {
	case errors.Is(err, notices.ErrUnknown):
		return web.NewProblem(http.StatusNotFound, "There is no such notice",
			"The account has no notice with this id.", nil)
	case err != nil && !errors.Is(err, notices.ErrNotDead): // which is sent again already, or has arrived
		return err
	}
	return x.redirect("/notices?done=retried")
}
