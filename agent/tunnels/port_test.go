package tunnels

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// Addresses as the kernel writes them.
const (
	home4     = "0100007F"
	other4    = "0500007F"
	any4      = "00000000"
	home6     = "00000000000000000000000001000000"
	any6      = "00000000000000000000000000000000"
	mapped4   = "0000000000000000FFFF00000100007F"
	mappedAny = "0000000000000000FFFF000000000000"
)

// table is one of /proc/net: a socket in a state for each "ADDRESS PORT INODE".
func table(state string, sockets ...string) []byte {
	var b strings.Builder
	b.WriteString("  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n")
	for i, socket := range sockets {
		var at string
		var port, inode int
		_, _ = fmt.Sscan(socket, &at, &port, &inode)
		fmt.Fprintf(&b, "%4d: %s:%04X %s:0000 %s 00000000:00000000 00:00000000 00000000     0        0 %d 1 0000000000000000 100 0 0 10 0\n", i, at, port, any4, state, inode)
	}
	return []byte(b.String())
}

// A job is let through to its own sockets only, also where another job listens on the same port at another address.
func TestLoopbacks_leadToOwnSocketsOnly(t *testing.T) {
	owned := map[string]bool{"socket:[7]": true, "socket:[8]": true}
	const listens = "0A"
	none := table(listens)
	for name, c := range map[string]struct {
		tcp, tcp6 []byte
		want      []string
	}{
		"its own of IPv4":                         {table(listens, home4+" 6006 7"), none, []string{"127.0.0.1"}},
		"its own at all addresses":                {table(listens, any4+" 6006 7"), none, []string{"127.0.0.1"}},
		"its own of IPv6, which takes both":       {none, table(listens, any6+" 6006 8"), []string{"127.0.0.1", "::1"}},
		"its own of both":                         {table(listens, home4+" 6006 7"), table(listens, home6+" 6006 8"), []string{"127.0.0.1", "::1"}},
		"its own of IPv4 in IPv6":                 {none, table(listens, mapped4+" 6006 8"), []string{"127.0.0.1"}},
		"another one's":                           {table(listens, home4+" 6006 9"), none, nil},
		"another one's of IPv4":                   {table(listens, home4+" 6006 9"), table(listens, any6+" 6006 8"), []string{"::1"}},
		"another one's of IPv4 in IPv6":           {table(listens, any4+" 6006 7"), table(listens, mapped4+" 6006 9"), nil},
		"another one's at all addresses":          {table(listens, home4+" 6006 7"), table(listens, mappedAny+" 6006 9"), []string{"127.0.0.1"}},
		"another one's of IPv6, its own is aside": {none, table(listens, home6+" 6006 9", mapped4+" 6006 8"), []string{"127.0.0.1"}},
		"its own at another address alone":        {table(listens, other4+" 6006 7"), none, nil},
		"another one's at another address":        {table(listens, home4+" 6006 7", other4+" 6006 9"), none, []string{"127.0.0.1"}},
		"two at one address":                      {table(listens, home4+" 6006 7", home4+" 6006 9"), none, nil},
		"another port":                            {table(listens, home4+" 6007 7"), none, nil},
		"a connection":                            {table("01", home4+" 6006 7"), none, nil},
		"no IPv6":                                 {table(listens, home4+" 6006 7"), nil, []string{"127.0.0.1"}},
	} {
		require.Equal(t, c.want, loopbacks(c.tcp, c.tcp6, 6006, owned), name)
	}
}
