"""Figures of each step in the loggers that people use, beside the loss.

`to_tensorboard`, `to_wandb` and `to_mlflow` return a function for the training loop to call. It
logs the steps that have ended since its last call, with the numbers that the session gives them: 1
for the first. `add_to_trainer` and `lightning_callback` do that for the Hugging Face Trainer and
for Lightning, with the trainer's own numbers of steps.

>>> log = teraio.loggers.to_tensorboard(session, SummaryWriter())
>>> for batch in batches:
...     train(batch)
...     log()

No logger is imported before its function is called.
"""

import sys

from teraio.errors import Error

_PREFIX = "teraio/"


def step_figures(iteration):
    """Returns the figures of a step as a dict of floats.

    - `seconds`, and of these `stall_seconds`, spent waiting for transfers and memory.
    - `ssd_bytes_read`, `ssd_bytes_written`, `host_bytes_read`, `host_bytes_written`.
    - `planned_share`: the share of its ops that followed a plan.
    - `device_peak_bytes`: the most device memory.

    Args:
        iteration: a dict of `Session.iterations()`.
    """
    traffic = [f"{tier}_bytes_{way}" for tier in ("ssd", "host") for way in ("read", "written")]
    return {
        "seconds": iteration["duration_ns"] / 1e9,
        "stall_seconds": (iteration["stall_read_ns"] + iteration["stall_memory_ns"]) / 1e9,
        **{name: float(iteration[name]) for name in traffic},
        "planned_share": iteration["planned_op_count"] / max(iteration["op_count"], 1),
        "device_peak_bytes": float(iteration["device_peak_bytes"]),
    }


class NewSteps:
    """The steps of a session that have not been taken yet.

    Args:
        session: the `teraio.Session`.
    """

    def __init__(self, session):
        self._session = session
        self._taken = 0

    def take(self):
        """Returns a list of pairs: the number of a new step, and its figures."""
        iterations = self._session.iterations(first=self._taken)
        first = self._taken + 1
        self._taken += len(iterations)
        return [
            (number, {_PREFIX + name: value for name, value in step_figures(iteration).items()})
            for number, iteration in enumerate(iterations, first)
        ]


def to_tensorboard(session, writer):
    """Returns a function that logs the new steps of a session to TensorBoard.

    Args:
        session: the `teraio.Session`.
        writer: a `SummaryWriter`, of torch.utils.tensorboard or tensorboardX.
    """

    def log_step(number, figures):
        for name, value in figures.items():
            writer.add_scalar(name, value, number)

    return _each_new_step(session, log_step)


def to_wandb(session, run):
    """Returns a function that logs the new steps of a session to Weights & Biases.

    The figures have an axis of their own, `teraio/step`, so that they go well with whatever the
    program itself logs.

    Args:
        session: the `teraio.Session`.
        run: the run that `wandb.init()` has returned, online or offline.
    """
    run.define_metric(_PREFIX + "step")
    run.define_metric(_PREFIX + "*", step_metric=_PREFIX + "step")
    return _each_new_step(
        session, lambda number, figures: run.log({_PREFIX + "step": number, **figures})
    )


def to_mlflow(session, run_id=None):
    """Returns a function that logs the new steps of a session to an MLflow run.

    Args:
        session: the `teraio.Session`.
        run_id: the id of the run. The default is the active one.
    """
    import mlflow

    if run_id is None:
        active = mlflow.active_run()
        if active is None:
            raise Error("no MLflow run is active: start one, or give its run_id")
        run_id = active.info.run_id
    return _each_new_step(
        session,
        lambda number, figures: mlflow.log_metrics(figures, step=number, run_id=run_id),
    )


def _each_new_step(session, log_step):
    new_steps = NewSteps(session)

    def log():
        """Logs the steps that have ended since the last call."""
        for number, figures in new_steps.take():
            log_step(number, figures)

    return log


def add_to_trainer(session, trainer):
    """Has a Hugging Face Trainer log the means of its steps' figures beside the loss.

    Args:
        session: the `teraio.Session`.
        trainer: a `transformers.Trainer`, before `train()`.
    """
    from transformers import TrainerCallback

    new_steps = NewSteps(session)

    class FiguresCallback(TrainerCallback):
        def on_log(self, args, state, control, logs=None, **kwargs):
            figures = _means(new_steps.take())
            logs.update(figures)
            state.log_history[-1].update(figures)

    # Before the callbacks that pass `logs` on: add_callback() would put it behind them.
    trainer.callback_handler.callbacks.insert(0, FiguresCallback())


def lightning_callback(session):
    """Returns a callback for `lightning.Trainer(callbacks=[...])`, which logs the steps' figures.

    Args:
        session: the `teraio.Session`.
    """
    Callback = _lightning().Callback
    new_steps = NewSteps(session)

    class FiguresCallback(Callback):
        def on_train_batch_end(self, trainer, module, *args):
            figures = _means(new_steps.take())
            if figures:
                module.log_dict(figures, on_step=True, on_epoch=False)

    return FiguresCallback()


def _lightning():
    """Returns the package whose trainer the program uses: there are two by the same makers."""
    if "pytorch_lightning" in sys.modules and "lightning.pytorch" not in sys.modules:
        return sys.modules["pytorch_lightning"]
    import lightning.pytorch

    return lightning.pytorch


def _means(steps):
    if not steps:
        return {}
    return {name: sum(figures[name] for _, figures in steps) / len(steps) for name in steps[0][1]}
