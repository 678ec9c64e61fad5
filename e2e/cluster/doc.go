// Package cluster proves the promises of the distributed shape with real processes of the built binary: three
// API nodes, two crawlers, two projectors, two relays and a sweeper on one event store, Kafka, PostgreSQL and
// Elasticsearch. Its tests kill, freeze and cut off parts of that and count every credit afterwards.
//
// The tests carry the build tag services and need LETTERHEAD_TEST_POSTGRES, LETTERHEAD_TEST_KAFKA and
// LETTERHEAD_TEST_ELASTICSEARCH; without them they are skipped and say so. What else they look at:
//
//   - LETTERHEAD_BINARY: the binary under test; without it the tests build it.
//   - LETTERHEAD_TEST_SERVICES: a folder with the programs `up` and `svc`, which restart, kill, pause and
//     resume those services. The set must be the tests' own. Without it faults of PostgreSQL and
//     Elasticsearch are made between them and the nodes, and those of Kafka are skipped.
//   - LAB and LAB_CONTROL: the tests run inside a closed little internet, whose sites they crawl. Without it
//     the tests that need a page to be fetched are skipped.
//   - the flag -figures: measure, too, and print the figures.
package cluster
