package avif

// DecodeWithin is Decode with limits: bytes of memory, and quanta of steps.
var DecodeWithin = decodeWithin
