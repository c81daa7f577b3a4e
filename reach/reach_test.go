package reach

import (
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestHostsThatMayBeAsked(t *testing.T) {
	for list, test := range map[string]struct{ yes, no []string }{
		"":                      {[]string{"93.184.216.34", "10.0.0.1", "2001:db8::1"}, []string{"127.0.0.1", "::1", "169.254.169.254", "fe80::1", "0.0.0.0", "::ffff:127.0.0.1", "224.0.0.1", "::", "fd00:ec2::254", "fd20:ce::254", "100.100.100.200", "168.63.129.16", "192.0.0.192", "64:ff9b::7f00:1", "64:ff9b::a9fe:a9fe"}},
		"10.0.0.0/8":            {[]string{"10.1.2.3", "::ffff:10.1.2.3"}, []string{"11.0.0.1", "127.0.0.1"}},
		"127.0.0.1,[::1]":       {[]string{"127.0.0.1", "::1"}, []string{"127.0.0.2"}},
		"example.org,*.lan.org": {nil, []string{"93.184.216.34"}},
	} {
		h, err := parseHosts(strings.FieldsFunc(list, func(r rune) bool { return r == ',' }))
		require.NoError(t, err)
		for _, a := range test.yes {
			require.True(t, h.byAddr(netip.MustParseAddr(a)), "%s: %s", list, a)
		}
		for _, a := range test.no {
			require.False(t, h.byAddr(netip.MustParseAddr(a)), "%s: %s", list, a)
		}
	}
	h, err := parseHosts([]string{"Example.org", "*.lan.org"})
	require.NoError(t, err)
	for host, want := range map[string]bool{"example.org": true, "EXAMPLE.ORG.": true, "a.lan.org": true, "lan.org": false, "xlan.org": false, "a.example.org": false, "evil.org": false} {
		require.Equal(t, want, h.byName(host), host)
	}
	for _, bad := range []string{"", "http://x", "a*b", "10.0.0.0/99", "u@h"} {
		_, err := parseHosts([]string{bad})
		require.Error(t, err, bad)
	}
}

// A node reaches itself at all of its addresses, past its own firewall, so a source must not use them.
func TestTheNodeItselfIsNotAskedByItsOwnAddress(t *testing.T) {
	h, err := parseHosts(nil)
	require.NoError(t, err)
	mine, err := net.InterfaceAddrs()
	require.NoError(t, err)
	for _, a := range mine {
		at, ok := netip.AddrFromSlice(a.(*net.IPNet).IP)
		require.True(t, ok)
		require.False(t, h.byAddr(at), at)
	}
	h, err = parseHosts([]string{"10.0.0.0/8", "::/0", "0.0.0.0/0"})
	require.NoError(t, err)
	for _, a := range mine {
		at, _ := netip.AddrFromSlice(a.(*net.IPNet).IP)
		require.True(t, h.byAddr(at), "what the operator lists may be asked: %s", at)
	}
}

// An allowed host must not redirect to one that is not: here 127.0.0.1 redirects to the same machine by another name.
func TestARedirectDoesNotLeadToTheNodeItself(t *testing.T) {
	asked := false
	inside := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { asked = true }))
	defer inside.Close()
	outside := httptest.NewServer(http.RedirectHandler(strings.Replace(inside.URL, "127.0.0.1", "localhost", 1), http.StatusFound))
	defer outside.Close()
	guard, err := New(Config{Hosts: []string{"*"}})
	require.NoError(t, err)
	guard.allowed = hosts{names: map[string]bool{"127.0.0.1": true}}
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, outside.URL, nil)
	require.NoError(t, err)
	response, err := guard.Do(request)
	if err == nil {
		_ = response.Body.Close()
	}
	require.ErrorContains(t, err, "nodes may not fetch data from localhost")
	require.ErrorAs(t, err, new(Refusal))
	require.False(t, asked)
}

// Link-local addresses and the metadata addresses of clouds are refused, whatever hosts an operator allows.
func TestMetadataIsNeverAsked(t *testing.T) {
	for _, list := range [][]string{nil, {"*"}, {"169.254.0.0/16", "fe80::/10", "fd00::/8", "100.64.0.0/10"}, {"169.254.169.254"}} {
		guard, err := New(Config{Hosts: list})
		require.NoError(t, err)
		for _, host := range []string{"169.254.169.254", "[fe80::1]", "[fd00:ec2::254]", "100.100.100.200", "[::ffff:169.254.169.254]", "[64:ff9b::a9fe:a9fe]"} {
			request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+host+"/latest/meta-data/", nil)
			require.NoError(t, err)
			response, err := guard.Do(request)
			if err == nil {
				_ = response.Body.Close()
			}
			require.ErrorContains(t, err, "never fetch data from", "%v: %s", list, host)
			var refusal Refusal
			require.ErrorAs(t, err, &refusal)
		}
	}
}
