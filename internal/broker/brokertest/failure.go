package brokertest

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"

	"letterhead/internal/broker"
	"letterhead/internal/testwait"
)

func retries(t *testing.T, open Open) {
	b := start(t, open, fast)
	var attempts atomic.Int32
	got := make(chan int32, 1)
	b.subscribe(topic, "workers", func(_ context.Context, m broker.Message) error {
		if n := attempts.Add(1); n <= int32(fast.Retries) {
			return errors.New("not yet")
		}
		got <- attempts.Load()
		return nil
	})
	published := b.publish(numbered("a", 0))
	if n := testwait.Receive(t, got, "the last attempt"); n != int32(fast.Retries)+1 {
		t.Errorf("the message succeeded at attempt %d, want %d", n, fast.Retries+1)
	}
	if err := testwait.Receive(t, published, "Publish"); err != nil {
		t.Errorf("Publish: %v", err)
	}
}

func deadLetters(t *testing.T, open Open) {
	b := start(t, open, fast)
	var attempts atomic.Int32
	got := make(chan string, 4)
	b.subscribe(topic, "workers", func(_ context.Context, m broker.Message) error {
		if m.ID == "a-0" {
			attempts.Add(1)
			return errors.New("cannot be done")
		}
		got <- m.ID
		return nil
	})
	published := b.publish(numbered("a", 0), numbered("a", 1))
	if id := testwait.Receive(t, got, "the message after the bad message"); id != "a-1" {
		t.Errorf("got %s, want a-1", id)
	}
	if err := testwait.Receive(t, published, "Publish"); err != nil {
		t.Errorf("Publish: %v", err)
	}
	if n := attempts.Load(); n != int32(fast.Retries)+1 {
		t.Errorf("the bad message was tried %d times, want %d", n, fast.Retries+1)
	}
	aside := make(chan broker.Message, 4)
	b.subscribe(broker.DeadLetterTopic(topic), "inspection", func(_ context.Context, m broker.Message) error {
		aside <- m
		return nil
	})
	m := testwait.Receive(t, aside, "the dead letter")
	if m.ID != "a-0" || m.Key != "a" || string(m.Payload) != "0" {
		t.Errorf("the dead letter is %+v, want message a-0", m)
	}
	if !strings.Contains(m.Metadata[broker.MetaReason], "cannot be done") ||
		m.Metadata[broker.MetaTopic] != topic || m.Metadata[broker.MetaGroup] != "workers" {
		t.Errorf("its metadata is %v, want reason, topic and group", m.Metadata)
	}
}

func survivesPanic(t *testing.T, open Open) {
	b := start(t, open, fast)
	var attempts atomic.Int32
	got := make(chan string, 1)
	b.subscribe(topic, "workers", func(_ context.Context, m broker.Message) error {
		if attempts.Add(1) == 1 {
			panic("a fault in a handler")
		}
		got <- m.ID
		return nil
	})
	published := b.publish(numbered("a", 0))
	testwait.Receive(t, got, "the message after a panic")
	if err := testwait.Receive(t, published, "Publish"); err != nil {
		t.Errorf("Publish: %v", err)
	}
}

func redeliversNotNow(t *testing.T, open Open) {
	b := start(t, open, fast)
	const rejected = 20 // more than the number of retries
	var deliveries atomic.Int32
	got := make(chan int32, 1)
	b.subscribe(topic, "workers", func(context.Context, broker.Message) error {
		n := deliveries.Add(1)
		if n <= rejected {
			return fmt.Errorf("store is unavailable: %w", broker.ErrNotNow)
		}
		got <- n
		return nil
	})
	published := b.publish(numbered("a", 0))
	if n := testwait.Receive(t, got, "the last delivery"); n != rejected+1 {
		t.Errorf("the message was handled at delivery %d, want %d", n, rejected+1)
	}
	if err := testwait.Receive(t, published, "Publish"); err != nil {
		t.Errorf("Publish: %v", err)
	}
}

func redeliversInterrupted(t *testing.T, open Open) {
	b := start(t, open, fast)
	began := make(chan struct{})
	stop := b.subscribe(topic, "workers", func(ctx context.Context, m broker.Message) error {
		close(began)
		<-ctx.Done()
		return ctx.Err()
	})
	published := b.publish(numbered("a", 0))
	testwait.Receive(t, began, "the first delivery")
	stop()
	got := make(chan string, 4)
	b.subscribe(topic, "workers", func(_ context.Context, m broker.Message) error {
		got <- m.ID
		return nil
	})
	if id := testwait.Receive(t, got, "the second delivery"); id != "a-0" {
		t.Errorf("got %s, want a-0", id)
	}
	if err := testwait.Receive(t, published, "Publish"); err != nil {
		t.Errorf("Publish: %v", err)
	}
	// An interrupted message must not be dead-lettered: the marker must be the first message in the dead-letter topic.
	other := b.publishTo(broker.DeadLetterTopic(topic), numbered("marker", 0))
	aside := make(chan string, 4)
	b.subscribe(broker.DeadLetterTopic(topic), "inspection", func(_ context.Context, m broker.Message) error {
		aside <- m.ID
		return nil
	})
	if id := testwait.Receive(t, aside, "the marker"); id != "marker-0" {
		t.Errorf("%s was dead-lettered although its handler was only interrupted", id)
	}
	if err := testwait.Receive(t, other, "Publish"); err != nil {
		t.Errorf("Publish: %v", err)
	}
}

func (b *bench) publishTo(to string, messages ...broker.Message) <-chan error {
	done := make(chan error, 1)
	b.wg.Go(func() { done <- b.broker.Publish(context.Background(), to, messages...) })
	return done
}

func closes(t *testing.T, open Open) {
	b := start(t, open, fast)
	began, finished := make(chan struct{}), make(chan struct{})
	b.subscribe(topic, "workers", func(ctx context.Context, m broker.Message) error {
		close(began)
		<-ctx.Done() // the subscription is ending
		close(finished)
		return nil
	})
	published := b.publish(numbered("a", 0))
	testwait.Receive(t, began, "the delivery")
	if err := b.broker.Close(); err != nil {
		t.Fatalf("Close: %v", err)
	}
	select {
	case <-finished:
	default:
		t.Error("Close returned before the running handler ended")
	}
	if err := testwait.Receive(t, published, "Publish"); err != nil && !errors.Is(err, broker.ErrClosed) {
		t.Errorf("Publish during Close: %v, want nil or ErrClosed", err)
	}
	if err := b.broker.Publish(t.Context(), topic, numbered("a", 1)); !errors.Is(err, broker.ErrClosed) {
		t.Errorf("Publish after Close: %v, want ErrClosed", err)
	}
	err := b.broker.Subscribe(t.Context(), topic, "workers", func(context.Context, broker.Message) error { return nil })
	if !errors.Is(err, broker.ErrClosed) {
		t.Errorf("Subscribe after Close: %v, want ErrClosed", err)
	}
	if err := b.broker.Close(); err != nil {
		t.Errorf("second Close: %v", err)
	}
}
