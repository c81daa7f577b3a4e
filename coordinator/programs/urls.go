package programs

import (
	"fmt"

	"github.com/mindcoordinator/mind/flow/ir"
)

// CheckURLs says which checkpoint of a program names a URL that check refuses.
func CheckURLs(source []byte, check func(url string) error) error {
	m, err := ir.Parse(source)
	if err != nil {
		return fmt.Errorf("reading the program: %w", err)
	}
	for i := range m.Flows {
		m.Flows[i].Walk(m.Flows[i].Name, func(_ string, b *ir.Block) {
			if b.NotifyURL == "" || err != nil {
				return
			}
			if bad := check(b.NotifyURL); bad != nil {
				err = fmt.Errorf("the notify_url of the block %s cannot be used: %w", b.ID, bad)
			}
		})
	}
	return err
}
