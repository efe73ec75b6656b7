"""Lightning's Trainer: one `fit` on a thread of its own, which a callback holds between steps."""

# https://lightning.ai/docs/pytorch/stable/starter/introduction.html

from __future__ import annotations

import threading
from collections.abc import Callable

import lightning
import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader

from scripts.bench.quiet import quieten
from scripts.bench.task import Task


class _Module(lightning.LightningModule):
    def __init__(self, model: nn.Module, loss: Callable[[Tensor, Tensor], Tensor], make: Callable) -> None:
        super().__init__()
        self.model, self._loss, self._make = model, loss, make

    def training_step(self, batch: tuple[Tensor, Tensor], number: int) -> Tensor:
        inputs, targets = batch
        return self._loss(self.model(inputs), targets)

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return self._make(self.model)


class _Held(lightning.Callback):
    """Ends every step by telling so, and by waiting until the next one is wanted."""

    def __init__(self) -> None:
        self.wanted, self.done, self.closing = threading.Semaphore(0), threading.Semaphore(0), False

    def on_train_batch_end(self, trainer: lightning.Trainer, *_: object) -> None:
        self.done.release()
        self.wanted.acquire()
        trainer.should_stop = self.closing


class _Fit:
    def __init__(self, task: Task) -> None:
        run = task.run
        self._held = _Held()
        self._error: BaseException | None = None
        self._trainer = lightning.Trainer(
            accelerator=task.device.type,
            devices=task.processes,
            num_nodes=task.mesh.world // task.processes,
            strategy="ddp",
            max_epochs=-1,
            callbacks=[self._held],
            logger=False,
            enable_checkpointing=False,
            enable_progress_bar=False,
            enable_model_summary=False,
        )
        self._module = _Module(task.model(), run.model.loss, run.optimizer.build)
        self._loader = DataLoader(task.dataset(), batch_size=run.share, shuffle=True, drop_last=True)
        self._threads = torch.get_num_threads()
        self._thread = threading.Thread(target=self._fit, name="lightning", daemon=True)

    def step(self) -> None:
        if self._thread.ident is None:
            self._thread.start()
        else:
            self._held.wanted.release()
        self._held.done.acquire()
        if self._error is not None:
            raise self._error

    def settle(self) -> None:
        """A step leaves nothing to do."""

    def close(self) -> None:
        if self._thread.is_alive():
            self._held.closing = True
            self._held.wanted.release()
            self._thread.join()

    def _fit(self) -> None:
        # The number of threads is each thread's own.
        torch.set_num_threads(self._threads)
        try:
            self._trainer.fit(self._module, self._loader)
        except BaseException as error:
            self._error = error
        finally:
            self._held.done.release()


def build(task: Task) -> _Fit:
    quieten("lightning")
    return _Fit(task)
