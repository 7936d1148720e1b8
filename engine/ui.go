package engine

import (
	"net"
	"strings"

	uiserver "github.com/temporalio/ui-server/v2/server"
	uiconfig "github.com/temporalio/ui-server/v2/server/config"
	uioptions "github.com/temporalio/ui-server/v2/server/server_options"
)

// newUI builds the web pages' server, or nil when o leaves it out. Its Start blocks.
func newUI(o options, p listeners) *uiserver.Server {
	if o.headless {
		return nil
	}
	return uiserver.NewServer(uioptions.WithConfigProvider(&uiconfig.Config{
		// The UI server joins host and port with a colon itself.
		Host:                bracketed(o.uiIP),
		Port:                p.ui,
		PublicPath:          o.uiPublicPath,
		UIAssetPath:         o.uiAssetPath,
		TemporalGRPCAddress: hostPort(dialIP(o.ip), p.frontend),
		DefaultNamespace:    o.namespaces[0],
		EnableUI:            true,
		Codec:               uiconfig.Codec{Endpoint: o.uiCodecEndpoint},
		// Plain HTTP, so a cookie marked secure would never come back.
		CORS: uiconfig.CORS{CookieInsecure: true},
		// Its logs would go to stdout, between our own lines.
		HideLogs: true,
		// Nothing calls out: no news, no look for a newer version.
		DisableNewsFetch:   true,
		NotifyOnNewVersion: false,
	}))
}

func bracketed(ip net.IP) string {
	if s := ip.String(); strings.Contains(s, ":") {
		return "[" + s + "]"
	}
	return ip.String()
}

// uiURL is where a browser on this machine finds the UI; empty without one.
func uiURL(o options, p listeners) string {
	if o.headless {
		return ""
	}
	return "http://" + hostPort(dialIP(o.uiIP), p.ui) + o.uiPublicPath
}
