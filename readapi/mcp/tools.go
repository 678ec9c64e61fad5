package mcp

import (
	"bytes"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"golang.org/x/text/language"
	printing "golang.org/x/text/message"
)

// Names of the tools.
const (
	ToolGetBrand     = "get_brand"
	ToolSearchBrands = "search_brands"
	ToolGetLogoURL   = "get_logo_url"
)

// toolsFile is the list of tools as sent to clients. Its argument schemas are enforced.
//
//go:embed tools.json
var toolsFile []byte

// readTools returns the argument schemas of the tools by name, and the list as sent.
func readTools() (map[string]*jsonschema.Schema, []json.RawMessage, error) {
	var list []struct {
		Name  string `json:"name"`
		Input any    `json:"inputSchema"`
	}
	decoder := json.NewDecoder(bytes.NewReader(toolsFile))
	decoder.UseNumber() // for the schemas
	var flat bytes.Buffer
	var listed []json.RawMessage
	if err := errors.Join(decoder.Decode(&list), json.Compact(&flat, toolsFile),
		json.Unmarshal(flat.Bytes(), &listed)); err != nil {
		return nil, nil, fmt.Errorf("MCP: tools.json: %w", err)
	}
	inputs := map[string]*jsonschema.Schema{}
	compiler := jsonschema.NewCompiler() // 2020-12, the protocol's own default
	for _, tool := range list {
		where := "mcp:" + tool.Name
		err := compiler.AddResource(where, tool.Input)
		if err == nil {
			inputs[tool.Name], err = compiler.Compile(where)
		}
		if err != nil {
			return nil, nil, fmt.Errorf("MCP: input of %s: %w", tool.Name, err)
		}
	}
	return inputs, listed, nil
}

// checkArguments validates arguments against a tool's inputSchema. The message names each invalid one.
func checkArguments(input *jsonschema.Schema, arguments map[string]any) error {
	err := input.Validate(arguments)
	if err == nil {
		return nil
	}
	var invalid *jsonschema.ValidationError
	if !errors.As(err, &invalid) {
		return fmt.Errorf("validate arguments: %w", err)
	}
	english := printing.NewPrinter(language.English)
	var reasons []string
	var walk func(e *jsonschema.ValidationError)
	walk = func(e *jsonschema.ValidationError) {
		for _, cause := range e.Causes {
			walk(cause)
		}
		if len(e.Causes) > 0 {
			return
		}
		reason := e.ErrorKind.LocalizedString(english)
		if len(e.InstanceLocation) > 0 {
			reason = strings.Join(e.InstanceLocation, ".") + ": " + reason
		}
		reasons = append(reasons, reason)
	}
	walk(invalid)
	return InvalidArguments("Invalid arguments: "+strings.Join(reasons, "; ")+".", nil)
}

// Arguments are the arguments of a call, valid according to the inputSchema; each accessor is for an
// argument of that type.
type Arguments map[string]any

// String returns a string, or "" if it is missing.
func (a Arguments) String(name string) string {
	s, _ := a[name].(string)
	return s
}

// Bool returns a boolean, or false if it is missing.
func (a Arguments) Bool(name string) bool {
	b, _ := a[name].(bool)
	return b
}

// Int returns an integer, or the fallback if it is missing. Values are clamped to 32 bits. In JSON
// Schema 10.0 and 1e1 are also integers.
func (a Arguments) Int(name string, fallback int) int {
	n, ok := a[name].(json.Number)
	if !ok {
		return fallback
	}
	f, err := strconv.ParseFloat(n.String(), 64)
	if err != nil {
		return fallback
	}
	return int(min(max(f, math.MinInt32), math.MaxInt32))
}
