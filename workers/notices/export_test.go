package notices

import "context"

// Round attempts what is due, once, and returns when all attempts have an outcome. Errors: as the queue.
func (w *Worker) Round(ctx context.Context) error {
	err := w.look(ctx)
	w.sending.Wait()
	return err
}
