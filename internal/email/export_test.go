package email

import "crypto/x509"

// Trusting returns the server with other certificate authorities than the machine's.
func (s Server) Trusting(roots *x509.CertPool) Server {
	s.roots = roots
	return s
}

// Dialing returns the server, connected to at another address.
func (s Server) Dialing(address string) Server {
	s.address = address
	return s
}
