// Package mcp implements the Model Context Protocol over streamable HTTP, for a stateless server with
// tools: JSON-RPC 2.0 in the body of a POST, one JSON response, no sessions and no streams.
//
// It implements the protocol only and does not depend on the service. The HTTP server calls, in this
// order, AllowsHost, then its own check of the key, then Read and Answer:
//
//	host      403  DNS rebinding, on loopback connections
//	length    413  a Content-Length of more than MaxBody
//	key            checked by the caller
//	body      413  more than MaxBody
//	JSON      400  -32700
//	version   400  -32600; -32022 for a message that contains its version
//	batch     400  -32600: a version without batches, none or more than MaxBatch messages
//	message        -32600, -32601, -32602, -32603
//
// Two generations of the protocol share the endpoint. Up to 2025-11-25 a client starts with initialize
// and then sends its version in a header. From 2026-07-28 on each request contains version and
// capabilities in params._meta, repeats its method and tool in headers, and there is no initialize.
//
// Not implemented on purpose: sessions (Mcp-Session-Id is neither issued nor read), server-sent events
// (every tool responds once, within the time of a request), prompts, resources, logging, and
// subscriptions (the tools change with a release only).
package mcp
