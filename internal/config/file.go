package config

import (
	"fmt"
	"io"
	"os"
	"strings"
)

const (
	// fileSuffix ends the name of the variable that names a file with the value of a setting.
	fileSuffix = "_FILE"
	// maxFileBytes is the maximum size of such a file.
	maxFileBytes = 64 << 10
)

// Value returns the value of a variable, or the content of the file that the variable with the suffix _FILE names,
// without the line break at its end. It returns "" if neither is set. Errors name the file and never its content.
func Value(lookup func(string) (string, bool), name string) (string, error) {
	value, _ := lookup(name)
	path, _ := lookup(name + fileSuffix)
	switch {
	case path == "":
		return value, nil
	case value != "":
		return "", fmt.Errorf("%s%s is set too; unset one of the two", name, fileSuffix)
	}
	b, err := readFile(path)
	if err != nil {
		return "", fmt.Errorf("%s%s: %w", name, fileSuffix, err)
	}
	if value = strings.TrimRight(string(b), "\r\n"); strings.TrimSpace(value) == "" {
		return "", fmt.Errorf("%s%s: %s is empty; write the value into it", name, fileSuffix, path)
	}
	return value, nil
}

func readFile(path string) ([]byte, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() { // reading a pipe could wait forever
		return nil, fmt.Errorf("%s is not a regular file", path)
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, maxFileBytes+1))
	if len(b) > maxFileBytes {
		return nil, fmt.Errorf("%s has more than %d bytes", path, maxFileBytes)
	}
	return b, err
}
