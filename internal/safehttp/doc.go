// Package safehttp is the HTTP client for all requests to the public internet.
//
// All its input is untrusted: the domain, the links on its pages, the redirects of its server and the
// responses of its name server. On every hop it rejects everything except public web servers:
//
//   - A URL is checked before anything is sent (CheckURL): http or https, port 80 or 443, a host name of
//     at least two labels; no user info, no IP address in any notation, no name of a local network.
//   - The client resolves the host, and the guard checks each address before it is dialed. In
//     production the guard is also in net.Dialer.Control, where it checks the actual address to which
//     the socket connects. There is no second lookup between check and use, so DNS rebinding has no
//     effect.
//   - The package follows redirects itself and checks each target in full. It never uses a proxy.
//
// Everything is limited: redirects, header bytes, body bytes after decompression, bytes and fetches of
// a whole crawl, and the time of every phase. Errors are typed, so that a crawl can distinguish a
// domain that does not exist from a server that refuses connections or never responds.
//
// Each crawl has a Session, with its own cookies and budget.
//
// Tests replace the parts below the guard: Config.Resolver resolves names, and Config.Dial receives an
// address that the guard has already approved. The guard cannot be disabled.
package safehttp
