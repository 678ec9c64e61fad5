package eventlog_test

import (
	"errors"
	"testing"

	"github.com/google/uuid"

	"letterhead/internal/eventlog"
)

func TestExpected_TextAndNextRevision(t *testing.T) {
	for _, c := range []struct {
		expected eventlog.Expected
		text     string
		next     uint64
	}{
		{eventlog.NoStream(), "no stream", 0},
		{eventlog.After(0), "no stream", 0},
		{eventlog.Exact(0), "revision 0", 1},
		{eventlog.After(8), "revision 7", 8},
	} {
		if next := c.expected.Next(); c.expected.String() != c.text || next != c.next {
			t.Errorf("%s: next %d; want %s, %d", c.expected, next, c.text, c.next)
		}
	}
}

func TestFilter_Match(t *testing.T) {
	for _, c := range []struct {
		filter eventlog.Filter
		want   bool
	}{
		{eventlog.Filter{}, true},
		{eventlog.Filter{StreamPrefixes: []string{"account-"}}, true},
		{eventlog.Filter{StreamPrefixes: []string{"brand-", "acc"}}, true},
		{eventlog.Filter{StreamPrefixes: []string{"ccount-"}}, false},
		{eventlog.Filter{EventTypes: []string{"KeyIssued", "KeyRevoked"}}, true},
		{eventlog.Filter{EventTypes: []string{"Key"}}, false},
		{eventlog.Filter{StreamPrefixes: []string{"account-"}, EventTypes: []string{"KeyRevoked"}}, false},
		{eventlog.Filter{StreamPrefixes: []string{"brand-"}, EventTypes: []string{"KeyIssued"}}, false},
	} {
		if got := c.filter.Match("account-1", "KeyIssued"); got != c.want {
			t.Errorf("%+v: %v, want %v", c.filter, got, c.want)
		}
	}
}

// The error names all problems of an event, and the event.
func TestCheckAppend_SeveralProblems_ReportsAll(t *testing.T) {
	good := eventlog.Proposed{ID: uuid.Max, Type: "Counted", Data: []byte(`{}`)}
	err := eventlog.CheckAppend("account-1", []eventlog.Proposed{good, {SchemaVersion: -1}})
	if !errors.Is(err, eventlog.ErrInvalid) {
		t.Fatalf("the error is %v", err)
	}
	const want = `append to account-1, event 1 (""): invalid request to the event log: nil event id
invalid request to the event log: empty event type
invalid request to the event log: negative schema version`
	if err.Error() != want {
		t.Errorf("the error is\n%v\nwant\n%s", err, want)
	}
	if err := eventlog.CheckAppend("account-1", []eventlog.Proposed{good}); err != nil {
		t.Errorf("a good event: %v", err)
	}
}
