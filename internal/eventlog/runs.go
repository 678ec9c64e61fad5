package eventlog

// Runs returns runs with as many of the first events as fit into one import, in their order, and the number of these
// events.
func Runs(events []Recorded) (runs []Run, n int) {
	size := 0
	for n < len(events) && n < MaxImportEvents {
		part := events[n:min(len(events), MaxImportEvents)]
		part = part[:Together(part)]
		for i := range part {
			size += Size(&part[i].Proposed)
		}
		if n > 0 && size > MaxImportBytes {
			break
		}
		runs = append(runs, Run{Stream: part[0].Stream, Expected: After(part[0].Revision), Events: Proposals(part)})
		n += len(part)
	}
	return runs, n
}

// Together returns the number of events, from the first one on, that may share an append.
func Together(events []Recorded) int {
	n, size := 1, Size(&events[0].Proposed)
	for n < len(events) && n < MaxAppendEvents && events[n].Stream == events[0].Stream {
		if size += Size(&events[n].Proposed); size > MaxAppendBytes {
			break
		}
		n++
	}
	return n
}

// Proposals returns the events as they are appended to another log.
func Proposals(events []Recorded) []Proposed {
	proposed := make([]Proposed, len(events))
	for i := range events {
		proposed[i] = events[i].Proposed
	}
	return proposed
}
