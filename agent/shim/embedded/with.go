//go:build shim_embedded

package embedded

import _ "embed"

//go:embed shim
var program []byte
