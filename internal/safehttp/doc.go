// Package safehttp is the only HTTP client of this program that may leave the machine.
//
// Everything it is asked to fetch was written by strangers: the domain, the links on its pages, the
// redirects of its server, the answers of its name server. So it refuses, on every hop, whatever is not
// a public web server:
//
//   - A URL is checked before anything is sent (CheckURL): http or https, port 80 or 443, a host name of
//     at least two labels; no user info, no IP address in any notation, no name of a local network.
//   - The host is resolved here, and each address passes the guard before it is dialed. In production the
//     same guard also stands in net.Dialer.Control, where it sees the very address that the socket
//     connects to. There is no second look-up between check and use, so a name server that changes its
//     answer gains nothing.
//   - Redirects are followed by our own loop, and each target starts again at the first step. No proxy is
//     ever used.
//
// Everything that arrives is bounded: redirects, header bytes, body bytes after decompression, bytes and
// fetches of a whole crawl, and time in every phase. Errors are typed, so that a crawl can tell a domain
// that does not exist from a server that refuses and from one that never answers.
//
// A Session is one crawl: it has its own cookies, which are forgotten with it, and its own budget.
//
// The seams for tests lie beneath the guard: Config.Resolver says what a name resolves to, and
// Config.Dial receives an address that the guard has already approved. Nothing turns the guard off.
package safehttp
