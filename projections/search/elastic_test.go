package search_test

import (
	"encoding/json"
	"io"
	"net/http"
	"testing"
)

// call sends a request to the cluster, bypassing the index, to clean up.
func call(t *testing.T, method, url string) []byte {
	t.Helper()
	req, err := http.NewRequest(method, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return body
}

func elasticNames(t *testing.T, server, alias string) []string {
	t.Helper()
	var found struct{ Indices []struct{ Name string } }
	if err := json.Unmarshal(call(t, "GET", server+"/_resolve/index/"+alias+"*"), &found); err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, i := range found.Indices {
		names = append(names, i.Name)
	}
	return names
}
