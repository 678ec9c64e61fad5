package inprocess_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"letterhead/internal/broker"
	"letterhead/internal/broker/brokertest"
	"letterhead/internal/broker/inprocess"
	"letterhead/internal/testmust"
)

func open(t *testing.T, cfg broker.Config, transport inprocess.Config) *broker.Bus {
	t.Helper()
	b := testmust.Get(broker.New(cfg, inprocess.New(transport)))(t)
	return b
}

// Rule 6.
func TestContract(t *testing.T) {
	brokertest.Run(t, func(t *testing.T, cfg broker.Config) broker.Port {
		return open(t, cfg, inprocess.Config{RedeliverAfter: time.Millisecond})
	})
}

func message(key string, n int) broker.Message {
	return broker.Message{ID: fmt.Sprintf("%s-%d", key, n), Key: key}
}

func TestPublish_FullTopic_Waits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const queue = 4
		b := open(t, broker.Config{}, inprocess.Config{Queue: queue})
		var published atomic.Int32
		for i := range queue + 3 {
			go func() {
				if b.Publish(t.Context(), "topic", message("k", i)) == nil {
					published.Add(1)
				}
			}()
		}
		synctest.Wait()
		// There is no subscriber. A publisher that waits for room in the topic gives up when its context
		// ends, and its message must not be in the topic.
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := b.Publish(ctx, "topic", message("late", 0)); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("Publish to a full topic: %v, want context.DeadlineExceeded", err)
		}
		var got atomic.Int32
		subscribed, stop := context.WithCancel(t.Context())
		go b.Subscribe(subscribed, "topic", "g", func(_ context.Context, m broker.Message) error {
			if m.Key == "late" {
				t.Error("the message of the publisher that gave up was delivered")
			}
			got.Add(1)
			return nil
		})
		synctest.Wait()
		if got.Load() != queue+3 || published.Load() != queue+3 {
			t.Errorf("%d messages handled and %d published, want %d", got.Load(), published.Load(), queue+3)
		}
		stop()
		if err := b.Close(); err != nil {
			t.Error(err)
		}
	})
}

func TestPublish_ReturnsWhenAcknowledged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := open(t, broker.Config{}, inprocess.Config{})
		release := make(chan struct{})
		go b.Subscribe(t.Context(), "topic", "g", func(context.Context, broker.Message) error {
			<-release
			return nil
		})
		done := make(chan error, 1)
		go func() { done <- b.Publish(t.Context(), "topic", message("k", 0)) }()
		synctest.Wait()
		select {
		case err := <-done:
			t.Fatalf("Publish returned %v before the message was acknowledged", err)
		default:
		}
		close(release)
		if err := <-done; err != nil {
			t.Error(err)
		}
		if err := b.Close(); err != nil {
			t.Error(err)
		}
	})
}

func TestClose_HandlerNeverEnds_ReturnsAfterTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tr := inprocess.New(inprocess.Config{CloseTimeout: time.Minute})
		in := testmust.Get(tr.Subscribe(t.Context(), "topic", "g"))(t)
		b := testmust.Get(broker.New(broker.Config{}, tr))(t)
		published := make(chan error, 1)
		go func() { published <- b.Publish(t.Context(), "topic", message("k", 0)) }()
		<-in // taken, never acknowledged
		began := time.Now()
		if err := tr.Close(); err != nil {
			t.Error(err)
		}
		if took := time.Since(began); took != time.Minute {
			t.Errorf("Close took %s, want the CloseTimeout", took)
		}
		if err := <-published; !errors.Is(err, broker.ErrClosed) {
			t.Errorf("Publish of an unacknowledged message: %v, want ErrClosed", err)
		}
	})
}

func TestDeadLetterTopic_KeepsLatest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const keep = 3
		b := open(t, broker.Config{}, inprocess.Config{Keep: keep})
		topic := broker.DeadLetterTopic("topic")
		for i := range 10 {
			testmust.Succeed(t, b.Publish(t.Context(), topic, message("k", i)))
		}
		var got []string
		ctx, stop := context.WithCancel(t.Context())
		go b.Subscribe(ctx, topic, "inspection", func(_ context.Context, m broker.Message) error {
			got = append(got, m.ID) // one key: one message at a time
			return nil
		})
		synctest.Wait()
		stop()
		if err := b.Close(); err != nil {
			t.Error(err)
		}
		if fmt.Sprint(got) != "[k-7 k-8 k-9]" {
			t.Errorf("kept %v, want the latest %d", got, keep)
		}
	})
}

// A subscription that starts during Close either runs and ends, or is rejected. With -race the test
// also finds data races in the count of workers.
func TestClose_WhileSubscriptionsStart(t *testing.T) {
	for range 50 {
		bus := open(t, broker.Config{}, inprocess.Config{})
		ctx, cancel := context.WithCancel(t.Context())
		var subscribers sync.WaitGroup
		for i := range 4 {
			subscribers.Go(func() {
				err := bus.Subscribe(ctx, fmt.Sprintf("topic-%d", i), "group", func(context.Context, broker.Message) error { return nil })
				if err != nil && !errors.Is(err, broker.ErrClosed) {
					t.Error(err)
				}
			})
		}
		if err := bus.Close(); err != nil {
			t.Error(err)
		}
		cancel()
		subscribers.Wait()
	}
}
