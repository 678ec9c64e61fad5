package adminapi

import (
	"cmp"
	"net/http"

	"letterhead/commands"
)

func (x *exchange) getNotices(id string) error {
	return x.reply(x.api.Operations.Notices.Of(x.ctx, id))
}

// answerNotices answers a change with the notices of an account. Destinations are personal data, so they are not kept
// with the answer.
func (x *exchange) answerNotices(id string) error {
	out, err := x.api.Operations.Notices.Of(x.ctx, id)
	if err != nil {
		return err
	}
	remembered := out
	remembered.Webhook, remembered.Email = "", ""
	return x.answerOnce(http.StatusOK, out, remembered)
}

// setNotices answers PUT /admin/accounts/{id}/notices. It removes the settings that the body does not have.
func (x *exchange) setNotices(id string) error {
	return x.replaceNotices(id, commands.SetNotices{LowBalance: new(int64), Webhook: new(string), Email: new(string)})
}

// changeNotices answers PATCH /admin/accounts/{id}/notices. It keeps the settings that the body does not have.
func (x *exchange) changeNotices(id string) error { return x.replaceNotices(id, commands.SetNotices{}) }

// replaceNotices replaces the settings that are in the body, or in set.
func (x *exchange) replaceNotices(id string, set commands.SetNotices) error {
	in := struct {
		LowBalance *int64  `json:"low_balance"`
		Webhook    *string `json:"webhook"`
		Email      *string `json:"email"`
	}{set.LowBalance, set.Webhook, set.Email}
	if err := x.decode(&in); err != nil {
		return err
	}
	set = commands.SetNotices{Request: x.by(), AccountID: id, LowBalance: cmp.Or(in.LowBalance, set.LowBalance),
		Webhook: cmp.Or(in.Webhook, set.Webhook), Email: cmp.Or(in.Email, set.Email)}
	if _, err := x.api.Operations.Notices.Set(x.ctx, set); err != nil {
		return err
	}
	return x.answerNotices(id)
}

func (x *exchange) retryNotice(id string) error {
	notice, err := x.pathValue("notice")
	if err != nil {
		return err
	}
	if _, err := x.api.Operations.Notices.Retry(x.ctx, x.by(), id, notice); err != nil {
		return err
	}
	return x.answerNotices(id)
}
