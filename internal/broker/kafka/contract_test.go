package kafka_test

import (
	"testing"

	"letterhead/internal/broker"
	"letterhead/internal/broker/brokertest"
	"letterhead/internal/broker/kafka"
	"letterhead/internal/testmust"
)

// Rule 6.
func TestContract(t *testing.T) {
	both(t, func(t *testing.T, config func(t *testing.T) kafka.Config) {
		brokertest.Run(t, func(t *testing.T, cfg broker.Config) broker.Port {
			bus := testmust.Get(broker.New(cfg, open(t, config(t))))(t)
			return bus
		})
	})
}
