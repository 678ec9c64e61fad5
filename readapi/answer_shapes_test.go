package readapi_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"letterhead/eventschemas"
	"letterhead/internal/testmust"
)

// The shapes of the service specification, repeated here. Additional and missing fields fail a test.
type (
	specBrand struct {
		ID              string           `json:"id"`
		Name            *string          `json:"name"`
		Domain          string           `json:"domain"`
		Claimed         bool             `json:"claimed"`
		Description     *string          `json:"description"`
		LongDescription *string          `json:"longDescription"`
		Links           []specLink       `json:"links"`
		Logos           []specLogo       `json:"logos"`
		Colors          []specColor      `json:"colors"`
		Fonts           []specFont       `json:"fonts"`
		Images          []specImage      `json:"images"`
		OGImage         *string          `json:"ogImage"`
		Company         *specCompany     `json:"company"`
		QualityScore    float64          `json:"qualityScore"`
		IsNSFW          bool             `json:"isNsfw"`
		Restriction     *specRestriction `json:"restriction"`
		URN             string           `json:"urn"`
		Status          string           `json:"status"`
		UpdatedAt       time.Time        `json:"updatedAt"`
	}
	specLink struct {
		Name string `json:"name"`
		URL  string `json:"url"`
	}
	specLogo struct {
		Type    string       `json:"type"`
		Theme   *string      `json:"theme"`
		Formats []specFormat `json:"formats"`
		Tags    []string     `json:"tags"`
	}
	specFormat struct {
		Src        string  `json:"src"`
		Format     string  `json:"format"`
		Background *string `json:"background"`
		Width      *int    `json:"width"`
		Height     *int    `json:"height"`
		Size       int     `json:"size"`
	}
	specColor struct {
		Hex        string `json:"hex"`
		Type       string `json:"type"`
		Brightness int    `json:"brightness"`
	}
	specFont struct {
		Name     string  `json:"name"`
		Type     string  `json:"type"`
		Origin   string  `json:"origin"`
		OriginID *string `json:"originId"`
		Weights  []int   `json:"weights"`
	}
	specImage struct {
		Type    string       `json:"type"`
		Formats []specFormat `json:"formats"`
		Tags    []string     `json:"tags"`
	}
	specCompany struct {
		Employees            *int            `json:"employees"`
		FoundedYear          *int            `json:"foundedYear"`
		Kind                 *string         `json:"kind"`
		Location             *specLocation   `json:"location"`
		Industries           []specIndustry  `json:"industries"`
		Ticker               *string         `json:"ticker"`
		FinancialIdentifiers specIdentifiers `json:"financialIdentifiers"`
	}
	specLocation struct {
		City        *string `json:"city"`
		State       *string `json:"state"`
		Country     *string `json:"country"`
		CountryCode *string `json:"countryCode"`
		Region      *string `json:"region"`
		Subregion   *string `json:"subregion"`
	}
	specIndustry struct {
		ID     string      `json:"id"`
		Name   string      `json:"name"`
		Slug   string      `json:"slug"`
		Emoji  string      `json:"emoji"`
		Score  float64     `json:"score"`
		Parent *specParent `json:"parent"`
	}
	specParent struct {
		ID    string `json:"id"`
		Name  string `json:"name"`
		Slug  string `json:"slug"`
		Emoji string `json:"emoji"`
	}
	specIdentifiers struct {
		ISIN   []string `json:"isin"`
		Ticker []string `json:"ticker"`
	}
	specRestriction struct {
		Code    string `json:"code"`
		Message string `json:"message"`
	}
	specAccount struct {
		Plan    string `json:"plan"`
		Credits struct {
			Balance   int64 `json:"balance"`
			Remaining int64 `json:"remaining"`
		} `json:"credits"`
		Period string `json:"period"`
		Usage  struct {
			Lookups  int64 `json:"lookups"`
			Logos    int64 `json:"logos"`
			Searches int64 `json:"searches"`
		} `json:"usage"`
		Limits struct {
			PerMinute        int    `json:"perMinute"`
			BatchSize        int    `json:"batchSize"`
			CrawlsPerMinute  int    `json:"crawlsPerMinute"`
			LogosPerMonth    *int64 `json:"logosPerMonth"`
			SearchesPerMonth *int64 `json:"searchesPerMonth"`
		} `json:"limits"`
		Key struct {
			ID   string `json:"id"`
			Kind string `json:"kind"`
		} `json:"key"`
	}
	specSearch struct {
		Query   string             `json:"query"`
		Results []specSearchResult `json:"results"`
	}
	specSearchResult struct {
		BrandID      *string  `json:"brandId"`
		Name         string   `json:"name"`
		Domain       string   `json:"domain"`
		Icon         string   `json:"icon"`
		Claimed      bool     `json:"claimed"`
		QualityScore *float64 `json:"qualityScore"`
	}
)

// decodeExactly decodes a body into a shape of the OpenAPI description and checks that encoding the shape
// again gives the same fields: none is missing, and none is null where the description has an array.
func decodeExactly[T any](t testing.TB, body []byte) T {
	t.Helper()
	var value T
	decoder := json.NewDecoder(bytes.NewReader(body))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&value); err != nil {
		t.Fatalf("%v in %s", err, body)
	}
	again := testmust.Get(json.Marshal(value))(t)
	if got, want := fieldsOf(t, body), fieldsOf(t, again); !slices.Equal(got, want) {
		t.Fatalf("fields of the answer\n%s\nfields of the OpenAPI description\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	return value
}

// fieldsOf lists the paths of a document with the kind of each value.
func fieldsOf(t testing.TB, body []byte) []string {
	t.Helper()
	var document any
	testmust.Succeed(t, json.Unmarshal(body, &document))
	var all []string
	var walk func(path string, v any)
	walk = func(path string, v any) {
		switch v := v.(type) {
		case map[string]any:
			all = append(all, path+" object")
			for k, inner := range v {
				walk(path+"."+k, inner)
			}
		case []any:
			all = append(all, path+" array")
			for i, inner := range v {
				walk(path+"["+strconv.Itoa(i)+"]", inner)
			}
		case nil:
			all = append(all, path+" null")
		default:
			all = append(all, path+" value")
		}
	}
	walk("", document)
	slices.Sort(all)
	return all
}

func decodeBrand(t testing.TB, body []byte) specBrand {
	t.Helper()
	return decodeExactly[specBrand](t, body)
}

func decodeAccount(t testing.TB, body []byte) specAccount {
	t.Helper()
	return decodeExactly[specAccount](t, body)
}

func seconds(t testing.TB, header string) time.Duration {
	t.Helper()
	n, err := strconv.Atoi(header)
	if err != nil {
		t.Fatalf("header %q is not whole seconds", header)
	}
	return time.Duration(n) * time.Second
}

// never is the script of a crawl that does not end.
func never(context.Context, eventschemas.CrawlRequested) ending { return ending{} }

// waitThen ends a crawl when the test says so.
func waitThen(release <-chan struct{}, e ending) func(context.Context, eventschemas.CrawlRequested) ending {
	return func(ctx context.Context, _ eventschemas.CrawlRequested) ending {
		select {
		case <-release:
			return e
		case <-ctx.Done():
			return ending{}
		}
	}
}

// dial sends raw bytes.
func (s *service) dial(request string) net.Conn {
	s.t.Helper()
	conn, err := net.Dial("tcp", strings.TrimPrefix(s.url, "http://"))
	s.must(err)
	s.must(conn.SetDeadline(time.Now().Add(waitLimit)))
	_, err = conn.Write([]byte(request))
	s.must(err)
	return conn
}

// raw sends raw bytes and reads one response.
func (s *service) raw(request string) (*http.Response, error) {
	s.t.Helper()
	conn := s.dial(request)
	defer conn.Close()
	return http.ReadResponse(bufio.NewReader(conn), nil)
}

func (s *service) rawStatus(request string) int {
	s.t.Helper()
	resp, err := s.raw(request)
	s.must(err)
	resp.Body.Close()
	return resp.StatusCode
}
