package adminapi

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"net/http"

	"github.com/google/uuid"

	"letterhead/commands"
	"letterhead/domain/brand"
	"letterhead/internal/web"
	"letterhead/projections/brands"
)

func (x *exchange) listBrands() error {
	q := x.query("domain", "status", "claimed", "without_logo", "sort", "limit", "cursor")
	s := brands.Selection{Status: q.oneOf("status", "ready", "partial", "failed"), Claimed: q.flag("claimed"),
		WithoutLogo: q.flag("without_logo")}
	s.Domain, s.DomainPart = q.domain()
	s.Sort, s.Descending = q.order(brands.Sorts)
	limit, last := q.limit(), after[brands.Listed](q)
	if err := x.read(q, brands.Name); err != nil {
		return err
	}
	rows, err := x.api.Index.List(x.ctx, s, last, limit+1)
	if err != nil {
		return err
	}
	return x.reply(page("brands", q, rows, limit, asItIs))
}

// domain returns the registrable domain in the path.
func (x *exchange) domain() (string, error) {
	domain, err := brand.ParseDomain(x.request.PathValue("domain"))
	if err != nil && !errors.As(err, new(*brand.InvalidDomainError)) {
		return "", invalid("%s.", sentence(err))
	}
	return domain, err
}

func (x *exchange) getBrand() error {
	q := x.query("as_of")
	at := q.moment(x.api.Now())
	if err := x.read(q, brands.Name); err != nil {
		return err
	}
	domain, err := x.identifiedDomain()
	if err != nil {
		return err
	}
	var body brands.Body
	if at.IsZero() {
		var entry *brands.Entry
		if entry, err = x.api.Index.Get(x.ctx, domain); err == nil {
			body = entry.Body
		}
	} else {
		body, err = brands.AsOf(x.ctx, x.api.Log, domain, at.Time)
	}
	if err != nil {
		return pastProblem(domain, err)
	}
	object := body.AppendTo(nil, x.api.BaseURL)
	if at.Provisional {
		object = append(bytes.TrimSuffix(object, []byte("}")), `,"provisional":true}`...)
	}
	x.send(http.StatusOK, web.JSON, append(object, '\n'))
	return nil
}

// identifiedDomain returns the domain of the brand that the path names by its domain or its id.
func (x *exchange) identifiedDomain() (string, error) {
	id, err := brand.ParseIdentifier(x.request.PathValue("domain"))
	if err != nil || id.Kind != brand.BrandID {
		return x.domain()
	}
	entry, err := x.api.Index.ByID(x.ctx, id.BrandID)
	if err != nil {
		return "", pastProblem(id.BrandID.String(), err)
	}
	return entry.Domain, nil
}

// pastProblem explains why the records of a brand are not shown.
func pastProblem(domain string, err error) error {
	switch {
	case errors.Is(err, brands.ErrNotFound):
		return notFound("The index does not have %s, or its owner had it taken out.", domain)
	case errors.Is(err, brands.ErrRestricted):
		return conflicting(domain + " is restricted now, so its older records are not shown.")
	}
	return err
}

func (x *exchange) getBrandHistory() error {
	domain, err := x.domain()
	if err != nil {
		return err
	}
	past, err := brands.History(x.ctx, x.api.Log, domain)
	return x.reply(past, pastProblem(domain, err))
}

// decideBrand decides about the brand in the path, and waits until look-ups follow.
func (x *exchange) decideBrand(do func(ctx context.Context, domain string) error) error {
	domain, err := x.domain()
	if err != nil {
		return err
	}
	if err := do(x.ctx, domain); err != nil {
		if errors.Is(err, brand.ErrNoSuchBrand) {
			return notFound("The index does not have %s.", domain)
		}
		return err
	}
	if err := x.folded(brands.Name); err != nil {
		_ = x.confirmed(errors.Join(commands.ErrNotSeen, err)) // which marks the answer
	}
	return x.answer(http.StatusOK, map[string]string{"domain": domain})
}

func (x *exchange) overrideField(in struct {
	Value  json.RawMessage `json:"value"`
	Reason string          `json:"reason"`
}) error {
	if in.Value == nil {
		return invalid("The field value is needed.")
	}
	if err := commands.CheckGiven(in.Reason); err != nil {
		return err
	}
	field := x.request.PathValue("field")
	return x.decideBrand(func(ctx context.Context, domain string) error {
		return x.api.Brands.OverrideField(ctx,
			commands.OverrideField{Request: x.by(), Domain: domain, Field: field, Value: in.Value, Reason: in.Reason})
	})
}

func (x *exchange) removeOverride() error {
	field := x.request.PathValue("field")
	return x.decideBrand(func(ctx context.Context, domain string) error {
		return x.api.Brands.RemoveOverride(ctx, commands.RemoveOverride{Request: x.by(), Domain: domain, Field: field})
	})
}

func (x *exchange) claimBrand() error {
	return x.decideBrand(func(ctx context.Context, domain string) error {
		return x.api.Brands.ClaimBrand(ctx, commands.ClaimBrand{Request: x.by(), Domain: domain})
	})
}

func (x *exchange) withdrawBrand() error {
	return x.decideBrand(func(ctx context.Context, domain string) error {
		return x.api.Brands.WithdrawBrand(ctx, commands.WithdrawBrand{Request: x.by(), Domain: domain, Reason: "owner"})
	})
}

// crawlBrand answers POST /admin/brands/{domain}/crawl. It does not wait for the crawl.
func (x *exchange) crawlBrand() error {
	domain, err := x.domain()
	if err != nil {
		return err
	}
	crawl, err := x.api.Brands.RequestCrawl(x.ctx, commands.RequestCrawl{
		Request: x.by(), CrawlID: crawlID(x.ID), Domain: domain, Cause: brand.CauseRefresh,
		Priority: brand.PriorityLive, Allowed: x.api.CrawlTimeout, Force: true,
	})
	if err != nil {
		return err
	}
	return x.answer(http.StatusAccepted, map[string]any{"domain": domain, "crawl_id": crawl.ID, "joined": crawl.Joined,
		"requested_at": crawl.RequestedAt})
}

// crawlID returns the id of the crawl that a request starts.
func crawlID(requestID string) string {
	return uuid.NewSHA1(keyNamespace, []byte("crawl/"+requestID)).String()
}

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
