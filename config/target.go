package config

import (
	"net"
	"net/url"
	"strings"
	"time"
)

// The default and the limit of [Target].Timeout. The limit leaves room within the
// time that the engine gives to one attempt.
const (
	DefaultTargetTimeout = 10 * time.Second
	MaxTargetTimeout     = 25 * time.Second
)

// Target is a place that is told of the end of tasks by webhook.
type Target struct {
	// Name is how tools and tasks name it: 1 to 64 of A-Z a-z 0-9 . _ -.
	Name string
	// URL takes the webhooks by POST: https, or http to this host itself.
	URL string
	// AskURL is asked by GET, with the key in the query parameter id, whether it
	// knows a delivery: 200 says yes, 404 no. Default: empty, it cannot be asked.
	AskURL string
	// Secret signs the webhooks. Default: none, they are not signed.
	Secret SecretRef
	// Timeout is for one attempt, at most 25s. Default: 10s.
	Timeout time.Duration
	// AllowHTTP allows plain http to other hosts. Default: false.
	AllowHTTP bool
}

func (t *Target) withDefaults(c *Config) {
	def(&t.Timeout, DefaultTargetTimeout)
	if t.Secret.File != "" {
		t.Secret.File = c.path(t.Secret.File)
	}
}

// url names no part of the URL: it may hold a password or a token.
func (p *problems) url(key, raw string, allowHTTP bool) {
	u, err := url.Parse(raw)
	switch {
	case err != nil:
		p.add(key, "must be a URL")
	case u.Host == "" || u.Scheme != "https" && u.Scheme != "http":
		p.add(key, "must be an https:// URL with a host")
	case u.User != nil:
		p.add(key, "must not hold a user or a password; use secret")
	case u.Fragment != "":
		p.add(key, "must not have a fragment")
	case u.Scheme == "http" && !allowHTTP && !loopback(u.Hostname()):
		p.add(key, "must be https, or http to this host itself; allowHTTP: true allows it elsewhere")
	}
}

func loopback(host string) bool {
	ip := net.ParseIP(host)
	return strings.EqualFold(host, "localhost") || ip != nil && ip.IsLoopback()
}
