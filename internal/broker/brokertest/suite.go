package brokertest

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"letterhead/internal/broker"
	"letterhead/internal/testwait"
)

// timeout limits the wait for an expected event.
const timeout = testwait.Timeout

// topic is the topic used by the suite. Each case opens a separate broker.
const topic = "contract.live"

// Open returns a new, empty broker with the given configuration. The suite closes it.
type Open func(t *testing.T, cfg broker.Config) broker.Port

// Run tests the whole contract of broker.Port.
func Run(t *testing.T, open Open) {
	cases := []struct {
		name string
		run  func(t *testing.T, open Open)
	}{
		{"delivers a message unchanged", deliversIntact},
		{"keeps a message until a group subscribes", keepsUntilSubscribed},
		{"keeps the order of a key while handlers fail", keepsOrder},
		{"does not let one key block the others", keysAreIndependent},
		{"gives every group each message", groupsEachGetAll},
		{"shares a group's messages among its members", membersShare},
		{"retries a failed message", retries},
		{"dead-letters a message that fails and continues", deadLetters},
		{"treats a panic as a failure", survivesPanic},
		{"redelivers messages that cannot be handled now", redeliversNotNow},
		{"gives an interrupted message to the next member", redeliversInterrupted},
		{"rejects invalid messages", rejectsInvalid},
		{"ends Publish with its context", publishObeysContext},
		{"waits for handlers and then rejects messages", closes},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) { c.run(t, open) })
	}
}

// fast retries immediately, so that cases about failures are quick.
var fast = broker.Config{Retries: 3, RetryAfter: time.Millisecond, MaxRetryAfter: time.Millisecond}

// bench is one broker under test with its subscriptions.
type bench struct {
	t      *testing.T
	broker broker.Port
	wg     sync.WaitGroup
}

func start(t *testing.T, open Open, cfg broker.Config) *bench {
	b := &bench{t: t, broker: open(t, cfg)}
	t.Cleanup(func() {
		if err := b.broker.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
		b.wg.Wait()
	})
	return b
}

// publish publishes messages in the background, because Publish may wait for acknowledgements.
func (b *bench) publish(messages ...broker.Message) <-chan error {
	done := make(chan error, 1)
	b.wg.Go(func() { done <- b.broker.Publish(context.Background(), topic, messages...) })
	return done
}

// subscribe handles messages in the background; stop ends the subscription and waits for it.
func (b *bench) subscribe(of, group string, handle broker.Handler) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	b.wg.Go(func() {
		defer close(ended)
		if err := b.broker.Subscribe(ctx, of, group, handle); err != nil && !errors.Is(err, broker.ErrClosed) {
			b.t.Errorf("subscribe %s to %s: %v", group, of, err)
		}
	})
	return func() {
		cancel()
		testwait.Receive(b.t, ended, "the end of a subscription")
	}
}

func numbered(key string, n int) broker.Message {
	return broker.Message{ID: fmt.Sprintf("%s-%d", key, n), Key: key, Payload: fmt.Appendf(nil, "%d", n)}
}

func deliversIntact(t *testing.T, open Open) {
	b := start(t, open, fast)
	got := make(chan broker.Message, 1)
	b.subscribe(topic, "workers", func(_ context.Context, m broker.Message) error {
		got <- m
		return nil
	})
	sent := broker.Message{ID: "id-1", Key: "acme.com", Payload: []byte("{\"a\":\"\x00é\"}"), Metadata: map[string]string{"type": "CrawlRequested", "empty": ""}}
	published := b.publish(sent)
	m := testwait.Receive(t, got, "the message")
	if m.ID != sent.ID || m.Key != sent.Key || string(m.Payload) != string(sent.Payload) {
		t.Errorf("got %+v, want %+v", m, sent)
	}
	if len(m.Metadata) != len(sent.Metadata) || m.Metadata["type"] != "CrawlRequested" {
		t.Errorf("metadata is %v, want %v", m.Metadata, sent.Metadata)
	}
	if err := testwait.Receive(t, published, "Publish"); err != nil {
		t.Errorf("Publish: %v", err)
	}
}

func keepsUntilSubscribed(t *testing.T, open Open) {
	b := start(t, open, fast)
	published := b.publish(numbered("a", 0), numbered("a", 1))
	got := make(chan string, 2)
	b.subscribe(topic, "workers", func(_ context.Context, m broker.Message) error {
		got <- m.ID
		return nil
	})
	for _, want := range []string{"a-0", "a-1"} {
		if id := testwait.Receive(t, got, want); id != want {
			t.Errorf("got %s, want %s", id, want)
		}
	}
	if err := testwait.Receive(t, published, "Publish"); err != nil {
		t.Errorf("Publish: %v", err)
	}
}

func keepsOrder(t *testing.T, open Open) {
	const keys, each = 20, 25
	b := start(t, open, fast)
	var (
		mu      sync.Mutex
		next    = map[string]int{}
		tries   = map[string]int{}
		handled int
		all     = make(chan struct{})
	)
	b.subscribe(topic, "workers", func(_ context.Context, m broker.Message) error {
		mu.Lock()
		defer mu.Unlock()
		var n int
		fmt.Sscan(string(m.Payload), &n)
		tries[m.ID]++
		if n%7 == 3 && tries[m.ID] == 1 {
			return errors.New("not yet")
		}
		switch {
		case n < next[m.Key]: // a repeat
		case n > next[m.Key]:
			t.Errorf("key %s: received %d before %d", m.Key, n, next[m.Key])
		default:
			next[m.Key]++
			if handled++; handled == keys*each {
				close(all)
			}
		}
		return nil
	})
	var batch []broker.Message
	for n := range each {
		for k := range keys {
			batch = append(batch, numbered(fmt.Sprintf("key%d", k), n))
		}
	}
	published := b.publish(batch...)
	testwait.Receive(t, all, "all messages")
	if err := testwait.Receive(t, published, "Publish"); err != nil {
		t.Errorf("Publish: %v", err)
	}
}

func keysAreIndependent(t *testing.T, open Open) {
	const others = 64
	b := start(t, open, fast)
	stuck := make(chan struct{})
	free := make(chan string, others)
	b.subscribe(topic, "workers", func(ctx context.Context, m broker.Message) error {
		if m.Key == "stuck" {
			select {
			case <-stuck:
			case <-ctx.Done():
			}
			return nil
		}
		free <- m.Key
		return nil
	})
	first := b.publish(numbered("stuck", 0))
	var batch []broker.Message
	for i := range others {
		batch = append(batch, numbered(fmt.Sprintf("other%d", i), 0))
	}
	second := b.publish(batch...)
	// Some keys may be in the partition of the stuck key, but most are not.
	for range others / 4 {
		testwait.Receive(t, free, "a message of another key")
	}
	close(stuck)
	for _, published := range []<-chan error{first, second} {
		if err := testwait.Receive(t, published, "Publish"); err != nil {
			t.Errorf("Publish: %v", err)
		}
	}
}

func groupsEachGetAll(t *testing.T, open Open) {
	const messages = 40
	b := start(t, open, fast)
	collect := func(group string) <-chan string {
		got := make(chan string, messages*2)
		b.subscribe(topic, group, func(_ context.Context, m broker.Message) error {
			got <- m.ID
			return nil
		})
		return got
	}
	one, two := collect("one"), collect("two")
	// Both groups are subscribed when each has received a message.
	for seen := map[string]bool{}; len(seen) < 2; {
		b.publish(numbered("hello", len(seen)))
		select {
		case <-one:
			seen["one"] = true
		case <-two:
			seen["two"] = true
		case <-time.After(timeout):
			t.Fatal("a group received no message")
		}
	}
	var batch []broker.Message
	for i := range messages {
		batch = append(batch, numbered(fmt.Sprintf("k%d", i%5), i))
	}
	published := b.publish(batch...)
	for name, got := range map[string]<-chan string{"one": one, "two": two} {
		missing := map[string]bool{}
		for _, m := range batch {
			missing[m.ID] = true
		}
		for len(missing) > 0 {
			delete(missing, testwait.Receive(t, got, "all messages of group "+name))
		}
	}
	if err := testwait.Receive(t, published, "Publish"); err != nil {
		t.Errorf("Publish: %v", err)
	}
}

func membersShare(t *testing.T, open Open) {
	const messages = 60
	b := start(t, open, fast)
	got := make(chan string, messages*4)
	var ready [2]chan struct{}
	for i := range ready {
		ready[i] = make(chan struct{}, 1)
		b.subscribe(topic, "workers", func(_ context.Context, m broker.Message) error {
			if m.Metadata["hello"] == "" {
				got <- m.ID
				return nil
			}
			select {
			case ready[i] <- struct{}{}:
			default:
			}
			return nil
		})
	}
	// While members join, a message may be handled twice. Both have joined when each has received a message.
	deadline, cancel := context.WithTimeout(t.Context(), timeout)
	defer cancel()
	for n, there := 0, [2]bool{}; !there[0] || !there[1]; n++ {
		if deadline.Err() != nil {
			t.Fatalf("after %s only one member has received a message", timeout)
		}
		hello := numbered(fmt.Sprintf("hello%d", n), n)
		hello.Metadata = map[string]string{"hello": "yes"}
		if err := testwait.Receive(t, b.publish(hello), "Publish"); err != nil {
			t.Fatalf("Publish: %v", err)
		}
		for i := range ready {
			select {
			case <-ready[i]:
				there[i] = true
			default:
			}
		}
	}
	var batch []broker.Message
	for i := range messages {
		batch = append(batch, numbered(fmt.Sprintf("k%d", i), i))
	}
	published := b.publish(batch...)
	seen := map[string]int{}
	for len(seen) < messages {
		seen[testwait.Receive(t, got, "all messages")]++
	}
	if err := testwait.Receive(t, published, "Publish"); err != nil {
		t.Errorf("Publish: %v", err)
	}
	for id, n := range seen {
		if n > 1 {
			t.Errorf("message %s was handled %d times by a group without failures, want once", id, n)
		}
	}
}

func publishObeysContext(t *testing.T, open Open) {
	b := start(t, open, fast)
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if err := b.broker.Publish(ctx, topic, numbered("a", 0)); !errors.Is(err, context.Canceled) {
		t.Errorf("Publish with an ended context: %v, want context.Canceled", err)
	}
}

func rejectsInvalid(t *testing.T, open Open) {
	b := start(t, open, fast)
	got := make(chan string, 8)
	b.subscribe(topic, "workers", func(_ context.Context, m broker.Message) error {
		got <- m.ID
		return nil
	})
	tooMany := map[string]string{}
	for i := range broker.MaxMetadata + 1 {
		tooMany[fmt.Sprint(i)] = "x"
	}
	for name, m := range map[string]broker.Message{
		"no id":             {Key: "a"},
		"no key":            {ID: "1"},
		"payload too large": {ID: "1", Key: "a", Payload: make([]byte, broker.MaxPayloadBytes+1)},
		"key too large":     {ID: "1", Key: string(make([]byte, broker.MaxKeyBytes+1))},
		"too much metadata": {ID: "1", Key: "a", Metadata: tooMany},
	} {
		// The valid message before the invalid message must not be published either.
		if err := b.broker.Publish(t.Context(), topic, numbered("good", 0), m); !errors.Is(err, broker.ErrInvalid) {
			t.Errorf("%s: %v, want ErrInvalid", name, err)
		}
	}
	published := b.publish(numbered("last", 0))
	if id := testwait.Receive(t, got, "the valid message"); id != "last-0" {
		t.Errorf("received %s although its batch was invalid", id)
	}
	if err := testwait.Receive(t, published, "Publish"); err != nil {
		t.Errorf("Publish: %v", err)
	}
}
