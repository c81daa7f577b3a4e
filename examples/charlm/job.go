package main

import (
	"encoding/json"
	"errors"
	"os"
)

// Job has the information that Mind gives a process about its job. All fields are empty when Mind did not start the
// process.
type Job struct {
	CheckpointDir string
	ResumeFrom    string
	ModelPath     string
	MetricsFile   string
	EventsFile    string
}

// jobFromEnvironment reads Mind's variables. In a job of several nodes all ranks train the same model, and only rank 0
// reports and saves.
func jobFromEnvironment() Job {
	job := Job{ResumeFrom: os.Getenv("MIND_RESUME_FROM"), ModelPath: os.Getenv("MIND_MODEL_PATH")}
	if rank := os.Getenv("MIND_NODE_RANK"); rank == "" || rank == "0" {
		job.CheckpointDir = os.Getenv("MIND_CHECKPOINT_DIR")
		job.MetricsFile = os.Getenv("MIND_METRICS_FILE")
		job.EventsFile = os.Getenv("MIND_EVENTS_FILE")
	}
	return job
}

func (j Job) metrics(fields map[string]any) error { return appendLine(j.MetricsFile, fields) }

func (j Job) event(name string, fields map[string]any) error {
	line := map[string]any{"event": name}
	for k, v := range fields {
		line[k] = v
	}
	return appendLine(j.EventsFile, line)
}

// appendLine appends a line in one write, so that a reader never sees half of a line.
func appendLine(path string, fields map[string]any) error {
	if path == "" {
		return nil
	}
	line, err := json.Marshal(fields)
	if err != nil {
		return err
	}
	f, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	_, err = f.Write(append(line, '\n'))
	return errors.Join(err, f.Close())
}
