package console

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"net/http"
	"net/url"
	"strings"

	"letterhead/adminapi"
	"letterhead/domain/brand"
)

// brandsView is the data of the list of brands.
type brandsView struct {
	Brands     []adminapi.Brand `json:"brands"`
	NextCursor string           `json:"next_cursor"`
	Query      url.Values
}

// showBrands answers GET /brands. If the parameter domain is a whole domain or the id of a brand, it leads to the page of
// the brand.
func (x *exchange) showBrands() error {
	domain := x.Request.URL.Query().Get("domain")
	if id, err := brand.ParseIdentifier(domain); err == nil && x.Request.URL.Query().Get("format") == "" {
		return x.redirect("/brands/"+url.PathEscape(cmp.Or(id.Domain, strings.TrimSpace(domain))), "")
	}
	v := brandsView{Query: x.filter("domain", "status", "claimed", "without_logo", "cursor")}
	return x.list("/admin/brands", v.Query, "brands", view{Title: "Brands", Section: "Brands", Page: &v})
}

// brandView is the data of the page of a brand.
type brandView struct {
	Domain      string  `json:"domain"`
	Name        string  `json:"name"`
	Description string  `json:"description"`
	Claimed     bool    `json:"claimed"`
	Quality     float64 `json:"qualityScore"`
	Logos       []struct {
		Type    string `json:"type"`
		Theme   string `json:"theme"`
		Formats []struct {
			Src    string `json:"src"`
			Format string `json:"format"`
			Width  int    `json:"width"`
			Height int    `json:"height"`
		} `json:"formats"`
	} `json:"logos"`
	Colors []map[string]any `json:"colors"`

	AsOf   string // moment of the record; empty for the present one
	Record string // JSON
	Fields []string
	adminapi.BrandHistory
}

// showBrand answers GET /brands/{domain}. A domain whose crawls have all failed has a history and no record.
func (x *exchange) showBrand() error {
	path := "/admin/brands/" + url.PathEscape(x.Request.PathValue("domain"))
	query := x.filter("as_of")
	v := brandView{Fields: brand.Fields(), Domain: x.Request.PathValue("domain"), AsOf: query.Get("as_of")}
	var record json.RawMessage
	unknown, err := x.unknown(x.get(path, query, &record))
	if err != nil {
		return err
	}
	// A domain without events is unknown, too. The history of a restricted brand is not shown.
	if _, err := x.unknown(x.get(path+"/history", nil, &v)); err != nil {
		return err
	}
	if unknown {
		status := http.StatusOK
		if len(v.Changes) == 0 {
			status = http.StatusNotFound
		}
		return x.show(status, "brand", view{Title: v.Domain, Section: "Brands", Page: v})
	}
	if err := json.Unmarshal(record, &v); err != nil {
		return err
	}
	var text bytes.Buffer
	if err := json.Indent(&text, record, "", "  "); err != nil {
		return err
	}
	v.Record = text.String()
	return x.show(http.StatusOK, "brand", view{Title: v.Domain, Section: "Brands", Page: v})
}

// unknown reports whether an error means that there is no such thing, or that it is not shown, and returns every other
// one.
func (*exchange) unknown(err error) (bool, error) {
	if p, ok := errors.AsType[*problem](err); ok && (p.Status == http.StatusNotFound || p.Status == http.StatusConflict) {
		return true, nil
	}
	return false, err
}

func (x *exchange) changeBrand() error {
	domain, action := x.Request.PathValue("domain"), x.Request.PathValue("action")
	path := "/admin/brands/" + url.PathEscape(domain)
	overrides := path + "/overrides/" + url.PathEscape(x.Form.Get("field"))
	page := "/brands/" + url.PathEscape(domain)
	var send func() error
	switch action {
	case "override":
		send = func() error {
			value := json.RawMessage(x.Form.Get("value"))
			if !json.Valid(value) {
				return wrongInput("value", `The value is JSON, such as "Acme" with its quotes.`)
			}
			return x.call(http.MethodPut, overrides,
				map[string]any{"value": value, "reason": x.Form.Get("reason")}, nil)
		}
	case "remove":
		send = x.sender(http.MethodDelete, overrides)
	case "claim", "crawl":
		send = x.sender(http.MethodPost, path+"/"+action)
	case "withdraw":
		page = "/brands"
		send = x.sender(http.MethodPost, path+"/withdraw")
	default:
		return errNoPage
	}
	if action == "withdraw" {
		about := func(q *question) error {
			q.Subject = domain
			return nil
		}
		if asked, err := x.ask(action, about, x.showBrand); asked {
			return err
		}
	}
	return x.act(action, send, page, action, x.showBrand)
}

// crawlsView is the data of the page of crawls.
type crawlsView struct {
	Failures   []adminapi.Failure `json:"failures"`
	NextCursor string             `json:"next_cursor"`
	Query      url.Values
	Outcomes   []string
	Figures    counts
}

func (x *exchange) showCrawls() error {
	v := crawlsView{Query: x.filter("outcome", "domain", "from", "to", "cursor"), Outcomes: brand.Failures, Figures: x.counts(onCrawls)}
	return x.list("/admin/crawls/failures", v.Query, "crawls", view{Title: "Crawls", Section: "Crawls", Page: &v})
}
