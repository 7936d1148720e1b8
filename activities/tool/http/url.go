package http

import (
	"errors"
	"fmt"
	"net"
	"net/url"
	"slices"
	"strings"
	"unicode"
)

// The placeholders of declared URLs.
const (
	placeKey = "{key}"
	placeID  = "{id}"
)

const (
	// maxURL bounds a URL that comes from the service, in bytes, as the contract bounds references.
	maxURL = 2 << 10
	// maxID bounds a job's id, in bytes: it lies in history.
	maxID = 512
)

// parseDeclared checks a URL of the declaration. Its errors go on after the name of the field.
func parseDeclared(raw, placeholder string, allowHTTP bool) (*url.URL, error) {
	if raw == "" {
		return nil, errors.New("must be given")
	}
	filled := raw
	if placeholder != "" {
		if !strings.Contains(raw, placeholder) {
			return nil, fmt.Errorf("must hold %s", placeholder)
		}
		filled = strings.ReplaceAll(raw, placeholder, "x")
	}
	if strings.ContainsAny(filled, "{}") {
		return nil, fmt.Errorf("must have no placeholder but %s", orNone(placeholder))
	}
	u, err := url.Parse(filled)
	switch {
	case err != nil:
		return nil, errors.New("must be a URL")
	case u.Hostname() == "" || u.Scheme != "https" && u.Scheme != "http":
		return nil, errors.New("must be an https:// URL with a host")
	case u.User != nil:
		return nil, errors.New("must not hold a user or a password; use headers")
	case u.Fragment != "":
		return nil, errors.New("must not have a fragment")
	case u.Scheme == "http" && !allowHTTP && !isLoopback(u.Hostname()):
		return nil, errors.New("must be https, or http to this host itself; allowHTTP allows it elsewhere")
	}
	if placeholder != "" {
		// A host that the service or a caller could choose would be sent the headers.
		scheme, rest, _ := strings.Cut(raw, "://")
		host, _, _ := strings.Cut(rest, "/")
		host, _, _ = strings.Cut(host, "?")
		if strings.Contains(scheme+host, placeholder) {
			return nil, fmt.Errorf("must not have %s in its host", placeholder)
		}
	}
	return u, nil
}

func orNone(placeholder string) string {
	if placeholder == "" {
		return "none"
	}
	return placeholder
}

func isLoopback(host string) bool {
	ip := net.ParseIP(host)
	return strings.EqualFold(host, "localhost") || ip != nil && ip.IsLoopback()
}

// originOf is scheme, host and port (RFC 6454, section 4), with the port written out.
func originOf(u *url.URL) string {
	port := u.Port()
	if port == "" {
		port = map[string]string{"http": "80", "https": "443"}[strings.ToLower(u.Scheme)]
	}
	return strings.ToLower(u.Scheme) + "://" + net.JoinHostPort(strings.ToLower(u.Hostname()), port)
}

// fill puts a value into a declared URL. Everything but RFC 3986's unreserved characters is
// escaped, so that the value stays within its segment or its parameter.
func fill(template, placeholder, value string) (*url.URL, error) {
	return url.Parse(strings.ReplaceAll(template, placeholder, escape(value)))
}

func escape(s string) string {
	var b strings.Builder
	for i := range len(s) {
		if c := s[i]; isAlphanumeric(c) || strings.IndexByte("-._~", c) >= 0 {
			b.WriteByte(c)
		} else {
			fmt.Fprintf(&b, "%%%02X", c)
		}
	}
	return b.String()
}

// checkID refuses an id that cannot be put into a URL: "." and ".." are taken out of a path by
// whoever normalises it (RFC 3986, section 5.2.4), and a DELETE would then meet all jobs.
func checkID(id string) error {
	switch {
	case id == "" || id == "." || id == "..":
		return fmt.Errorf("the job's id %q names nothing", id)
	case len(id) > maxID || strings.ContainsFunc(id, unicode.IsControl):
		return fmt.Errorf("the job's id must have at most %d bytes and no control characters", maxID)
	}
	return nil
}

// resolve reads a URL that the service gave, relative to where it was given (RFC 9110, section
// 10.2.2; RFC 3986, section 5). One of another origin than the declared ones is refused: what is
// asked there is asked with the headers, and the service could send us anywhere in the network.
func resolve(base *url.URL, raw string, origins []string) (*url.URL, error) {
	switch {
	case raw == "":
		return nil, errors.New("is empty")
	case len(raw) > maxURL:
		return nil, fmt.Errorf("has more than %d bytes", maxURL)
	case strings.ContainsFunc(raw, func(r rune) bool { return unicode.IsControl(r) || unicode.IsSpace(r) || r == '\\' }):
		return nil, errors.New("has characters that no URL has")
	}
	ref, err := url.Parse(raw)
	if err != nil {
		return nil, errors.New("is no URL")
	}
	u := base.ResolveReference(ref)
	u.Fragment, u.RawFragment = "", ""
	switch {
	case u.Opaque != "" || u.Hostname() == "":
		return nil, errors.New("is no URL with a host")
	case u.User != nil:
		return nil, errors.New("holds a user or a password")
	case !slices.Contains(origins, originOf(u)):
		return nil, errors.New("is of another origin (scheme, host and port) than the declared URLs, and is not followed")
	}
	return u, nil
}
