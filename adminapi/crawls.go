package adminapi

import "net/http"

// warmBrands is the operation that begins to warm a list, whose body may be larger than others.
const warmBrands = "warmBrands"

// warmBrands answers POST /admin/crawls/warming. It does not wait for the crawls.
func (x *exchange) warmBrands(in struct {
	List string `json:"list"`
}) error {
	warmed, err := x.api.Operations.Warming.Start(x.ctx, x.ID, in.List)
	if err != nil {
		return err
	}
	return x.answerForNow(http.StatusAccepted, warmed) // rejected lines may have e-mail addresses, which are not stored
}

func (x *exchange) getWarming() error { return x.reply(x.api.Operations.Warming.Last(x.ctx)) }

func (x *exchange) cancelWarming() error {
	if err := x.api.Operations.Warming.Cancel(x.ctx); err != nil {
		return err
	}
	return x.getWarming()
}
