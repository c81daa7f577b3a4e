package checkpoints

import (
	"encoding/json"
	"errors"
	"io/fs"
	"log/slog"
	"maps"
	"os"

	"github.com/mindcoordinator/mind/durable"
)

// journalFile, in the agent's data directory, has the archive keys of the uploads that were begun and not completed, by
// checkpoint. An upload in it was never reported as stored, so its objects belong to this agent alone.
const journalFile = "checkpoint-uploads.json"

// journal reads and writes journalFile. Only the goroutine of Run uses it.
type journal struct {
	path  string
	begun map[string]string
}

// read reads the journal of an earlier agent.
func (j *journal) read(log *slog.Logger) map[string]string {
	j.begun = make(map[string]string)
	text, err := os.ReadFile(j.path)
	if err == nil {
		err = json.Unmarshal(text, &j.begun)
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		log.Error("it is not known which uploads of checkpoints an earlier agent had begun: what they have put stays in the archive", "error", err)
		j.begun = make(map[string]string)
	}
	return maps.Clone(j.begun)
}

func (j *journal) begin(id, key string) error {
	j.begun[id] = key
	return j.write()
}

func (j *journal) end(id string) error {
	delete(j.begun, id)
	return j.write()
}

func (j *journal) write() error {
	text, err := json.Marshal(j.begun)
	if err != nil {
		return err
	}
	return durable.WriteFile(j.path, text, 0o600)
}
