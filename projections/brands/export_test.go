package brands

import "time"

// SetNow sets the clock of the model.
func (m *Model) SetNow(now func() time.Time) { m.now = now }
