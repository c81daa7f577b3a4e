package stream_test

import (
	"os"
	"testing"

	"github.com/mindcoordinator/mind/devcluster/testrun"
)

func TestMain(m *testing.M) { os.Exit(testrun.Main(m.Run)) }
