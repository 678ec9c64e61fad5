// Package node is the composition root: it opens stores, connects the parts of the service, starts the roles of a
// process, serves and shuts down. Only package main of the binary and tests import it.
//
// Open makes a Node of a locked data folder, or of the services that nodes share. Server serves one; a Command works on
// the node of a server, or opens a node for itself. A test may replace a few parts of a node, such as its clock
// (Parts).
package node
