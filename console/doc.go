// Package console serves the pages on which operators run the service: its health, accounts, payments, books, brands,
// read models and tokens.
//
// The pages are a client of the admin API in the same process: each page sends the requests that a program would send,
// with the token of the operator, and shows the answers. So permissions, limits, audit and the check of input are those
// of the API, and each operation has one implementation.
package console
