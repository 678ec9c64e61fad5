// Package safehttp is the only HTTP client of this program that may leave the machine.
//
// All its input comes from strangers: the domain, the links on its pages, the redirects of its server,
// the responses of its name server. So it rejects, on every hop, everything that is not a public web
// server:
//
//   - A URL is checked before anything is sent (CheckURL): http or https, port 80 or 443, a host name of
//     at least two labels; no user info, no IP address in any notation, no name of a local network.
//   - The host is resolved here, and the guard checks each address before it is dialed. In production the
//     same guard is also in net.Dialer.Control, where it checks the actual address to which the socket
//     connects. There is no second lookup between check and use, so a name server that changes its
//     response gains nothing.
//   - Redirects are followed by our own loop, and each target is checked from the first step on. No proxy
//     is ever used.
//
// Everything received is limited: redirects, header bytes, body bytes after decompression, bytes and
// fetches of a whole crawl, and time in every phase. Errors are typed, so that a crawl can distinguish
// a domain that does not exist from a server that refuses and from one that never responds.
//
// A Session is one crawl: it has separate cookies, which are discarded with it, and a separate budget.
//
// Tests replace the parts below the guard: Config.Resolver resolves names, and Config.Dial receives an
// address that the guard has already approved. The guard cannot be disabled.
package safehttp
