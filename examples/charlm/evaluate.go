package main

import (
	"errors"
	"fmt"
	"io"
	"math"
)

// evaluate scores the model of an evaluation on the text that it has not learned from, and reports the result.
func evaluate(benchmark string, c *corpus, job Job, out io.Writer) error {
	if job.ModelPath == "" {
		return errors.New("there is no model to score: an evaluation of Mind names one in MIND_MODEL_PATH")
	}
	t, err := trained(c, job.ModelPath)
	if err != nil {
		return fmt.Errorf("reading the model in %s: %w", job.ModelPath, err)
	}
	loss := t.evaluate()
	fmt.Fprintf(out, "%s: model of step %d, loss %.4f, perplexity %.4f\n", benchmark, t.Step, loss, math.Exp(loss))
	err = job.event("evaluation_result", map[string]any{
		"benchmark": benchmark, "metrics": map[string]float64{"loss": loss, "perplexity": math.Exp(loss)}, "num_samples": len(c.held) - context,
	})
	if err != nil {
		return fmt.Errorf("reporting the result: %w", err)
	}
	return nil
}
