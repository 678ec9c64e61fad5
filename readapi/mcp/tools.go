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

type tool struct{ input *jsonschema.Schema }

func readTools() (map[string]*tool, []json.RawMessage, error) {
	var listed []json.RawMessage
	if err := json.Unmarshal(toolsFile, &listed); err != nil {
		return nil, nil, fmt.Errorf("MCP: tools.json: %w", err)
	}
	tools := map[string]*tool{}
	for i, raw := range listed {
		var head struct {
			Name  string          `json:"name"`
			Input json.RawMessage `json:"inputSchema"`
		}
		if err := json.Unmarshal(raw, &head); err != nil {
			return nil, nil, fmt.Errorf("MCP: tools.json: %w", err)
		}
		var flat bytes.Buffer
		if err := json.Compact(&flat, raw); err != nil {
			return nil, nil, fmt.Errorf("MCP: tools.json: %w", err)
		}
		listed[i] = flat.Bytes()
		document, err := jsonschema.UnmarshalJSON(bytes.NewReader(head.Input))
		if err != nil {
			return nil, nil, fmt.Errorf("MCP: input of %s: %w", head.Name, err)
		}
		compiler := jsonschema.NewCompiler() // 2020-12, the protocol's own default
		where := "mcp:" + head.Name
		if err := compiler.AddResource(where, document); err != nil {
			return nil, nil, fmt.Errorf("MCP: input of %s: %w", head.Name, err)
		}
		schema, err := compiler.Compile(where)
		if err != nil {
			return nil, nil, fmt.Errorf("MCP: input of %s: %w", head.Name, err)
		}
		tools[head.Name] = &tool{input: schema}
	}
	return tools, listed, nil
}

// check validates arguments against the tool's inputSchema. The message names each invalid argument.
func (t *tool) check(arguments map[string]any) error {
	err := t.input.Validate(arguments)
	if err == nil {
		return nil
	}
	var invalid *jsonschema.ValidationError
	if !errors.As(err, &invalid) {
		return fmt.Errorf("validate arguments: %w", err)
	}
	english := printing.NewPrinter(language.English)
	var wrong []string
	var walk func(e *jsonschema.ValidationError)
	walk = func(e *jsonschema.ValidationError) {
		for _, cause := range e.Causes {
			walk(cause)
		}
		if len(e.Causes) > 0 {
			return
		}
		said := e.ErrorKind.LocalizedString(english)
		if len(e.InstanceLocation) > 0 {
			said = strings.Join(e.InstanceLocation, ".") + ": " + said
		}
		wrong = append(wrong, said)
	}
	walk(invalid)
	return InvalidArguments("Invalid arguments: "+strings.Join(wrong, "; ")+".", nil)
}

// Arguments are the arguments of a call, valid according to the inputSchema; each accessor is for an
// argument of that type.
type Arguments map[string]any

// Text returns a string, or "" if it is missing.
func (a Arguments) Text(name string) string {
	s, _ := a[name].(string)
	return s
}

// Truth returns a boolean, or false if it is missing.
func (a Arguments) Truth(name string) bool {
	b, _ := a[name].(bool)
	return b
}

// Whole returns an integer, or the fallback if it is missing. Values are clamped to 32 bits. In JSON
// Schema 10.0 and 1e1 are also integers.
func (a Arguments) Whole(name string, fallback int) int {
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
