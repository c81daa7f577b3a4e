package printed

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// read returns the lines of metrics that a printed line makes; empty: it is no report.
func read(t *testing.T, own, text string) string {
	t.Helper()
	p, err := Parse(own)
	require.NoError(t, err)
	l, ok := p.match([]byte(text))
	if !ok {
		return ""
	}
	return strings.TrimSuffix(string(l.json(nil)), "\n")
}

func TestPatterns_whatTrainingsPrint(t *testing.T) {
	for _, c := range [][2]string{
		// nanoGPT
		{"iter 10: loss 3.1234, time 12.30ms, mfu 1.25%", `{"step":10,"loss":3.1234,"time_ms":12.3,"mfu":1.25}`},
		{"iter 0: loss 4.2, time 900.1ms, mfu -100.00%", `{"step":0,"loss":4.2,"time_ms":900.1}`},
		{"step 250: train loss 1.9, val loss 2.0", `{"step":250,"train_loss":1.9,"val_loss":2}`},
		{"iter 10: loss nan, time 12.30ms, mfu 1.25%", `{"step":10,"loss":NaN,"time_ms":12.3,"mfu":1.25}`},
		{"step 250: train loss nan, val loss inf", `{"step":250,"train_loss":NaN,"val_loss":NaN}`},
		// transformers and trl
		{"{'loss': 2.3, 'grad_norm': 1.1, 'learning_rate': 5e-05, 'epoch': 0.1}", `{"loss":2.3,"grad_norm":1.1,"learning_rate":5e-05,"epoch":0.1}`},
		{"{'loss': '2.3', 'learning_rate': '5e-05', 'epoch': '0.1'}", `{"loss":2.3,"learning_rate":5e-05,"epoch":0.1}`},
		{"{'eval_loss': 2.1, 'eval_runtime': 3.5, 'epoch': 1.0}", `{"eval_loss":2.1,"eval_runtime":3.5,"epoch":1}`},
		{"  {'loss': nan, 'grad_norm': 0.5}  ", `{"loss":NaN,"grad_norm":0.5}`},
		{"{'loss': nan}", `{"loss":NaN}`},
		{`{"step": 3, "loss": 0.5, "max_steps": 10}`, `{"step":3,"total_steps":10,"loss":0.5}`},
		{"[default0]:{'loss': 2.3}", `{"loss":2.3}`},
		// Lightning and tqdm
		{"Epoch 0:   5%|▌         | 47/938 [00:01<00:20, 42.59it/s, loss=2.30, v_num=0]", `{"step":47,"epoch":0,"loss":2.3}`},
		{"Epoch 2: 100%|██████████| 10/10 [00:00<00:00, 99.1it/s, v_num=0, train_loss_step=0.5]", `{"step":30,"epoch":2,"train_loss_step":0.5}`},
		{" 50%|█████     | 5/10 [00:00<00:00, 9.1it/s, loss=0.25]", `{"step":5,"total_steps":10,"loss":0.25}`},
		{"Training: 50%|█████     | 5/10 [00:00<00:00, 9.1it/s, loss=0.25]", `{"loss":0.25}`},
		// names and numbers
		{"step=10 loss=0.3 lr=1e-4", `{"step":10,"loss":0.3,"lr":0.0001}`},
		{"INFO train: step=10, total_steps=20 | train/loss=0.3; tokens=512", `{"step":10,"total_steps":20,"train/loss":0.3,"tokens":512}`},
		{"step=10 loss=nan lr=-Infinity tokens=nan", `{"step":10,"loss":NaN,"lr":NaN}`},
		{"step=1,000 loss=0.5", `{"step":1000,"loss":0.5}`},
		{"step=1,234,567,loss=0.5,tokens=12,345.5", `{"step":1234567,"loss":0.5,"tokens":12345.5}`},
		{"step=1000,200 loss=0.5", `{"step":1000,"loss":0.5}`},
		{"epoch=1 val_loss=0.3 val_loss=0.4", `{"epoch":1,"val_loss":0.3}`},
	} {
		require.Equal(t, c[1], read(t, "", c[0]), c[0])
	}
}

func TestPatterns_inventNothing(t *testing.T) {
	for _, text := range []string{
		"", "loss", "the loss is 3.2", "loss: 3.2", "loss=0.3", "lr=0.001 batch_size=32",
		"iter 10: loss 3.1", "iter 10: loss 3.1, time 12.3", "iter x: loss 3.1, time 12.30ms",
		"step 250: train loss 1.9",
		"{'loss': 2.3", "{'loss': 2.3, 'x': {'y': 1}}", "{'loss': 'high'}", "{'runtime': 2.3}", "{'loss': 'nanny'}",
		"Epoch 0:   5%|▌  | 47/938 [00:01<00:20, 42.59it/s, lo", "Epoch 0:   5%|▌  | 47/938 [00:01<00:20, 42.59it/s]",
		"step=10 tokens=3", "step=10 loss=1e999", "step=10 loss=0x1p3", "step=10 speed=nan",
		`step=10 lo"ss=3`, "Namespace(lr=0.1, loss=3)", "loss=" + strings.Repeat("9", 400) + " step=1",
	} {
		require.Empty(t, read(t, "", text), text)
	}
}

func TestPatterns_ofTheJob(t *testing.T) {
	own := `^it (?P<step>\d+)/(?P<total_steps>\d+) perplexity (?P<perplexity>\S+)(?: bleu (?P<bleu>\S+))?`
	require.Equal(t, `{"step":3,"total_steps":10,"perplexity":12.5}`, read(t, own, "it 3/10 perplexity 12.5"))
	require.Equal(t, `{"step":3,"total_steps":10,"perplexity":12.5,"bleu":30}`, read(t, own, "it 3/10 perplexity 12.5 bleu 30 x"))
	require.Equal(t, `{"step":3,"total_steps":10}`, read(t, own, "it 3/10 perplexity high"))
	require.Empty(t, read(t, own, "iter 10: loss 3.1234, time 12.30ms"), "the built-in patterns are off")
	for _, wrong := range []string{"(", `loss (\d+)`, `loss (?P<loss>`} {
		_, err := Parse(wrong)
		require.ErrorContains(t, err, PatternVariable, wrong)
	}
	p, err := Parse("off")
	require.NoError(t, err)
	require.Nil(t, p)
}

func TestLiteral_isInEachMatch(t *testing.T) {
	for own, want := range map[string]string{
		`^it (?P<step>\d+) perplexity (?P<p>\S+)$`: " perplexity ",
		`(?i)loss (?P<loss>\d+)`:                   "",
		`(?:a|loss) (?P<loss>\d+)`:                 " ",
		`(?:loss )?(?P<loss>\d+)`:                  "",
		`(?:loss )+(?P<loss>\d+)`:                  "loss ",
	} {
		require.Equal(t, want, literal(own), own)
	}
}

func FuzzMatch(f *testing.F) {
	f.Add("iter 10: loss 3.1234, time 12.30ms, mfu 1.25%")
	f.Add("{'loss': 2.3, 'epoch': 0.1}")
	f.Add("Epoch 2: 100%|██| 10/10 [00:00<00:00, 99.1it/s, loss=0.5]")
	f.Add("step=10 loss=0.3")
	f.Add("step=1,000,loss=nan,lr=-inf")
	f.Fuzz(func(t *testing.T, text string) {
		l, ok := (&Patterns{needles: builtIn}).match([]byte(text))
		if !ok {
			return
		}
		require.True(t, json.Valid(bytes.ReplaceAll(l.json(nil), []byte(`":NaN`), []byte(`":0`))), "%q", text)
		require.True(t, slices.ContainsFunc(builtIn, func(n []byte) bool { return strings.Contains(text, string(n)) }), "%q: the search would have passed over it", text)
	})
}
