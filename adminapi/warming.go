package adminapi

import (
	"net/http"

	"letterhead/internal/warming"
	"letterhead/operations"
)

// warmBrands is the operation that begins to warm a list, whose body may be larger than others.
const warmBrands = "warmBrands"

// Warming is the progress of a list of domains that are crawled in the background.
type Warming struct {
	ID        string `json:"id"`
	State     string `json:"state"`
	StartedAt string `json:"started_at"`
	ChangedAt string `json:"changed_at"`
	Accepted  int    `json:"accepted"`
	Examined  int    `json:"examined"`
	Requested int    `json:"requested"`
	Fresh     int    `json:"fresh"`
	Skipped   int    `json:"skipped"`
	Repeated  int    `json:"repeated"`
	*Lines
}

// Lines are the lines of a list whose domains are not crawled.
type Lines struct {
	Duplicates int                       `json:"duplicates"`
	Rejected   int                       `json:"rejected"`
	First      []operations.RejectedLine `json:"first_rejected"`
}

func warmingOf(l warming.List) Warming {
	return Warming{ID: l.ID, State: l.State, StartedAt: l.StartedAt.Format(timeLayout),
		ChangedAt: l.ChangedAt.Format(timeLayout), Accepted: l.Total, Examined: min(l.Next, l.Total),
		Requested: l.Requested, Fresh: l.Fresh, Skipped: l.Skipped, Repeated: l.Repeated}
}

// warmBrands answers POST /admin/crawls/warming. It does not wait for the crawls.
func (x *exchange) warmBrands(in struct {
	List string `json:"list"`
}) error {
	l, read, err := x.api.Operations.Warming.Start(x.ctx, x.ID, in.List)
	if err != nil {
		return err
	}
	answer := warmingOf(l)
	answer.Lines = &Lines{Duplicates: read.Duplicates, Rejected: read.Rejected,
		First: append([]operations.RejectedLine{}, read.First...)}
	return x.answerForNow(http.StatusAccepted, answer) // rejected lines may have e-mail addresses, which are not stored
}

func (x *exchange) getWarming() error {
	l, err := x.api.Operations.Warming.Last(x.ctx)
	return x.reply(warmingOf(l), err)
}

func (x *exchange) cancelWarming() error {
	l, err := x.api.Operations.Warming.Cancel(x.ctx)
	return x.reply(warmingOf(l), err)
}
