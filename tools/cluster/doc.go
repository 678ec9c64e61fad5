// Package cluster tests the guarantees of the distributed shape with real processes of the built binary: three API
// nodes, two crawlers, two projectors, two relays and a sweeper that share an event store, Kafka, PostgreSQL and
// Elasticsearch. The tests kill, freeze and disconnect processes, and then account for every credit.
//
// The tests have the build tag services. They are skipped unless LETTERHEAD_TEST_POSTGRES, LETTERHEAD_TEST_KAFKA and
// LETTERHEAD_TEST_ELASTICSEARCH are set. These are optional:
//
//   - LETTERHEAD_BINARY: the binary under test; by default the tests build it.
//   - LETTERHEAD_TEST_SERVICES: a folder with the programs `up` and `svc`, which restart, kill, pause and resume the
//     services. Nothing else may use these services. Without it, the tests simulate faults of PostgreSQL and
//     Elasticsearch on the connections of the nodes, and skip faults of Kafka.
//   - LAB and LAB_CONTROL: the tests run inside the lab's isolated network, whose sites they crawl. Without it, tests
//     that fetch pages are skipped.
//   - the flag -figures: also run the tests that measure and print figures.
//   - the flags -requests and -faults: the sizes of TestMixedRequests.
package cluster
