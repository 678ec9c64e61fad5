//go:build lab

// Package lab runs the built binary, its guard on, in an isolated network: real DNS and TLS, recorded
// home pages, pages in the manner of builders, and sites that misbehave. `make lab` builds this test and
// starts it in there.
//
// Each host of that internet has a row that says what a look-up of it answers, costs, takes and fetches:
// hosts_test.go for those that misbehave, labels_test.go for pages (by their labels), sites_test.go for the
// sites of this folder. inventory_test.go fails when a host has none.
package lab

import (
	"fmt"
	"os"
	"testing"
)

// Ports of the servers. Those of single tests are closed when these end.
const (
	portMain = 18080 + iota
	portBombs
	portBackground
	portDeny
	portFigures
	portCrowd
	portHosts
	portMemory
	portFailures
	portKilled
)

// node is the server that most tests share. It crawls nothing that nobody asked for.
var node *server

func TestMain(m *testing.M) {
	if os.Getenv("LAB") != "1" {
		fmt.Println("this test runs inside the lab only; use make lab")
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
		fmt.Printf("the server's log ends:\n%s\n", node.said())
	}
	return code
}
