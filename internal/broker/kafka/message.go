package kafka

import (
	"cmp"
	"fmt"

	"github.com/IBM/sarama"
	wkafka "github.com/ThreeDotsLabs/watermill-kafka/v3/pkg/kafka"
	"github.com/ThreeDotsLabs/watermill/message"

	"letterhead/internal/broker"
)

// format converts between messages of a Bus and of Kafka.
type format struct{}

var _ wkafka.MarshalerUnmarshaler = format{}

// Marshal implements wkafka.Marshaler. The key determines the partition.
func (format) Marshal(topic string, m *message.Message) (*sarama.ProducerMessage, error) {
	out, err := wkafka.DefaultMarshaler{}.Marshal(topic, m)
	if err != nil {
		return nil, err
	}
	out.Key = sarama.StringEncoder(broker.KeyOf(m))
	return out, nil
}

// Unmarshal implements wkafka.Unmarshaler. It never fails, because after an error watermill would leave
// the group and read the same message again, forever. A message that no Bus published is converted by
// broker.Unreadable, so that the Bus dead-letters it.
func (format) Unmarshal(in *sarama.ConsumerMessage) (*message.Message, error) {
	var id string
	meta := map[string]string{}
	kept := 0
	for _, h := range in.Headers {
		switch {
		case h == nil:
		case string(h.Key) == wkafka.UUIDHeaderKey:
			id = string(h.Value)
		case kept < maxHeaders:
			meta[string(h.Key)] = string(h.Value)
			kept++
		}
	}
	m := message.NewMessage(id, in.Value)
	m.Metadata = meta
	if reason := unreadable(in, m); reason != "" {
		source := fmt.Sprintf("%s/%d/%d", in.Topic, in.Partition, in.Offset)
		key := cmp.Or(string(in.Key), source)
		if id == "" || len(id) > broker.MaxKeyBytes {
			id = source
		}
		return broker.Unreadable(id, key, in.Value, reason+" (at "+source+")"), nil
	}
	return m, nil
}

// maxHeaders limits the headers of a message. It is enough for the maximum metadata and the headers of the Bus.
const maxHeaders = broker.MaxMetadata + 8

// unreadable returns the reason why a message cannot have been published by a Bus, or "".
func unreadable(in *sarama.ConsumerMessage, m *message.Message) string {
	switch key := broker.KeyOf(m); {
	case m.UUID == "":
		return "it has no message id"
	case key == "":
		return "it has no key of ours"
	case len(key) > broker.MaxKeyBytes:
		return "its key is too long"
	case len(in.Value) > broker.MaxPayloadBytes:
		return "its payload is too large"
	case len(in.Headers) > maxHeaders:
		return "it has too many headers"
	}
	return ""
}
