"""`teraio.loggers` with the real loggers and trainers: each step's figures, beside the loss."""

import logging
import struct

import pytest
import torch
from matrix import budgets

import teraio
from teraio import Error, loggers

FIGURES = {
    f"teraio/{name}"
    for name in (
        "seconds",
        "stall_seconds",
        "ssd_bytes_read",
        "ssd_bytes_written",
        "host_bytes_read",
        "host_bytes_written",
        "planned_share",
        "device_peak_bytes",
    )
}
STEPS = 6

pytestmark = pytest.mark.usefixtures("one_settled_thread")


def make_model():
    torch.manual_seed(0)
    return torch.nn.Sequential(*[torch.nn.Linear(512, 512) for _ in range(6)])


def test_running_session_is_found():
    assert teraio.running_session() is None
    with budgets.offload("12MB") as session:
        assert teraio.running_session() is session
    assert teraio.running_session() is None


@pytest.fixture
def session():
    with budgets.offload("12MB") as session:
        yield session


def train(log):
    """Trains, and calls `log` after some steps."""
    model = make_model()
    optimizer = torch.optim.AdamW(model.parameters())
    for step in range(STEPS):
        model(torch.ones(8, 512)).square().mean().backward()
        optimizer.step()
        optimizer.zero_grad()
        if step in (1, 2, STEPS - 1):
            log()


def expected(session):
    """The figures of each step by name, as the session has them."""
    steps = [loggers.step_figures(iteration) for iteration in session.iterations()]
    return {f"teraio/{name}": [step[name] for step in steps] for name in steps[0]}


def test_figures_of_a_step():
    figures = loggers.step_figures(
        {
            "duration_ns": 2_000_000_000,
            "stall_read_ns": 100_000_000,
            "stall_memory_ns": 200_000_000,
            "ssd_bytes_read": 3,
            "ssd_bytes_written": 4,
            "host_bytes_read": 5,
            "host_bytes_written": 6,
            "op_count": 8,
            "planned_op_count": 6,
            "device_peak_bytes": 7,
        }
    )
    assert figures == {
        "seconds": 2.0,
        "stall_seconds": pytest.approx(0.3),
        "ssd_bytes_read": 3.0,
        "ssd_bytes_written": 4.0,
        "host_bytes_read": 5.0,
        "host_bytes_written": 6.0,
        "planned_share": 0.75,
        "device_peak_bytes": 7.0,
    }


def test_tensorboard_has_every_step(session, tmp_path):
    pytest.importorskip("tensorboard")
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
    from torch.utils.tensorboard import SummaryWriter

    with SummaryWriter(tmp_path) as writer:
        train(loggers.to_tensorboard(session, writer))
    events = EventAccumulator(str(tmp_path)).Reload()
    assert set(events.Tags()["scalars"]) == FIGURES
    for name, values in expected(session).items():
        scalars = events.Scalars(name)
        assert [scalar.step for scalar in scalars] == [1, 2, 3, 4, 5, 6]
        assert [scalar.value for scalar in scalars] == pytest.approx(values, rel=1e-6)


def offline_rows(data):
    """Yields what each `log()` of an offline run has written, as a dict of JSON texts.

    The file is a log in LevelDB's format after a header of 7 bytes. It is short enough for one
    block, so every record is whole: checksum, length, type, content.
    """
    from wandb.proto import wandb_internal_pb2

    assert len(data) < 1 << 15
    place = 7
    while place < len(data):
        length, kind = struct.unpack_from("<HB", data, place + 4)
        assert kind == 1
        place += 7 + length
        record = wandb_internal_pb2.Record.FromString(data[place - length : place])
        if record.HasField("history"):
            items = record.history.item
            yield {"".join(item.nested_key) or item.key: item.value_json for item in items}


def test_wandb_has_every_step_beside_what_the_program_logs(session, tmp_path):
    wandb = pytest.importorskip("wandb")
    with wandb.init(mode="offline", dir=tmp_path, settings={"silent": True}) as run:
        log = loggers.to_wandb(session, run)
        run.log({"loss": 1.0})
        train(log)
        run.log({"loss": 0.5})
    wandb.teardown()  # waits for the process that writes the file
    (file,) = tmp_path.glob("wandb/offline-run-*/*.wandb")
    rows = list(offline_rows(file.read_bytes()))
    steps = [row for row in rows if "teraio/step" in row]
    assert [int(row["teraio/step"]) for row in steps] == [1, 2, 3, 4, 5, 6]
    for name, values in expected(session).items():
        assert [float(row[name]) for row in steps] == pytest.approx(values)
    assert [float(row["loss"]) for row in rows if "loss" in row] == [1.0, 0.5]


def test_mlflow_has_every_step(session, tmp_path, monkeypatch):
    mlflow = pytest.importorskip("mlflow")
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
    mlflow.set_tracking_uri(f"file://{tmp_path}")
    mlflow.set_experiment("teraio")
    with pytest.raises(Error, match="no MLflow run is active"):
        loggers.to_mlflow(session)
    with mlflow.start_run() as run:
        train(loggers.to_mlflow(session))
    client = mlflow.MlflowClient()
    for name, values in expected(session).items():
        history = client.get_metric_history(run.info.run_id, name)
        assert [metric.step for metric in history] == [1, 2, 3, 4, 5, 6]
        assert [metric.value for metric in history] == pytest.approx(values)


class Squares(torch.nn.Module):
    """A model in the form that the Hugging Face Trainer expects."""

    def __init__(self):
        super().__init__()
        self.layers = make_model()

    def forward(self, x):
        outputs = self.layers(x)
        return {"loss": outputs.square().mean(), "outputs": outputs}


def test_hugging_face_trainer_logs_figures_beside_the_loss(session, tmp_path):
    transformers = pytest.importorskip("transformers")
    pytest.importorskip("accelerate")
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    trainer = transformers.Trainer(
        model=Squares(),
        args=transformers.TrainingArguments(
            output_dir=str(tmp_path),
            max_steps=STEPS,
            logging_steps=1,
            report_to=["tensorboard"],
            use_cpu=True,
            disable_tqdm=True,
            save_strategy="no",
        ),
        train_dataset=[{"x": torch.ones(512)}] * 64,
    )
    loggers.add_to_trainer(session, trainer)
    trainer.train()
    with_loss = [logs for logs in trainer.state.log_history if "loss" in logs]
    assert [logs["step"] for logs in with_loss] == [1, 2, 3, 4, 5, 6]
    assert all(logs.keys() >= FIGURES for logs in with_loss)
    seconds = expected(session)["teraio/seconds"]
    assert [logs["teraio/seconds"] for logs in with_loss] == pytest.approx(seconds)
    (file,) = tmp_path.glob("**/events.out.*")
    scalars = EventAccumulator(str(file)).Reload().Scalars("train/teraio/seconds")
    assert [scalar.value for scalar in scalars] == pytest.approx(seconds, rel=1e-6)


def test_lightning_logs_figures_beside_the_loss(session, tmp_path):
    lightning = pytest.importorskip("lightning.pytorch")
    from lightning.pytorch.loggers import CSVLogger

    class Module(lightning.LightningModule):
        def __init__(self):
            super().__init__()
            self.layers = make_model()

        def training_step(self, batch):
            loss = self.layers(batch).square().mean()
            self.log("loss", loss)
            return loss

        def configure_optimizers(self):
            return torch.optim.AdamW(self.parameters())

    logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)
    trainer = lightning.Trainer(
        max_steps=STEPS,
        accelerator="cpu",
        callbacks=[loggers.lightning_callback(session)],
        logger=CSVLogger(tmp_path),
        log_every_n_steps=1,
        enable_progress_bar=False,
        enable_model_summary=False,
        enable_checkpointing=False,
    )
    trainer.fit(Module(), torch.utils.data.DataLoader(torch.ones(64, 512), batch_size=8))
    header, *rows = (tmp_path / "lightning_logs/version_0/metrics.csv").read_text().splitlines()
    rows = [dict(zip(header.split(","), row.split(","), strict=True)) for row in rows]
    assert len(rows) == STEPS and all(row.keys() >= FIGURES | {"loss"} for row in rows)
    logged = [float(row["teraio/seconds"]) for row in rows]
    assert logged == pytest.approx(expected(session)["teraio/seconds"], rel=1e-5)
