package console

// MaxFailures limits the links that an address may try in a minute.
const MaxFailures = maxFailures
