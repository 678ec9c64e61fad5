package openapi

import (
	"bytes"
	_ "embed"
	"encoding/json"
	"fmt"
	"strings"

	"go.yaml.in/yaml/v3"
)

//go:embed openapi.yaml
var source []byte

// writtenBaseURL is used in the source instead of the base URL of a service.
const writtenBaseURL = "http://127.0.0.1:8080"

// maxDepth limits the nesting of the source, including aliases and references; exceeding it is an error in the source.
const maxDepth = 64

// JSON returns the document as served by a service with that base URL. Its members have the order of
// the source, so the same source always gives the same bytes.
func JSON(baseURL string) ([]byte, error) {
	root, err := parse()
	if err != nil {
		return nil, err
	}
	var buffer bytes.Buffer
	if err := writeJSON(&buffer, root, baseURL, 0); err != nil {
		return nil, fmt.Errorf("write the interface description: %w", err)
	}
	return buffer.Bytes(), nil
}

func parse() (*yaml.Node, error) {
	var file yaml.Node
	if err := yaml.Unmarshal(source, &file); err != nil {
		return nil, fmt.Errorf("read the interface description: %w", err)
	}
	if len(file.Content) != 1 {
		return nil, fmt.Errorf("read the interface description: it is not one document")
	}
	return file.Content[0], nil
}

// writeJSON writes a node of the source as JSON.
func writeJSON(b *bytes.Buffer, n *yaml.Node, baseURL string, depth int) error {
	if depth > maxDepth {
		return fmt.Errorf("line %d: nested deeper than %d", n.Line, maxDepth)
	}
	switch n.Kind {
	case yaml.AliasNode:
		return writeJSON(b, n.Alias, baseURL, depth+1)
	case yaml.MappingNode:
		b.WriteByte('{')
		for i := 0; i < len(n.Content); i += 2 {
			if i > 0 {
				b.WriteByte(',')
			}
			writeString(b, n.Content[i].Value)
			b.WriteByte(':')
			if err := writeJSON(b, n.Content[i+1], baseURL, depth+1); err != nil {
				return err
			}
		}
		b.WriteByte('}')
	case yaml.SequenceNode:
		b.WriteByte('[')
		for i, item := range n.Content {
			if i > 0 {
				b.WriteByte(',')
			}
			if err := writeJSON(b, item, baseURL, depth+1); err != nil {
				return err
			}
		}
		b.WriteByte(']')
	case yaml.ScalarNode:
		return writeScalar(b, n, baseURL)
	default:
		return fmt.Errorf("line %d: a node of kind %d has no JSON form", n.Line, n.Kind)
	}
	return nil
}

func writeScalar(b *bytes.Buffer, n *yaml.Node, baseURL string) error {
	switch n.Tag {
	case "!!str":
		writeString(b, strings.ReplaceAll(n.Value, writtenBaseURL, baseURL))
	case "!!null":
		b.WriteString("null")
	case "!!bool", "!!int", "!!float":
		if !json.Valid([]byte(n.Value)) {
			return fmt.Errorf("line %d: %s is not written as JSON has it", n.Line, n.Value)
		}
		b.WriteString(n.Value)
	default:
		return fmt.Errorf("line %d: %s reads as %s; quote it", n.Line, n.Value, n.Tag)
	}
	return nil
}

func writeString(b *bytes.Buffer, s string) {
	encoder := json.NewEncoder(b)
	encoder.SetEscapeHTML(false)
	_ = encoder.Encode(s)   // encoding a string cannot fail
	b.Truncate(b.Len() - 1) // the encoder's newline
}
