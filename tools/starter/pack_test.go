package main

import (
	"bytes"
	"reflect"
	"testing"

	"letterhead/internal/testmust"
	"letterhead/starter"
)

func TestPack_OfTheIndex_GivesTheSameBrands(t *testing.T) {
	var all []starter.Brand
	testmust.Succeed(t, starter.Each(func(b starter.Brand) error {
		all = append(all, b)
		return nil
	}))
	all = all[:50]
	var first, second bytes.Buffer
	for _, w := range []*bytes.Buffer{&first, &second} {
		testmust.Succeed(t, pack(w, all))
	}
	if !bytes.Equal(first.Bytes(), second.Bytes()) {
		t.Error("the same brands gave different bytes")
	}
	var read []starter.Brand
	testmust.Succeed(t, starter.Read(&first, func(b starter.Brand) error {
		read = append(read, b)
		return nil
	}))
	if !reflect.DeepEqual(read, all) {
		t.Errorf("%d brands were read, which differ from the %d that were packed", len(read), len(all))
	}
}
