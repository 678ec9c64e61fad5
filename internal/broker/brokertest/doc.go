// Package brokertest provides the contract suite that every broker must pass.
package brokertest
