package eventlogtest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"letterhead/internal/eventlog"
)

// RunRead tests reads of a log without concurrent writers.
func RunRead(t *testing.T, open Open) {
	for name, test := range map[string]func(*fixture){
		"stream from every revision in both directions": readStreamBothWays,
		"stream that does not exist":                    readNothing,
		"all from every position":                       readAllFromEverywhere,
		"all with filters":                              readAllFiltered,
		"pages of large events":                         readLarge,
		"head":                                          readHead,
		"own writes immediately":                        readOwnWrites,
		"malformed":                                     readMalformed,
		"canceled context":                              readContext,
		"closed":                                        readClosed,
	} {
		t.Run(name, func(t *testing.T) { test(start(t, open)) })
	}
}

// mixed appends events of three kinds of streams alternately and returns their number.
func (f *fixture) mixed() uint64 {
	revisions := map[string]uint64{}
	n := uint64(0)
	for round := range uint64(7) {
		for _, stream := range []string{"account-1", "brand-acme.com", "account-2", "usage-1-202611"} {
			batch := events(n+1, n+2)
			batch[1].Type = "Tallied"
			if round%3 == 0 {
				batch = batch[:1]
			}
			if _, err := f.log.Append(f.ctx, stream, eventlog.After(revisions[stream]), batch); err != nil {
				f.t.Fatal(err)
			}
			revisions[stream] += uint64(len(batch))
			n += uint64(len(batch))
		}
	}
	return n
}

func readStreamBothWays(f *fixture) {
	f.mixed()
	whole := f.stream("account-2")
	count := uint64(len(whole))
	for _, limit := range []int{1, 2, 7, eventlog.MaxPage} {
		for from := range count + 3 {
			got, err := f.log.ReadStream(f.ctx, "account-2", from, eventlog.Forward, limit)
			if err != nil {
				f.t.Fatal(err)
			}
			want := whole[min(from, count):]
			same(f.t, fmt.Sprintf("forward from %d, limit %d", from, limit), got, want[:min(limit, len(want))])

			got, err = f.log.ReadStream(f.ctx, "account-2", from, eventlog.Backward, limit)
			if err != nil {
				f.t.Fatal(err)
			}
			want = slices.Clone(whole[:min(from+1, count)])
			slices.Reverse(want)
			same(f.t, fmt.Sprintf("backward from %d, limit %d", from, limit), got, want[:min(limit, len(want))])
		}
	}
	last, err := f.log.ReadStream(f.ctx, "account-2", eventlog.End, eventlog.Backward, 1)
	if err != nil {
		f.t.Fatal(err)
	}
	same(f.t, "backward from the end", last, whole[count-1:])
	none, err := f.log.ReadStream(f.ctx, "account-2", eventlog.End, eventlog.Forward, 1)
	if err != nil || len(none) != 0 {
		f.t.Errorf("forward from the end gave %d events, %v, want 0", len(none), err)
	}
}

func readNothing(f *fixture) {
	f.append("there", eventlog.NoStream(), 1)
	for _, direction := range []eventlog.Direction{eventlog.Forward, eventlog.Backward} {
		for _, name := range []string{"not-there", "ther", "there-2"} {
			got, err := f.log.ReadStream(f.ctx, name, 0, direction, 10)
			if err != nil || len(got) != 0 {
				f.t.Errorf("reading %s gave %d events, %v, want 0", name, len(got), err)
			}
		}
	}
}

func readAllFromEverywhere(f *fixture) {
	page, err := f.log.ReadAll(f.ctx, 0, eventlog.Filter{}, 10)
	if err != nil || len(page.Events) != 0 || !page.End {
		f.t.Fatalf("the empty log gave %+v, %v", page, err)
	}
	n := f.mixed()
	whole := f.all(0, eventlog.Filter{}, eventlog.MaxPage)
	if uint64(len(whole)) != n {
		f.t.Fatalf("the log holds %d events, want %d", len(whole), n)
	}
	for i := range whole {
		if i > 0 && whole[i].Position <= whole[i-1].Position {
			f.t.Fatalf("position %d comes after position %d", whole[i].Position, whole[i-1].Position)
		}
		if whole[i].ID != id(uint64(i)+1) {
			f.t.Fatalf("event %d of the global order differs from append number %d", i, i+1)
		}
	}
	for _, limit := range []int{1, 3, 1000} {
		for i := range whole {
			same(f.t, fmt.Sprintf("after event %d, limit %d", i, limit),
				f.all(whole[i].Position, eventlog.Filter{}, limit), whole[i+1:])
		}
	}
	head := f.head()
	page, err = f.log.ReadAll(f.ctx, head, eventlog.Filter{}, 10)
	if err != nil || len(page.Events) != 0 || !page.End || page.Next < head {
		f.t.Errorf("after the end: %+v, %v", page, err)
	}
}

var filters = []eventlog.Filter{
	{},
	{StreamPrefixes: []string{"account-"}},
	{StreamPrefixes: []string{"account-2", "brand-"}},
	{EventTypes: []string{"Tallied"}},
	{EventTypes: []string{"Tallied", "Counted"}},
	{StreamPrefixes: []string{"usage-", "brand-"}, EventTypes: []string{"Tallied"}},
	{EventTypes: []string{"Tall"}},             // a prefix of a type is not the type
	{StreamPrefixes: []string{"account-10"}},   // longer than an existing stream
	{StreamPrefixes: []string{"ccount-", "_"}}, // inside a name, not at its start
}

func choose(filter eventlog.Filter, from []eventlog.Recorded) []eventlog.Recorded {
	var out []eventlog.Recorded
	for _, e := range from {
		named := len(filter.StreamPrefixes) == 0
		for _, p := range filter.StreamPrefixes {
			named = named || strings.HasPrefix(e.Stream, p)
		}
		if named && (len(filter.EventTypes) == 0 || slices.Contains(filter.EventTypes, e.Type)) {
			out = append(out, e)
		}
	}
	return out
}

func readAllFiltered(f *fixture) {
	f.mixed()
	whole := f.all(0, eventlog.Filter{}, eventlog.MaxPage)
	for _, filter := range filters {
		for _, limit := range []int{1, 4, 1000} {
			for _, i := range []int{0, 1, len(whole) / 2, len(whole) - 1} {
				what := fmt.Sprintf("filter %+v after event %d, limit %d", filter, i, limit)
				same(f.t, what, f.all(whole[i].Position, filter, limit), choose(filter, whole[i+1:]))
			}
		}
	}
	// A subscription whose filter selects nothing must still advance, or its lag would grow forever.
	var at eventlog.Position
	for end := false; !end; {
		page, err := f.log.ReadAll(f.ctx, at, eventlog.Filter{EventTypes: []string{"Never"}}, 10)
		if err != nil || len(page.Events) != 0 {
			f.t.Fatalf("%d events, %v, want 0", len(page.Events), err)
		}
		at, end = page.Next, page.End
	}
	if last := whole[len(whole)-1].Position; at < last {
		f.t.Errorf("a filter that selects nothing stops at %d, but the last event is at %d", at, last)
	}
}

func readLarge(f *fixture) {
	const count, perAppend = 300, 6
	for n := uint64(0); n < count; n += perAppend {
		var batch []eventlog.Proposed
		for i := range uint64(perAppend) {
			batch = append(batch, sized(n+i+1, 64<<10))
		}
		if _, err := f.log.Append(f.ctx, "large", eventlog.After(n), batch); err != nil {
			f.t.Fatal(err)
		}
	}
	got := f.all(0, eventlog.Filter{}, eventlog.MaxPage)
	if len(got) != count {
		f.t.Fatalf("%d events, want %d", len(got), count)
	}
	for i, e := range got {
		if e.ID != id(uint64(i)+1) || len(e.Data) != 64<<10 {
			f.t.Fatalf("event %d differs from the one appended there", i)
		}
	}
}

func readHead(f *fixture) {
	if head := f.head(); head != 0 {
		f.t.Errorf("the empty log's head is %d, want 0", head)
	}
	f.append("s", eventlog.NoStream(), 1, 2)
	read := f.stream("s")
	if head := f.head(); head != read[1].Position {
		f.t.Errorf("the head is %d, but the last event is at %d", head, read[1].Position)
	}
	f.rejected(eventlog.ErrWrongRevision, "s", eventlog.NoStream(), events(9))
	if head := f.head(); head != read[1].Position {
		f.t.Errorf("a rejected append moved the head from %d to %d", read[1].Position, head)
	}
}

func readOwnWrites(f *fixture) {
	var before eventlog.Position
	for n := range uint64(50) {
		got := f.append("s", eventlog.After(n), n+1)
		last, err := f.log.ReadStream(f.ctx, "s", eventlog.End, eventlog.Backward, 1)
		if err != nil || len(last) != 1 || last[0].ID != id(n+1) {
			f.t.Fatalf("the event just appended is not the stream's last: %v, %v", last, err)
		}
		if head := f.head(); head < last[0].Position {
			f.t.Fatalf("the head is %d, before the event just appended at %d", head, last[0].Position)
		}
		if new := f.all(before, eventlog.Filter{}, 1); len(new) != 1 || new[0].ID != id(n+1) {
			f.t.Fatalf("after %d the global order holds %+v, want the event just appended", before, new)
		}
		if got.Position < last[0].Position {
			f.t.Fatalf("the append returned position %d, but the event is at %d", got.Position, last[0].Position)
		}
		before = got.Position
	}
}

func readMalformed(f *fixture) {
	for _, limit := range []int{0, -1, eventlog.MaxPage + 1} {
		if _, err := f.log.ReadStream(f.ctx, "s", 0, eventlog.Forward, limit); !errors.Is(err, eventlog.ErrInvalid) {
			f.t.Errorf("reading a stream with limit %d: %v", limit, err)
		}
		if _, err := f.log.ReadAll(f.ctx, 0, eventlog.Filter{}, limit); !errors.Is(err, eventlog.ErrInvalid) {
			f.t.Errorf("reading all with limit %d: %v", limit, err)
		}
	}
	for _, stream := range []string{"", "$all"} {
		if _, err := f.log.ReadStream(f.ctx, stream, 0, eventlog.Forward, 1); !errors.Is(err, eventlog.ErrInvalid) {
			f.t.Errorf("reading stream %q: %v", stream, err)
		}
	}
}

// readers calls every read and passes its error on.
func (f *fixture) readers(ctx context.Context, check func(what string, err error)) {
	_, err := f.log.ReadStream(ctx, "s", 0, eventlog.Forward, 1)
	check("ReadStream", err)
	_, err = f.log.ReadAll(ctx, 0, eventlog.Filter{}, 1)
	check("ReadAll", err)
	_, err = f.log.Head(ctx)
	check("Head", err)
	_, err = f.log.Subscribe(ctx, 0, eventlog.Filter{})
	check("Subscribe", err)
}

func readContext(f *fixture) {
	f.append("s", eventlog.NoStream(), 1)
	ended, cancel := context.WithCancel(f.ctx)
	cancel()
	f.readers(ended, func(what string, err error) {
		if !errors.Is(err, context.Canceled) {
			f.t.Errorf("%s with a canceled context: %v", what, err)
		}
	})
}

func readClosed(f *fixture) {
	f.append("s", eventlog.NoStream(), 1)
	if err := f.log.Close(); err != nil {
		f.t.Fatal(err)
	}
	f.readers(f.ctx, func(what string, err error) {
		if !errors.Is(err, eventlog.ErrClosed) {
			f.t.Errorf("%s on a closed log: %v", what, err)
		}
	})
}
