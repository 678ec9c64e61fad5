package esdbtest_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/EventStore/EventStore-Client-Go/v4/esdb"

	"letterhead/internal/eventlog/esdb/esdbtest"
	"letterhead/internal/testmust"
)

// typed returns an event of a type.
func typed(name string) esdb.EventData {
	e := event()
	e.EventType = name
	return e
}

func mustAppend(t *testing.T, client *esdb.Client, stream string, events ...esdb.EventData) *esdb.WriteResult {
	t.Helper()
	r := testmust.Get(client.AppendToStream(t.Context(), stream, esdb.AppendToStreamOptions{}, events...))(t)
	return r
}

// received returns what a subscription delivers until it has caught up: the streams and types of events, and the
// checkpoints.
func received(t *testing.T, sub *esdb.Subscription) (events []string, checkpoints []esdb.Position) {
	t.Helper()
	for {
		switch e := sub.Recv(); {
		case e.SubscriptionDropped != nil:
			t.Fatal(e.SubscriptionDropped.Error)
		case e.EventAppeared != nil:
			events = append(events, e.EventAppeared.Event.StreamID+"/"+e.EventAppeared.Event.EventType)
		case e.CheckPointReached != nil:
			checkpoints = append(checkpoints, *e.CheckPointReached)
		case e.CaughtUp != nil:
			return events, checkpoints
		}
	}
}

func TestFilter_EachKind_SelectsEvents(t *testing.T) {
	client := connect(t, esdbtest.Start(t))
	mustAppend(t, client, "account-1", typed("Opened"), typed("Charged"))
	mustAppend(t, client, "brand-1", typed("Opened"))
	mustAppend(t, client, "account-2", typed("Closed"))
	for name, c := range map[string]struct {
		filter esdb.SubscriptionFilter
		want   []string
	}{
		"streams by prefixes": {esdb.SubscriptionFilter{Type: esdb.StreamFilterType, Prefixes: []string{"brand-", "account-2"}}, []string{"brand-1/Opened", "account-2/Closed"}},
		"streams by regex":    {esdb.SubscriptionFilter{Type: esdb.StreamFilterType, Regex: `^account-\d+$`}, []string{"account-1/Opened", "account-1/Charged", "account-2/Closed"}},
		"types by prefixes":   {esdb.SubscriptionFilter{Type: esdb.EventFilterType, Prefixes: []string{"C"}}, []string{"account-1/Charged", "account-2/Closed"}},
		"types by regex":      {*esdb.ExcludeSystemEventsFilter(), []string{"account-1/Opened", "account-1/Charged", "brand-1/Opened", "account-2/Closed"}},
		"nothing":             {esdb.SubscriptionFilter{Type: esdb.EventFilterType, Prefixes: []string{"Z"}}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			sub := testmust.Get(client.SubscribeToAll(t.Context(), esdb.SubscribeToAllOptions{From: esdb.Start{}, Filter: &c.filter}))(t)
			defer sub.Close()
			if got, _ := received(t, sub); fmt.Sprint(got) != fmt.Sprint(c.want) {
				t.Errorf("got %v, want %v", got, c.want)
			}
		})
	}
	if _, err := client.SubscribeToAll(t.Context(), esdb.SubscribeToAllOptions{
		From: esdb.Start{}, Filter: &esdb.SubscriptionFilter{Type: esdb.EventFilterType, Regex: "("},
	}); err == nil {
		t.Error("an invalid regular expression was accepted")
	}
}

// Checkpoints must arrive at the requested interval, which counts filtered events too. In the live phase a checkpoint
// has the position of the last event.
func TestCheckpoint_FilteredEvents_ArriveAtInterval(t *testing.T) {
	client := connect(t, esdbtest.Start(t))
	var last *esdb.WriteResult
	const count = 100
	for range count {
		last = mustAppend(t, client, "other", event())
	}
	sub, err := client.SubscribeToAll(t.Context(), esdb.SubscribeToAllOptions{
		From: esdb.Start{}, Filter: &esdb.SubscriptionFilter{Type: esdb.StreamFilterType, Prefixes: []string{"mine"}},
		MaxSearchWindow: 10, CheckpointInterval: 2,
	})
	testmust.Succeed(t, err)
	defer sub.Close()
	_, checkpoints := received(t, sub)
	if len(checkpoints) < count/20 {
		t.Errorf("%d checkpoints in %d events, want at least %d", len(checkpoints), count, count/20)
	}
	for i, p := range checkpoints {
		if i > 0 && p.Commit < checkpoints[i-1].Commit || p.Commit > last.CommitPosition {
			t.Errorf("checkpoint %d of %v is out of order or after the end at %d", i, checkpoints, last.CommitPosition)
		}
	}
	for range 20 {
		last = mustAppend(t, client, "other", event())
	}
	e := sub.Recv()
	if p := e.CheckPointReached; p == nil || p.Commit != last.CommitPosition || p.Prepare != p.Commit {
		t.Errorf("live, got %+v, want a checkpoint at %d", e, last.CommitPosition)
	}
}

func TestSubscription_OneStream_DeliversItsEvents(t *testing.T) {
	client := connect(t, esdbtest.Start(t))
	for stream, c := range map[string]struct {
		from esdb.StreamPosition
		want string
	}{
		"start":    {esdb.Start{}, "[start/A start/B start/C]"},
		"revision": {esdb.Revision(0), "[revision/B revision/C]"},
		"end":      {esdb.End{}, "[]"},
	} {
		mustAppend(t, client, stream, typed("A"), typed("B"), typed("C"))
		mustAppend(t, client, "other", typed("D"))
		sub := testmust.Get(client.SubscribeToStream(t.Context(), stream, esdb.SubscribeToStreamOptions{From: c.from}))(t)
		if got, _ := received(t, sub); fmt.Sprint(got) != c.want {
			t.Errorf("from %s: %v, want %s", stream, got, c.want)
		}
		mustAppend(t, client, "other", typed("X"))
		mustAppend(t, client, stream, typed("New"))
		if e := sub.Recv().EventAppeared; e == nil || e.Event.EventType != "New" {
			t.Errorf("from %s: live, got %+v, want the new event", stream, e)
		}
		if err := sub.Close(); err != nil {
			t.Error(err)
		}
	}
}

// The client finds nodes by gossip, and a follower names the leader in its error.
func TestCluster_FollowerRefuses_ClientFindsLeader(t *testing.T) {
	server := esdbtest.StartWith(t, esdbtest.Config{Listen: []string{"127.0.0.1:0", "127.0.0.1:0"}, FollowersReject: true})
	addresses := server.Addresses()
	follower := connectTo(t, "esdb+discover://"+addresses[0]+"?tls=false&nodePreference=follower")
	_, err := appendTo(t, follower, esdb.NoStream{}, event())
	if !isCode(err, esdb.ErrorCodeNotLeader) {
		t.Fatalf("append on a follower: %v, want not leader", err)
	}
	if _, err := appendTo(t, follower, esdb.NoStream{}, event()); err != nil {
		t.Errorf("append after the follower named the leader: %v", err)
	}
	leader := connectTo(t, "esdb+discover://"+addresses[1]+"?tls=false")
	if _, err := appendTo(t, leader, esdb.Revision(0), event()); err != nil {
		t.Errorf("append on the leader: %v", err)
	}
	server.StopNode(0)
	server.Lead(1)
	survivor := connectTo(t, "esdb+discover://"+addresses[1]+"?tls=false")
	if _, err := appendTo(t, survivor, esdb.Revision(1), event()); err != nil {
		t.Errorf("append after a node stopped: %v", err)
	}
}

// A request that arrives twice must append once, with an exact revision and with any revision.
func TestAppend_DuplicatedRequest_AppendsOnce(t *testing.T) {
	server := esdbtest.Start(t)
	client := connect(t, server)
	for i, expected := range []esdb.ExpectedRevision{esdb.NoStream{}, esdb.Revision(0), esdb.Any{}} {
		server.Faults.Append(esdbtest.Duplicate)
		if r, err := appendTo(t, client, expected, event()); err != nil || r.NextExpectedVersion != uint64(i) {
			t.Errorf("append %d: %+v, %v", i, r, err)
		}
	}
}

func TestChaos_Set_ParsesAndValidates(t *testing.T) {
	var c esdbtest.Chaos
	for _, text := range []string{"lose-reply=0.01", "lose-request=0.02", "duplicate=0.1", "not-leader=0.03", "hang=0.001",
		"delay=5ms@0.5", "reset=10s", "drop=20s", "down=60s/5s", "seed=7"} {
		if err := c.Set(text); err != nil {
			t.Error(err)
		}
	}
	want := esdbtest.Chaos{Seed: 7, LoseReply: 0.01, LoseRequest: 0.02, Duplicate: 0.1, NotLeader: 0.03, Hang: 0.001,
		Delay: 5 * time.Millisecond, Delayed: 0.5, ResetEvery: 10 * time.Second, DropEvery: 20 * time.Second,
		DownEvery: time.Minute, DownFor: 5 * time.Second}
	if c != want {
		t.Errorf("got %+v, want %+v", c, want)
	}
	if err := c.Validate(); err != nil {
		t.Error(err)
	}
	for _, text := range []string{"", "rain=1", "lose-reply", "lose-reply=often", "delay=5ms", "down=60s", "reset=5", "seed=-1"} {
		var c esdbtest.Chaos
		if c.Set(text) == nil {
			t.Errorf("%q was accepted", text)
		}
	}
	for _, bad := range []esdbtest.Chaos{{LoseReply: 1.1}, {Hang: -0.1}, {LoseReply: 0.6, Duplicate: 0.6}, {Delayed: 2}, {ResetEvery: -1}, {DownEvery: 1}} {
		if bad.Validate() == nil {
			t.Errorf("%+v was accepted", bad)
		}
	}
}

// Random faults and faults at intervals must occur.
func TestChaos_RandomAndTimedFaults_Occur(t *testing.T) {
	server := esdbtest.StartWith(t, esdbtest.Config{Chaos: esdbtest.Chaos{Seed: 1, NotLeader: 0.5, DropEvery: time.Millisecond}})
	client := connect(t, server)
	rejected := 0
	for range 50 {
		if _, err := appendTo(t, client, esdb.Any{}, event()); isCode(err, esdb.ErrorCodeNotLeader) {
			rejected++
		}
	}
	if rejected == 0 || rejected == 50 {
		t.Errorf("%d of 50 appends had a fault with probability 0.5", rejected)
	}
	sub, err := client.SubscribeToAll(t.Context(), esdb.SubscribeToAllOptions{From: esdb.End{}})
	if err != nil { // the subscription was dropped before it began
		return
	}
	defer sub.Close()
	for sub.Recv().SubscriptionDropped == nil {
	}
}

func connectTo(t *testing.T, connection string) *esdb.Client {
	t.Helper()
	conf := testmust.Get(esdb.ParseConnectionString(connection))(t)
	conf.Logger = esdb.NoopLogging()
	client := testmust.Get(esdb.NewClient(conf))(t)
	t.Cleanup(func() { testmust.Succeed(t, client.Close()) })
	return client
}
