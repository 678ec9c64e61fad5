package loss

import "time"

func init() { lookPause = time.Millisecond }
