// Package mcp speaks the Model Context Protocol over streamable HTTP, for a server that has tools and no
// state: JSON-RPC 2.0 in the body of a POST, one JSON answer, no sessions and no streams.
//
// It knows the protocol and nothing of the service behind it. Whoever serves HTTP calls, in this order,
// AllowsHost, then its own check of the key, then ReadBody, Read and Answer:
//
//	host      403  DNS rebinding, on loopback connections
//	length    413  a Content-Length of more than MaxBody
//	key            the caller's business
//	body      413  more than MaxBody
//	JSON      400  -32700
//	version   400  -32600; -32022 for a message that carries its version itself
//	batch     400  -32600: a version without batches, none or more than MaxBatch messages
//	message        -32600, -32601, -32602, -32603
//
// Two eras of the protocol share the endpoint. Up to 2025-11-25 a client begins with initialize and then
// names its version in a header. From 2026-07-28 on each request brings version and capabilities along in
// params._meta, mirrors its method and tool in headers, and there is no initialize.
//
// Left out on purpose: sessions (Mcp-Session-Id is neither minted nor looked at), server-sent events (every
// tool answers once, within the time of a request), prompts, resources, logging, and subscriptions (the
// tools change with a release only).
package mcp
