//go:build services

package cluster

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"letterhead/internal/testlink"
	"letterhead/internal/testservices"
)

// Names of the services that the nodes use: those in LETTERHEAD_TEST_SERVICES, and our stand-in for the event store.
const (
	postgres      = "postgres"
	kafkaBroker   = "kafka"
	elasticsearch = "elasticsearch"
	eventStore    = "eventstore"
)

// startSeconds is the timeout for starting a service on a machine that also runs the cluster.
const startSeconds = "180"

// addresses are those of the real services.
type addresses struct{ postgres, kafka, elasticsearch string }

// servicesOf skips the test unless all services are configured.
func servicesOf(t testing.TB) addresses {
	t.Helper()
	return addresses{testservices.Postgres(t), testservices.Kafka(t), testservices.Elasticsearch(t)}
}

// control runs a program of LETTERHEAD_TEST_SERVICES; see the package comment.
func control(program string, args ...string) error {
	folder := os.Getenv("LETTERHEAD_TEST_SERVICES")
	cmd := exec.Command(filepath.Join(folder, program), args...)
	cmd.Env = append([]string{"LETTERHEAD_SERVICES_TIMEOUT=" + startSeconds}, os.Environ()...)
	out, err := cmd.CombinedOutput()
	if err != nil {
		return fmt.Errorf("%s %v: %w\n%s", program, args, err, out)
	}
	return nil
}

func controlled() bool { return os.Getenv("LETTERHEAD_TEST_SERVICES") != "" }

// fault is a failure of one of the services that affects all nodes.
type fault struct {
	name       string
	begin, end func(c *cluster) error
}

// stopped returns a fault that kills a service and later restarts it.
func stopped(t testing.TB, service string) fault {
	t.Helper()
	switch {
	case service == eventStore:
		return fault{service + " stopped",
			func(c *cluster) error { c.store.kill(); return nil },
			func(c *cluster) error { return c.store.start() }}
	case controlled():
		return fault{service + " stopped",
			func(*cluster) error { return control("svc", "kill", service) },
			func(c *cluster) error { return errors.Join(control("up", service), c.keptItsData(service)) }}
	default:
		return between(t, service, "stopped", (*testlink.Link).Refuse)
	}
}

// keptItsData fails if a restarted service has lost its data. The program that starts PostgreSQL as root creates an
// empty database if the user postgres cannot access the folder.
func (c *cluster) keptItsData(service string) error {
	if service != postgres {
		return nil
	}
	if err := c.sql("SELECT count(*) FROM projections_registry"); err != nil {
		c.lost = fmt.Errorf("PostgreSQL restarted without its data; can the user postgres access the folder LETTERHEAD_SERVICES_DIR? %w", err)
	}
	return c.lost
}

// hung returns a fault that freezes a service: its port accepts connections, but the service does not answer.
func hung(t testing.TB, service string) fault {
	t.Helper()
	switch {
	case service == eventStore:
		return fault{service + " hung",
			func(c *cluster) error { return c.store.freeze() },
			func(c *cluster) error { return c.store.thaw() }}
	case controlled():
		return fault{service + " hung",
			func(*cluster) error { return control("svc", "pause", service) },
			func(*cluster) error { return control("svc", "resume", service) }}
	default:
		return between(t, service, "hung", (*testlink.Link).Hang)
	}
}

// between returns a fault on the links from all nodes to a service.
func between(t testing.TB, service, how string, begin func(*testlink.Link)) fault {
	t.Helper()
	if service == kafkaBroker {
		t.Skip("LETTERHEAD_TEST_SERVICES is not set, and Kafka clients connect to the advertised address of the broker, so links cannot simulate the fault")
	}
	all := func(do func(*testlink.Link)) func(*cluster) error {
		return func(c *cluster) error {
			for _, n := range c.all() {
				do(n.links[service])
			}
			return nil
		}
	}
	return fault{service + " " + how, all(begin), all((*testlink.Link).Resume)}
}
