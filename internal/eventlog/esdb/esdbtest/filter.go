package esdbtest

import (
	"regexp"
	"strings"

	"github.com/EventStore/EventStore-Client-Go/v4/protos/streams"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// filter chooses events of a subscription.
type filter struct {
	byStream bool // else by type
	prefixes []string
	regex    *regexp.Regexp // nil when there are prefixes
	window   uint32         // how many events a page looks at
	interval uint32         // how many are looked at between two checkpoints, at most
}

// newFilter reads a request's filter, nil for none.
func newFilter(options *streams.ReadReq_Options_FilterOptions) (*filter, error) {
	if options == nil {
		return nil, nil
	}
	f := &filter{window: readBatch}
	expression := options.GetEventType()
	if expression == nil {
		f.byStream, expression = true, options.GetStreamIdentifier()
	}
	switch {
	case expression.GetRegex() != "":
		var err error
		if f.regex, err = regexp.Compile(expression.GetRegex()); err != nil {
			return nil, status.Errorf(codes.InvalidArgument, "the filter is no regular expression: %v", err)
		}
	case len(expression.GetPrefix()) > 0:
		f.prefixes = expression.GetPrefix()
	default:
		return nil, status.Error(codes.InvalidArgument, "a filter has neither prefixes nor a regular expression")
	}
	if options.GetCount() == nil {
		f.window = options.GetMax()
	}
	f.interval = options.GetCheckpointIntervalMultiplier() * f.window
	if f.interval == 0 {
		return nil, status.Error(codes.InvalidArgument, "a filter's window and its checkpoint interval must not be 0")
	}
	return f, nil
}

func (f *filter) allows(r *record) bool {
	name := r.typ
	if f.byStream {
		name = r.stream
	}
	if f.regex != nil {
		return f.regex.MatchString(name)
	}
	for _, prefix := range f.prefixes {
		if strings.HasPrefix(name, prefix) {
			return true
		}
	}
	return false
}
