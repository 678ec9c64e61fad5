package esdbtest_test

import (
	"strings"
	"testing"

	"github.com/EventStore/EventStore-Client-Go/v4/esdb"

	"letterhead/internal/eventlog/esdb/esdbtest"
	"letterhead/internal/testmust"
	"letterhead/internal/testwait"
)

// A subscriber receives nothing while the server sends the last page before the live phase, and meanwhile more events
// are appended than the server buffers. Servers before 24.2 drop the subscription; later ones return it to catching up.
func TestSubscriber_TooSlow_IsDroppedOrFallsBehind(t *testing.T) {
	const page, late = 30, 40
	for version, dropped := range map[string]bool{"23.10.8": true, "24.2.0": false} {
		t.Run(version, func(t *testing.T) {
			server := esdbtest.StartWith(t, esdbtest.Config{Version: version})
			client := connect(t, server)
			for range page {
				large := event()
				large.Data = make([]byte, 600<<10) // together more than the 16 MiB that gRPC buffers
				testmust.Succeed(t, testmust.Err(appendTo(t, client, esdb.Any{}, large)))
			}
			sub := testmust.Get(client.SubscribeToAll(t.Context(), esdb.SubscribeToAllOptions{From: esdb.Start{}}))(t)
			defer sub.Close()
			if _, ok := testwait.Until(testwait.Timeout, func() bool { return server.Counts().Sent > 0 }); !ok {
				t.Fatal("the server sent nothing")
			}
			events := make([]esdb.EventData, late)
			for i := range events {
				events[i] = event()
			}
			testmust.Succeed(t, testmust.Err(appendTo(t, client, esdb.Any{}, events...)))
			ours, fell := 0, 0
			for ours < page+late {
				e := sub.Recv()
				switch {
				case e.SubscriptionDropped != nil:
					if err := e.SubscriptionDropped.Error; !dropped || !strings.Contains(err.Error(), "while transitioning to live. Client resubscription required.") {
						t.Errorf("the subscription was dropped after %d events: %v", ours, err)
					}
					return
				case e.FellBehind != nil:
					fell++
				case e.EventAppeared != nil && e.EventAppeared.Event.EventType == event().EventType:
					ours++
				}
			}
			if dropped || fell != 1 {
				t.Errorf("all events arrived, and the subscription fell behind %d times; want dropped: %t", fell, dropped)
			}
		})
	}
}
