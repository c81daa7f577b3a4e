//go:build !shim_embedded

package embedded

var program []byte
