package resvg

import (
	"errors"
	"testing"
	"time"

	"letterhead/internal/imaging"
)

// TestFailure_WaitAfterRefusal_IsBusy covers a module that was refused memory and then waited too long
// for a smaller amount, with which it might have drawn the image.
func TestFailure_WaitAfterRefusal_IsBusy(t *testing.T) {
	r := &Renderer{}
	turn := newTurn(t.Context(), Config{Timeout: time.Hour})
	defer turn.stop()
	if err := r.failure(t.Context(), turn, &memory{refused: true, crowded: true}, errFuel); !errors.Is(err, ErrBusy) || errors.Is(err, imaging.ErrTooLarge) {
		t.Error(err)
	}
	if err := r.failure(t.Context(), turn, &memory{refused: true}, nil); !errors.Is(err, imaging.ErrTooLarge) {
		t.Errorf("error = %v, want ErrTooLarge", err)
	}
}
