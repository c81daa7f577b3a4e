"""Trains a model of a few weights with a rank on each node, over gloo, as a script of somebody who knows torch would.

usage: train_gloo.py STEPS PAUSE; a checkpoint after every tenth step, the loss of each step to Mind, PAUSE seconds a step.
"""

import sys
import time
from datetime import timedelta

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

from mindcoordinator import training

EVERY = 10


def main() -> None:
    steps, pause = int(sys.argv[1]), float(sys.argv[2])
    dist.init_process_group("gloo", timeout=timedelta(minutes=5))
    rank = dist.get_rank()
    torch.manual_seed(7)
    model = DistributedDataParallel(torch.nn.Linear(8, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    done = 0
    if path := training.resume_path():
        saved = torch.load(f"{path}/state.pt")
        model.load_state_dict(saved["model"])
        optimizer.load_state_dict(saved["optimizer"])
        done = saved["step"]
    for step in range(done + 1, steps + 1):
        # The rows of a step are the same in every attempt, and others at each rank.
        rows = torch.randn(16, 8, generator=torch.Generator().manual_seed(2 * step + rank))
        loss = (model(rows) - rows.sum(1, keepdim=True)).pow(2).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        mean = loss.detach()
        dist.all_reduce(mean)
        if rank == 0:
            training.report(step, total_steps=steps, loss=mean.item() / dist.get_world_size())
            if step % EVERY == 0:
                with training.checkpoint_at(step) as folder:
                    state = {"model": model.state_dict(), "optimizer": optimizer.state_dict(), "step": step}
                    torch.save(state, folder / "state.pt")
        time.sleep(pause)  # a real step takes a while
    dist.destroy_process_group()


main()
