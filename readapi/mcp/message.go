package mcp

import (
	"encoding/json"
	"math"
	"net/http"
	"slices"
	"strconv"
)

const jsonrpcVersion = "2.0"

// Supported methods.
const (
	methodInitialize = "initialize"
	methodPing       = "ping"
	methodDiscover   = "server/discover"
	methodList       = "tools/list"
	methodCall       = "tools/call"
)

// MaxBatch limits the messages in a batch.
const MaxBatch = 10

type kind int

const (
	request kind = iota + 1
	notification
	clientResponse // the server sends no requests, but some clients send responses
	noMessage      // rejected as a whole
)

// message is one JSON-RPC message.
type message struct {
	kind      kind
	id        any // string or json.Number of a request; nil if it could not be parsed
	method    string
	params    map[string]any // nil if there are none
	modern    bool           // it contains version and capabilities
	rejection *Error         // of a request, or of noMessage
}

// Post is a parsed POST.
type Post struct {
	messages []message
	batch    bool
}

// Read parses the body of a POST. A non-nil Reply rejects the whole POST: -32700 for invalid JSON, -32600
// for an unsupported version, for a batch that is not allowed, and for an invalid single message.
func (s *Server) Read(h http.Header, body []byte) (*Post, *Reply) {
	value, err := readJSON(body)
	if err != nil {
		return nil, rejectPost(nil, badRequest(CodeParseError, "Parse error: %s.", err))
	}
	version, rejection := checkVersion(h, value)
	if rejection != nil {
		return nil, rejectPost(readID(value), rejection)
	}
	if batch, ok := value.([]any); ok {
		return readBatch(h, version, batch)
	}
	m := readMessage(value)
	if m.kind == noMessage {
		m.rejection.status = http.StatusBadRequest
		return nil, rejectPost(m.id, m.rejection)
	}
	if m.kind == request && m.rejection == nil {
		m.modern, m.rejection = checkModern(h, version, &m)
	}
	return &Post{messages: []message{m}}, nil
}

func rejectPost(id any, e *Error) *Reply {
	reply := singleReply(errorResponse(id, e))
	return &reply
}

func readBatch(h http.Header, version string, batch []any) (*Post, *Reply) {
	reject := func(format string, args ...any) (*Post, *Reply) {
		return nil, rejectPost(nil, badRequest(CodeInvalidRequest, format, args...))
	}
	switch {
	case !hasBatches(version):
		return reject("Version %s has no batches. Send one message in a POST.", version)
	case len(batch) == 0:
		return reject("The batch is empty.")
	case len(batch) > MaxBatch:
		return reject("The batch has %d messages; the limit is %d.", len(batch), MaxBatch)
	}
	p := &Post{batch: true}
	for _, value := range batch {
		m := readMessage(value)
		if m.kind == request && m.rejection == nil {
			_, m.rejection = checkModern(h, version, &m)
		}
		if m.kind == request && m.rejection == nil && m.method == methodInitialize {
			m.rejection = &Error{Code: CodeInvalidRequest, Message: "initialize must not be part of a batch."}
		}
		p.messages = append(p.messages, m)
	}
	return p, nil
}

// readMessage distinguishes requests, notifications and responses, according to JSON-RPC 2.0 and the
// protocol's restrictions: an id is a string or a whole number, never null, and params is an object.
func readMessage(value any) message {
	m := message{kind: noMessage, id: readID(value)}
	invalid := func(text string) message {
		m.kind, m.rejection = noMessage, &Error{Code: CodeInvalidRequest, Message: "Invalid request: " + text}
		return m
	}
	object, ok := value.(map[string]any)
	if !ok {
		return invalid("a message must be a JSON object.")
	}
	if object["jsonrpc"] != jsonrpcVersion {
		return invalid(`jsonrpc must be "2.0".`)
	}
	_, hasID := object["id"]
	method, hasMethod := object["method"]
	_, hasResult := object["result"]
	_, hasError := object["error"]
	if !hasMethod {
		if hasResult == hasError {
			return invalid("it is neither a request nor a response.")
		}
		m.kind = clientResponse
		return m
	}
	if m.method, ok = method.(string); !ok || hasResult || hasError {
		return invalid("method must be a string, without result or error.")
	}
	if hasID && m.id == nil {
		return invalid("id must be a string or a whole number.")
	}
	m.kind = notification
	if hasID {
		m.kind = request
	}
	if params := object["params"]; params != nil {
		if m.params, ok = params.(map[string]any); !ok {
			m.rejection = &Error{Code: CodeInvalidParams, Message: "params must be an object."}
		}
	}
	return m
}

// readID returns the id of a message as spelled, nil if there is no valid one.
func readID(value any) any {
	object, _ := value.(map[string]any)
	switch id := object["id"].(type) {
	case string:
		return id
	case json.Number:
		if f, err := strconv.ParseFloat(id.String(), 64); err == nil && f == math.Trunc(f) {
			return id
		}
	}
	return nil
}

// CallsTools reports whether the POST contains a tool call.
func (p *Post) CallsTools() bool {
	return slices.ContainsFunc(p.messages, func(m message) bool { return m.kind == request && m.method == methodCall })
}

// Methods returns the distinct methods of the POST, for logs: unsupported methods are "other", because
// clients may send any text.
func (p *Post) Methods() []string {
	var methods []string
	for _, m := range p.messages {
		name := m.method
		switch {
		case m.kind == clientResponse:
			name = "response"
		case m.kind == noMessage:
			name = "invalid"
		case m.kind == notification:
			name = "notification"
		case !slices.Contains([]string{methodInitialize, methodPing, methodDiscover, methodList, methodCall}, name):
			name = "other"
		}
		if !slices.Contains(methods, name) {
			methods = append(methods, name)
		}
	}
	return methods
}
