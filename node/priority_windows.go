package node

import "golang.org/x/sys/windows"

func lowerPriority() {
	// a courtesy: the work is the same without it
	_ = windows.SetPriorityClass(windows.CurrentProcess(), windows.IDLE_PRIORITY_CLASS)
}
