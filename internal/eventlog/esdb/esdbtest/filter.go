package esdbtest

import (
	"regexp"
	"strings"

	"github.com/EventStore/EventStore-Client-Go/v4/protos/streams"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// filter selects events of a subscription.
type filter struct {
	byStream bool // otherwise by type
	prefixes []string
	regex    *regexp.Regexp // nil if there are prefixes
	window   uint32         // maximum number of events that a page examines
	interval uint32         // maximum number of events examined between two checkpoints
}

// newFilter returns the filter of a request, or nil if it has none.
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
			return nil, status.Errorf(codes.InvalidArgument, "the filter is not a regular expression: %v", err)
		}
	case len(expression.GetPrefix()) > 0:
		f.prefixes = expression.GetPrefix()
	default:
		return nil, status.Error(codes.InvalidArgument, "the filter has neither prefixes nor a regular expression")
	}
	if options.GetCount() == nil {
		f.window = options.GetMax()
	}
	f.interval = options.GetCheckpointIntervalMultiplier() * f.window
	if f.interval == 0 {
		return nil, status.Error(codes.InvalidArgument, "the window and the checkpoint interval of a filter must not be 0")
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
