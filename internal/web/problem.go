package web

import (
	"errors"
	"fmt"
	"time"
)

// Problem is an error as an answer reports it.
type Problem struct {
	Status     int
	Code       string        // for programs; pages have none
	Title      string        // of a page; answers for programs have none
	Text       string        // a sentence on which the reader can act
	RetryAfter time.Duration // of a 429 or 503, in whole seconds
	Details    any           // for programs
	Field      string        // of the form that the problem is about; empty if it is not known
	Cause      error         // for the log
}

func (p *Problem) Error() string {
	if p.Cause != nil {
		return fmt.Sprintf("%d %s%s: %s", p.Status, p.Code, p.Title, p.Cause)
	}
	return fmt.Sprintf("%d %s%s: %s", p.Status, p.Code, p.Title, p.Text)
}

func (p *Problem) Unwrap() error { return p.Cause }

// Row is a row of a table of errors: the problem as which errors are reported.
type Row struct {
	When func(error) bool
	Problem
	Say func(error) string // returns the text; nil if that of the problem is fixed
	// Expected errors are not logged, because the request or the state of its subject causes them.
	Expected bool
}

// ProblemOf returns the problem that an error is or wraps, or else that of the first row for the error. The last row
// should be for all errors.
func ProblemOf(err error, rows []Row) *Problem {
	var p *Problem
	if errors.As(err, &p) {
		return p
	}
	for i := range rows {
		row := &rows[i]
		if !row.When(err) {
			continue
		}
		found := row.Problem
		if row.Say != nil {
			found.Text = row.Say(err)
		}
		if !row.Expected {
			found.Cause = err
		}
		return &found
	}
	return nil
}

// Any is Row.When of the last row.
func Any(error) bool { return true }

// NewProblem returns the problem of a page. cause may be nil.
func NewProblem(status int, title, text string, cause error) *Problem {
	return &Problem{Status: status, Title: title, Text: text, Cause: cause}
}
