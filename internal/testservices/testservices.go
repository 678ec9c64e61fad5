// Package testservices returns the addresses of real services, and the paths of programs, for tests. The addresses are
// set by LETTERHEAD_TEST_POSTGRES, LETTERHEAD_TEST_KAFKA, LETTERHEAD_TEST_ELASTICSEARCH and
// LETTERHEAD_TEST_EVENTSTORE. It is for tests only.
//
// If the address of its service is not set, or its program is not installed, a test is skipped. If
// LETTERHEAD_TEST_REQUIRE (a comma-separated list of postgres, kafka, elasticsearch, eventstore and names of programs)
// contains it, the test fails instead, so that a run that started a service cannot pass without it.
package testservices

import (
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
)

// Postgres returns the URL of a PostgreSQL server on which the test may create schemas.
func Postgres(t testing.TB) string { return address(t, "postgres") }

// Kafka returns the address (host:port) of a Kafka broker on which the test may create topics.
func Kafka(t testing.TB) string { return address(t, "kafka") }

// Elasticsearch returns the URL of a server on which the test may create indices.
func Elasticsearch(t testing.TB) string { return address(t, "elasticsearch") }

// EventStore returns the connection string of an EventStoreDB server on which the test may create streams.
func EventStore(t testing.TB) string { return address(t, "eventstore") }

// Command returns the path of a program that a test runs.
func Command(t testing.TB, name string) string {
	t.Helper()
	path, err := exec.LookPath(name)
	if err == nil {
		return path
	}
	if slices.Contains(strings.Split(os.Getenv("LETTERHEAD_TEST_REQUIRE"), ","), name) {
		t.Fatalf("%s is not installed, but LETTERHEAD_TEST_REQUIRE requires it", name)
	}
	t.Skipf("%s is not installed", name)
	return ""
}

func address(t testing.TB, service string) string {
	t.Helper()
	variable := "LETTERHEAD_TEST_" + strings.ToUpper(service)
	at := os.Getenv(variable)
	if at != "" {
		return at
	}
	if slices.Contains(strings.Split(os.Getenv("LETTERHEAD_TEST_REQUIRE"), ","), service) {
		t.Fatalf("%s is not set, but LETTERHEAD_TEST_REQUIRE requires %s", variable, service)
	}
	t.Skipf("%s is not set: no real %s for this test", variable, service)
	return ""
}
