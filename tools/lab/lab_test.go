//go:build lab

// Package lab tests the built binary in an isolated network, with its guard against private addresses enabled. The
// network has real DNS and TLS, recorded home pages, pages as site builders write them, and misbehaving sites.
// `make lab` builds this test and runs it in that network.
//
// Each host has a row that states the answer, cost, duration and traffic of a look-up. Rows of built-in hosts are in
// hosts_test.go, those of the sites of this folder in sites_test.go. Pages are compared with their labels in
// labels_test.go. inventory_test.go fails if a host has neither a row nor a label.
package lab

import (
	"fmt"
	"os"
	"testing"
)

// Ports of the servers. portMain belongs to the shared server, the others to single tests.
const (
	portMain = 18080 + iota
	portBombs
	portBackground
	portDeny
	portBenchmarks
	portSharedCrawl
	portHosts
	portMemory
	portFailures
	portKilled
)

// node is the server that most tests share. It does no background crawls.
var node *server

func TestMain(m *testing.M) {
	if os.Getenv("LAB") != "1" {
		fmt.Println("this test runs only inside the lab; use make lab")
		os.Exit(1)
	}
	os.Exit(run(m))
}

func run(m *testing.M) int {
	var err error
	if node, err = start(portMain, "LETTERHEAD_REFRESH=off"); err != nil {
		fmt.Println(err)
		return 1
	}
	defer node.stop()
	code := m.Run()
	if code != 0 {
		fmt.Printf("the server's log ends:\n%s\n", node.logTail())
	}
	return code
}
