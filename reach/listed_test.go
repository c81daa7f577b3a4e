package reach

import (
	"net/http"
	"net/http/httptest"
	"net/netip"
	"testing"

	"github.com/stretchr/testify/require"
)

func listed(t *testing.T, list ...string) *Listed {
	l, err := NewListed("webhook_hosts", list)
	require.NoError(t, err)
	return l
}

func TestListed_urls(t *testing.T) {
	l := listed(t, "hooks.example.org", "*.lan.example.org", "10.1.0.0/16", "127.0.0.1")
	for _, good := range []string{
		"https://hooks.example.org/a?b=c", "https://HOOKS.example.org:8443/", "https://x.lan.example.org", "https://10.1.2.3/", "http://127.0.0.1:9/x",
	} {
		require.NoError(t, l.Check(good), good)
	}
	for bad, why := range map[string]string{
		"http://hooks.example.org/":         "its scheme has to be https",
		"http://10.1.2.3/":                  "its scheme has to be https",
		"ftp://hooks.example.org/":          "its scheme has to be https",
		"https://evil.example.org/":         "evil.example.org is not in webhook_hosts of the coordinators",
		"https://93.184.216.34/":            "is not in webhook_hosts",
		"https://10.2.0.1/":                 "is not in webhook_hosts",
		"https://hooks.example.org:0/":      "its port 0 is not from 1 to 65535",
		"https://hooks.example.org:99999/":  "its port 99999 is not from 1 to 65535",
		"https://127.0.0.2/":                "is not in webhook_hosts",
		"http://localhost/":                 "is not in webhook_hosts",
		"https://u:p@hooks.example.org/":    "it is not a URL such as",
		"https://hooks.example.org/#x":      "it is not a URL such as",
		"https:hooks.example.org":           "it is not a URL such as",
		"hooks.example.org":                 "it is not a URL such as",
		"https://169.254.169.254/":          "is never asked",
		"https://[::ffff:169.254.169.254]/": "is never asked",
	} {
		require.ErrorContains(t, l.Check(bad), why, bad)
	}
	require.ErrorContains(t, listed(t, "169.254.0.0/16").Check("https://169.254.169.254/"), "is never asked")
	require.ErrorContains(t, listed(t, "*").Check("https://192.168.0.7/"), "is not a public address")
	require.NoError(t, listed(t, "*").Check("https://93.184.216.34/"))
	require.NoError(t, listed(t, "localhost").Check("http://localhost:8080/"))
	for _, none := range []string{"https://hooks.example.org/", "https://93.184.216.34/"} {
		require.ErrorContains(t, listed(t).Check(none), "is not in webhook_hosts", "an empty list allows nothing")
	}
}

// A name that is listed leads to public addresses. The owner of a name can point it anywhere.
func TestListed_addressesOfNames(t *testing.T) {
	l := listed(t, "*", "10.1.0.0/16")
	for addr, want := range map[string]bool{
		"93.184.216.34": true, "2606:2800:220:1::1": true, "10.1.2.3": true, "::ffff:10.1.2.3": true,
		"10.2.0.1": false, "192.168.0.1": false, "172.16.0.1": false, "100.64.0.1": false, "127.0.0.1": false, "::1": false, "fd00::1": false,
		"198.18.0.1": false, "240.0.0.1": false, "0.1.2.3": false, "192.0.0.8": false, "64:ff9b:1::a00:5": false, "2002:a00:5::1": false,
		"2001:0:a00:5::": false, "::a00:5": false, "fec0::1": false,
		"169.254.169.254": false, "fe80::1": false, "0.0.0.0": false, "::": false, "224.0.0.1": false, "64:ff9b::7f00:1": false, "64:ff9b::a00:1": false,
	} {
		require.Equal(t, want, l.mayAsk("hooks.example.org", netip.MustParseAddr(addr)), addr)
	}
	require.False(t, listed(t, "*").mayAsk("localhost", netip.MustParseAddr("127.0.0.1")), "localhost has to be listed by its name")
}

func TestListed_theResolvedAddressIsChecked(t *testing.T) {
	asked := false
	inside := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { asked = true }))
	defer inside.Close()
	get := func(l *Listed) error {
		transport := l.Transport()
		defer transport.CloseIdleConnections()
		request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, inside.URL, nil)
		require.NoError(t, err)
		response, err := transport.RoundTrip(request)
		if err == nil {
			_ = response.Body.Close()
		}
		return err
	}
	err := get(listed(t, "*"))
	require.ErrorContains(t, err, "leads to an address that is not public")
	require.ErrorAs(t, err, new(Refusal))
	require.False(t, asked)
	require.NoError(t, get(listed(t, "127.0.0.1")))
	require.True(t, asked)
}
