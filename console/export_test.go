package console

// MaxUnknown limits the unknown links of a client in a minute.
const MaxUnknown = maxUnknown
