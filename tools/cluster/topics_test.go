//go:build services

package cluster

import (
	"bytes"
	"context"
	"fmt"
	"strings"

	"github.com/segmentio/kafka-go"
)

// topics returns the names of the topics that the cluster created.
func (c *cluster) topics() ([]string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), exitWithin)
	defer cancel()
	conn, err := kafka.DialContext(ctx, "tcp", c.at.kafka)
	if err != nil {
		return nil, fmt.Errorf("connect to the broker: %w", err)
	}
	defer conn.Close()
	partitions, err := conn.ReadPartitions()
	if err != nil {
		return nil, fmt.Errorf("list the topics: %w", err)
	}
	var names []string
	seen := map[string]bool{}
	for _, p := range partitions {
		if strings.HasPrefix(p.Topic, c.name+".") && !seen[p.Topic] {
			seen[p.Topic] = true
			names = append(names, p.Topic)
		}
	}
	return names, nil
}

func (c *cluster) dropTopics() error {
	names, err := c.topics()
	if err != nil || len(names) == 0 {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), exitWithin)
	defer cancel()
	client := &kafka.Client{Addr: kafka.TCP(c.at.kafka)}
	if _, err := client.DeleteTopics(ctx, &kafka.DeleteTopicsRequest{Addr: client.Addr, Topics: names}); err != nil {
		return fmt.Errorf("delete the topics: %w", err)
	}
	return nil
}

// carried reports whether a topic contains a message with a payload.
func (c *cluster) carried(name, payload string) (bool, error) {
	ctx, cancel := context.WithTimeout(context.Background(), exitWithin)
	defer cancel()
	topic := c.name + "." + name
	conn, err := kafka.DialContext(ctx, "tcp", c.at.kafka)
	if err != nil {
		return false, fmt.Errorf("connect to the broker: %w", err)
	}
	defer conn.Close()
	partitions, err := conn.ReadPartitions(topic)
	if err != nil {
		return false, fmt.Errorf("list the partitions of topic %s: %w", topic, err)
	}
	for _, p := range partitions {
		if found, err := c.contains(ctx, topic, p.ID, payload); found || err != nil {
			return found, err
		}
	}
	return false, nil
}

// maxBatch is the maximum number of bytes that are read from a partition at a time.
const maxBatch = 8 << 20

// contains reports whether a partition contains a payload, up to its current end.
func (c *cluster) contains(ctx context.Context, topic string, partition int, payload string) (bool, error) {
	leader, err := kafka.DialLeader(ctx, "tcp", c.at.kafka, topic, partition)
	if err != nil {
		return false, err
	}
	defer leader.Close()
	next, last, err := leader.ReadOffsets()
	if err != nil {
		return false, err
	}
	if until, ok := ctx.Deadline(); ok {
		if err := leader.SetDeadline(until); err != nil {
			return false, err
		}
	}
	for next < last {
		if _, err := leader.Seek(next, kafka.SeekAbsolute); err != nil {
			return false, err
		}
		batch := leader.ReadBatch(1, maxBatch)
		for next < last {
			m, err := batch.ReadMessage()
			if err != nil {
				break // the end of the batch; Close returns an error if there was another reason
			}
			next = m.Offset + 1
			if bytes.Contains(m.Value, []byte(payload)) {
				return true, batch.Close()
			}
		}
		if err := batch.Close(); err != nil {
			return false, fmt.Errorf("read %s, partition %d: %w", topic, partition, err)
		}
	}
	return false, nil
}
