package auth

import (
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestProxies_whereARequestCameFrom(t *testing.T) {
	trusted, err := ParseProxies([]string{"10.0.0.0/8", "2001:db8::1"})
	require.NoError(t, err)
	for name, tc := range map[string]struct {
		peer      string
		forwarded []string
		want      string
	}{
		"a client that says something":      {"192.0.2.1:99", []string{"1.2.3.4"}, "192.0.2.1"},
		"a proxy that says nothing":         {"10.1.1.1:99", nil, "10.1.1.1"},
		"a proxy":                           {"10.1.1.1:99", []string{"192.0.2.7"}, "192.0.2.7"},
		"what the client wrote before it":   {"10.1.1.1:99", []string{"1.2.3.4, 192.0.2.7"}, "192.0.2.7"},
		"two headers":                       {"10.1.1.1:99", []string{"1.2.3.4", "192.0.2.7"}, "192.0.2.7"},
		"two proxies":                       {"10.1.1.1:99", []string{"1.2.3.4,192.0.2.7, 10.2.2.2"}, "192.0.2.7"},
		"proxies alone":                     {"10.1.1.1:99", []string{"10.3.3.3, 10.2.2.2"}, "10.3.3.3"},
		"what is no address":                {"10.1.1.1:99", []string{"192.0.2.7, unknown, 10.2.2.2"}, "10.2.2.2"},
		"an address with a port":            {"10.1.1.1:99", []string{"192.0.2.7:80"}, "192.0.2.7"},
		"an IPv6 address with a port":       {"10.1.1.1:99", []string{"[2001:db8::7]:80"}, "2001:db8::7"},
		"an IPv6 address in brackets":       {"10.1.1.1:99", []string{"[2001:db8::7]"}, "2001:db8::7"},
		"a proxy with IPv6":                 {"[2001:db8::1]:99", []string{"2001:db8::7"}, "2001:db8::7"},
		"IPv4 written as IPv6":              {"[::ffff:10.1.1.1]:99", []string{"::ffff:192.0.2.7"}, "192.0.2.7"},
		"no address of a connection at all": {"pipe", []string{"192.0.2.7"}, "pipe"},
	} {
		t.Run(name, func(t *testing.T) {
			r := httptest.NewRequest("GET", "/", nil)
			r.RemoteAddr = tc.peer
			r.Header["X-Forwarded-For"] = tc.forwarded
			require.Equal(t, tc.want, trusted.ClientOf(r))
		})
	}
	_, err = ParseProxies([]string{"10.0.0.0/40"})
	require.ErrorContains(t, err, "trusted_proxies")
}
