package engine

import (
	"fmt"
	"net"
	"strconv"
)

// portSet holds the ports of an engine that is about to start, so that no two of its own listeners get the same one
// and a port that is taken is found out before anything is started.
//
// The server opens its listeners itself, from numbers in its configuration. Between release and that moment a port
// could be taken by another process; a free port is therefore left with one connection in TIME_WAIT, for as long as
// which the kernel gives the port to nobody who asks for any free port, but still to the one who asks for this very
// one with SO_REUSEADDR, as Go's listeners do.
type portSet struct {
	held []net.Listener
	keep []net.Conn
}

// take holds the port of ip, or any free one for 0, and returns its number.
func (s *portSet) take(ip net.IP, port int) (int, error) {
	l, err := net.Listen("tcp", hostPort(ip, port))
	if err != nil {
		return 0, err
	}
	s.held = append(s.held, l)
	if port == 0 {
		s.touch(l)
	}
	return l.Addr().(*net.TCPAddr).Port, nil
}

// touch leaves a connection in TIME_WAIT on the listener's port. If that is not possible the port is merely as safe
// as any other free port, so errors are passed over.
func (s *portSet) touch(l net.Listener) {
	addr := l.Addr().(*net.TCPAddr)
	client, err := net.Dial("tcp", hostPort(dialIP(addr.IP), addr.Port))
	if err != nil {
		return
	}
	s.keep = append(s.keep, client)
	if server, err := l.Accept(); err == nil {
		_ = server.Close() // this side closes first, so TIME_WAIT is on the listener's port
	}
}

// release lets the ports go for the server to take. It may be called twice.
func (s *portSet) release() {
	for _, c := range s.keep {
		_ = c.Close()
	}
	for _, l := range s.held {
		_ = l.Close()
	}
	s.keep, s.held = nil, nil
}

// portError words the error of a port that can't be taken.
func portError(w wantedPort, err error) error {
	if w.port == 0 {
		return fmt.Errorf("no free port on %s: %w", w.ip, err)
	}
	return &hintedError{
		err:  fmt.Errorf("--%s: can't listen on %s: %w", w.flag, hostPort(w.ip, w.port), err),
		hint: fmt.Sprintf("stop what listens there, or give another --%s (0 takes a free one)", w.flag),
	}
}

func hostPort(ip net.IP, port int) string {
	return net.JoinHostPort(ip.String(), strconv.Itoa(port))
}

// dialIP is the address under which a listener on ip is reached from this machine.
func dialIP(ip net.IP) net.IP {
	switch {
	case !ip.IsUnspecified():
		return ip
	case ip.To4() != nil:
		return net.IPv4(127, 0, 0, 1)
	default:
		return net.IPv6loopback
	}
}

// innerIP is where the services behind the frontend listen. Nobody outside this process has business with
// them, so they stay on loopback wherever the frontend listens.
func innerIP(frontend net.IP) net.IP {
	if dialIP(frontend).Equal(net.IPv6loopback) {
		return net.IPv6loopback
	}
	return net.IPv4(127, 0, 0, 1)
}

// listeners are the port numbers of an engine.
type listeners struct {
	frontend, http, ui, metrics int
	history, matching, worker   int
	// uiMoved says that the usual port of the UI was taken and another one is used.
	uiMoved bool
}

// wantedPort is one port to take: the flag that asks for it (empty for an inner service), where, which, and where
// its number goes.
type wantedPort struct {
	flag string
	ip   net.IP
	port int
	out  *int
}

// choosePorts holds all ports that o asks for. The caller releases the set right before the server starts.
func choosePorts(o options) (listeners, *portSet, error) {
	var p listeners
	inner := innerIP(o.ip)
	wanted := []wantedPort{
		{"port", o.ip, o.port, &p.frontend},
		{"http-port", o.ip, o.httpPort, &p.http},
		{"metrics-port", o.ip, o.metricsPort, &p.metrics},
		{"", inner, 0, &p.history},
		{"", inner, 0, &p.matching},
		{"", inner, 0, &p.worker},
	}
	if !o.headless {
		wanted = append(wanted, wantedPort{"ui-port", o.uiIP, o.uiPort, &p.ui})
	}
	set := &portSet{}
	for _, w := range wanted {
		if w.port == portUnset {
			continue
		}
		var err error
		if *w.out, err = set.take(w.ip, w.port); err != nil {
			set.release()
			return listeners{}, nil, portError(w, err)
		}
	}
	if !o.headless && o.uiPort == portUnset {
		if err := set.takeUI(o, &p); err != nil {
			set.release()
			return listeners{}, nil, err
		}
	}
	return p, set, nil
}

// takeUI takes the usual port of the UI, beside the frontend's, or any free one. A frontend on a free port gets
// a UI on a free port.
func (s *portSet) takeUI(o options, p *listeners) (err error) {
	if usual := o.port + uiPortOffset; o.port != 0 && usual <= 65535 {
		if p.ui, err = s.take(o.uiIP, usual); err == nil {
			return nil
		}
		p.uiMoved = true
	}
	if p.ui, err = s.take(o.uiIP, 0); err != nil {
		return portError(wantedPort{ip: o.uiIP}, err)
	}
	return nil
}
