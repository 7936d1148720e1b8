// Package outside tests Wakepoint against a service that misbehaves on command, with workers that are
// killed, and believes nobody but the service's own log.
package outside
