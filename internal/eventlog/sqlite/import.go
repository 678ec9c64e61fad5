package sqlite

import (
	"context"
	"fmt"

	"letterhead/internal/eventlog"
)

// importQueue bounds the imports that wait for the writer. Callers order their imports themselves, so there
// is rarely more than one.
const importQueue = 1

// Import implements eventlog.Importer: the runs form one transaction.
func (l *Log) Import(ctx context.Context, runs []eventlog.Run) error {
	if err := eventlog.CheckImport(runs); err != nil {
		return err
	}
	b := &bulk{ticket: ticket{done: make(chan struct{})}, runs: make([]*request, len(runs))}
	for i := range runs {
		b.runs[i] = newRequest(runs[i].Stream, runs[i].Expected, runs[i].Events, l.packed)
	}
	if err := put(ctx, l, l.imports, b); err != nil {
		return fmt.Errorf("import of %d runs: %w", len(runs), err)
	}
	if err := b.wait(ctx); err != nil {
		return fmt.Errorf("import of %d runs: %w", len(runs), err)
	}
	return b.err
}

// importRuns commits an import and answers it.
func (l *Log) importRuns(b *bulk) {
	events, err := l.writer.commit(b.runs, true)
	if events > 0 {
		l.committed(b.runs, events)
	}
	if err != nil {
		err = fmt.Errorf("import of %d runs: %w", len(b.runs), err)
	}
	b.answer(err)
	l.checkpointAfter(events)
}
