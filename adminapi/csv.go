package adminapi

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"letterhead/domain/books"
	"letterhead/internal/web"
)

const (
	// fileRows is the number of rows that a file of a listing reads at a time.
	fileRows = maxLimit
	// writeWithin limits the time in which a client takes so many rows.
	writeWithin = 30 * time.Second
)

// listed serves a listing whose answer has rows of some name. With format=csv, the answer is a file with all rows from
// the cursor on, which is sent while they are read. Its columns are paths of values in a row.
func listed(rows string, columns []string, serve func(*exchange) error) func(*exchange) error {
	return func(x *exchange) error {
		query, err := url.ParseQuery(x.request.URL.RawQuery)
		if err != nil {
			return errQuery
		}
		if !query.Has("format") {
			return serve(x)
		}
		if !slices.Equal(query["format"], []string{"csv"}) {
			return invalid("The parameter format is csv, or left out for JSON.")
		}
		q := parameters{values: query, local: x.local}
		if q.limit(); q.err != nil {
			return q.err
		}
		query.Del("format")
		query.Set("limit", strconv.Itoa(fileRows))
		w := csv.NewWriter(x)
		for begun := false; ; begun = true {
			part, next, err := x.part(serve, query.Encode(), rows)
			if err != nil && begun { // the client must see that the file is not whole
				x.api.Logger.WarnContext(x.ctx, "a file of a listing ends early", "request_id", x.ID, "error", err)
				panic(http.ErrAbortHandler)
			} else if err != nil {
				return err
			}
			to := http.NewResponseController(x.ResponseWriter)
			_ = to.SetWriteDeadline(time.Now().Add(writeWithin)) // a writer in this process has none
			if !begun {
				x.Header().Set("Content-Type", "text/csv; charset=utf-8")
				x.Header().Set("Content-Disposition", fmt.Sprintf(`attachment; filename="%s.csv"`, rows))
				x.WriteHeader(http.StatusOK)
				_ = w.Write(columns) // w.Error has its error
			}
			for _, row := range part {
				cells := make([]string, len(columns))
				for i, column := range columns {
					cells[i] = cellOf(row, column)
				}
				_ = w.Write(cells) // as above
			}
			if w.Flush(); w.Error() != nil || next == "" {
				return nil // after an error, the client has left
			}
			_ = to.Flush() // the next write has its error
			query.Set("cursor", next)
		}
	}
}

// part returns the rows of a page of a listing, and the cursor of the next one. It fails if the page has neither all rows
// nor a cursor.
func (x *exchange) part(serve func(*exchange) error, query, rows string) (part []map[string]any, _ string, err error) {
	answer, inner := web.NewAnswer(), *x
	inner.Exchange = web.Exchange{ResponseWriter: answer, ID: x.ID}
	inner.request = x.request.Clone(x.ctx)
	inner.request.URL.RawQuery = query
	inner.request.Header.Del("Accept-Encoding")
	inner.anyLimit = true
	if err := serve(&inner); err != nil {
		return nil, "", err
	}
	var body map[string]json.RawMessage
	var of struct {
		Next  string `json:"next_cursor"`
		More  bool
		Total int
	}
	if err = errors.Join(json.Unmarshal(answer.Body.Bytes(), &body), json.Unmarshal(answer.Body.Bytes(), &of)); err == nil {
		d := json.NewDecoder(bytes.NewReader(body[rows]))
		d.UseNumber()
		err = d.Decode(&part)
	}
	if err == nil && of.Next == "" && (of.More || of.Total > len(part)) {
		err = invalid("A file of this listing has at most %d rows, and there may be more. Send a narrower filter.", fileRows)
	}
	return part, of.Next, err
}

// cellOf returns the value at a path such as account.name in a row; empty if the row has none.
func cellOf(row map[string]any, path string) string {
	name, rest, deeper := strings.Cut(path, ".")
	switch value := row[name].(type) {
	case map[string]any:
		if deeper {
			return cellOf(value, rest)
		}
	case string:
		return books.SafeCell(value)
	case json.Number, bool:
		return fmt.Sprint(value)
	}
	return ""
}
