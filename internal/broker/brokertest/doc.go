// Package brokertest holds the suite of promises that every broker keeps.
package brokertest
