// Init is process 1 of the virtual machines of package vm.
package main

import "github.com/mindcoordinator/mind/chaos/vm/guest"

func main() { guest.Main() }
