package esdb_test

import (
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"letterhead/internal/eventlog"
	"letterhead/internal/eventlog/esdb"
	"letterhead/internal/eventlog/esdb/esdbtest"
	"letterhead/internal/eventlog/eventlogtest"
	"letterhead/internal/testmust"
	"letterhead/internal/testwait"
)

// serversOfBothWays are the two reactions of servers to a slow reader, by version: one drops it, the other
// switches it back to catching up.
var serversOfBothWays = []string{"23.10.8", "24.10.0"}

// Rule 6.
func TestContract_SlowReadersFallBehind(t *testing.T) {
	for _, version := range serversOfBothWays {
		t.Run(version, func(t *testing.T) {
			start := func(t *testing.T) *esdbtest.Server {
				return esdbtest.StartWith(t, esdbtest.Config{Version: version, LiveBuffer: 1})
			}
			eventlogtest.RunSubscribe(t, func(t *testing.T) eventlog.Log { return open(t, start(t), esdb.Config{}) })
			eventlogtest.RunNodes(t, func(t *testing.T) (_, _ eventlog.Log) {
				server := start(t)
				return open(t, server, esdb.Config{}), open(t, server, esdb.Config{})
			})
		})
	}
}

// Each append exceeds the server's buffer for a live reader: everything arrives, in order, and only the
// counter shows the interruptions.
func TestSubscription_TooSlow_Continues(t *testing.T) {
	const perAppend, most = 20, 1000
	for _, version := range serversOfBothWays {
		for name, filter := range map[string]eventlog.Filter{"all": {}, "filtered": {StreamPrefixes: []string{"account-"}}} {
			t.Run(version+" "+name, func(t *testing.T) {
				server := esdbtest.StartWith(t, esdbtest.Config{Version: version, LiveBuffer: perAppend - 1})
				registry, lines := prometheus.NewRegistry(), testwait.NewLines()
				l := open(t, server, esdb.Config{Registerer: registry, Logger: lines.Logger()})
				sub := testmust.Get(l.Subscribe(t.Context(), 0, filter))(t)
				defer sub.Close()
				resumes := func() float64 { return metric(t, registry, "letterhead_eventlog_subscription_resumes_total") }
				next := uint64(0)
				for i := uint64(0); resumes() < 3; i++ {
					if i == most {
						t.Fatalf("the counter is %v after %d appends, each of which is too large", resumes(), most)
					}
					testmust.Succeed(t, testmust.Err(l.Append(t.Context(), stream, eventlog.After(i*perAppend), batch(i*perAppend, perAppend))))
					for next < (i+1)*perAppend {
						b := testmust.Get(sub.Next(t.Context()))(t)
						for _, e := range b.Events {
							if e.Revision != next {
								t.Fatalf("revision = %d, want %d", e.Revision, next)
							}
							next++
						}
					}
				}
				for len(lines) > 0 {
					if line := <-lines; strings.Contains(line, "ubscription") {
						t.Errorf("logged above debug: %s", line)
					}
				}
			})
		}
	}
}

// During a burst, in which every append exceeds the server's buffer, a subscription falls behind once, and not with
// each append: catching up costs the server more than the events.
func TestSubscription_Burst_RarelyFallsBehind(t *testing.T) {
	const appends, perAppend = 300, 40
	for _, version := range serversOfBothWays {
		t.Run(version, func(t *testing.T) {
			server := esdbtest.StartWith(t, esdbtest.Config{Version: version})
			l := open(t, server, esdb.Config{})
			sub := testmust.Get(l.Subscribe(t.Context(), 0, eventlog.Filter{}))(t)
			defer sub.Close()
			appended := make(chan error, 1)
			go func() {
				var err error
				for i := uint64(0); i < appends && err == nil; i++ {
					_, err = l.Append(t.Context(), stream, eventlog.After(i*perAppend), batch(i*perAppend, perAppend))
				}
				appended <- err
			}()
			for next := uint64(0); next < appends*perAppend; {
				for _, e := range testmust.Get(sub.Next(t.Context()))(t).Events {
					if e.Revision != next {
						t.Fatalf("revision = %d, want %d", e.Revision, next)
					}
					next++
				}
			}
			testmust.Succeed(t, <-appended)
			if slow := server.Counts().Slow; slow > appends/20 {
				t.Errorf("the subscription fell behind %d times in %d appends", slow, appends)
			}
		})
	}
}
