"""A script as people publish it: it knows nothing of Mind. `plain_lightning.py STEPS [NOTICE_AT]`."""

from __future__ import annotations

import os
import signal
import sys
from typing import Any

import torch
from lightning.pytorch import LightningModule, Trainer


class Model(LightningModule):
    def __init__(self) -> None:
        super().__init__()
        self.layer = torch.nn.Linear(8, 1)

    def training_step(self, batch: Any, number: int) -> Any:
        if sys.argv[2:] == [str(self.global_step + 1)]:
            os.kill(os.getpid(), signal.SIGUSR1)
        loss = self.layer(batch).pow(2).mean()
        self.log("loss", loss)
        return loss

    def configure_optimizers(self) -> Any:
        return torch.optim.Adam(self.parameters(), lr=0.01)


data = torch.utils.data.DataLoader(torch.randn(3, 4, 8).unbind(0), batch_size=None)  # type: ignore[arg-type]
trainer = Trainer(
    max_steps=int(sys.argv[1]),
    accelerator="cpu",
    logger=False,
    log_every_n_steps=1,
    enable_progress_bar=False,
    enable_model_summary=False,
)
trainer.fit(Model(), data)
print("the end")
