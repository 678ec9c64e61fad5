package mcp

import (
	"bytes"
	"encoding/json"
	"net/http"
)

// Codes of JSON-RPC 2.0 and of the protocol (2026-07-28, "Error Codes").
const (
	CodeParseError         = -32700
	CodeInvalidRequest     = -32600
	CodeMethodNotFound     = -32601
	CodeInvalidParams      = -32602
	CodeInternalError      = -32603
	CodeHeaderMismatch     = -32020
	CodeUnsupportedVersion = -32022
)

// Error is the error of a JSON-RPC response.
type Error struct {
	Code    int    `json:"code"`
	Message string `json:"message"`
	Data    any    `json:"data,omitempty"`

	status int // HTTP status for a POST with a single message; 0 = 200
}

func (e *Error) Error() string { return e.Message }

// InvalidArguments returns an error for the arguments of a tool call. data is optional.
func InvalidArguments(message string, data any) *Error {
	return &Error{Code: CodeInvalidParams, Message: message, Data: data}
}

// Failure is a tool outcome that its caller should know: not a protocol error, but a result with
// isError, which models can read.
type Failure struct {
	Code       string `json:"code"`
	Message    string `json:"message"`
	RetryAfter *int64 `json:"retry_after,omitempty"` // seconds
}

func (f *Failure) Error() string { return f.Code + ": " + f.Message }

// response is a JSON-RPC response. ID is null for a message whose id could not be parsed.
type response struct {
	Version string `json:"jsonrpc"`
	ID      any    `json:"id"`
	Result  any    `json:"result,omitempty"`
	Error   *Error `json:"error,omitempty"`
}

func errorResponse(id any, e *Error) *response {
	return &response{Version: jsonrpcVersion, ID: id, Error: e}
}

// Reply is the HTTP response: a JSON body, or none with 202.
type Reply struct {
	Status int
	Body   []byte
	Code   int // of the error, if the POST or its only message is rejected; otherwise 0
}

// Reject returns the reply to a POST that is rejected before its messages are read.
func Reject(status int, e *Error) Reply {
	e.status = status
	return singleReply(errorResponse(nil, e))
}

// singleReply returns the reply to a POST with one message.
func singleReply(r *response) Reply {
	reply := Reply{Status: http.StatusOK, Body: encode(r)}
	if r.Error != nil {
		reply.Code = r.Error.Code
		if r.Error.status != 0 {
			reply.Status = r.Error.status
		}
	}
	return reply
}

// encode encodes a value of this package. It cannot fail: ids come from JSON, and results are checked.
func encode(value any) []byte {
	var buffer bytes.Buffer
	encoder := json.NewEncoder(&buffer)
	encoder.SetEscapeHTML(false) // keep & readable in URLs
	if err := encoder.Encode(value); err != nil {
		return []byte(
			`{"jsonrpc":"2.0","id":null,"error":{"code":-32603,"message":"The response could not be encoded."}}`)
	}
	return buffer.Bytes()
}
