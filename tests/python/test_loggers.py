"""ebbtide.loggers with the real packages, offline, where they are installed: `scripts/soak loggers` installs them."""

import json
import math

import pytest
import torch
from torch import nn

import ebbtide
from ebbtide import native


class Fields:
    def __init__(self, **fields):
        self.fields = fields

    def to_dict(self):
        return self.fields


@pytest.fixture(scope="module")
def report():
    model = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 64))
    batch = torch.randn(32, 64), torch.randn(32, 64)
    step = ebbtide.step(model, nn.functional.mse_loss, torch.optim.SGD(model.parameters(), lr=0.1), batch, measure=False)
    step(*batch)
    step(*batch)
    yield step.report()
    step.close()


def test_the_report_of_a_step_is_ebbtide_report(report):
    assert isinstance(report, ebbtide.Report)


def test_numbers_have_the_names_of_their_fields(report):
    fields, numbers = report.to_dict(), ebbtide.loggers.numbers(report)
    assert numbers["ebbtide/peak_bytes"] == fields["peak_bytes"] > 0
    assert numbers["ebbtide/predicted/time_ns"] == fields["predicted"]["time_ns"]
    assert "ebbtide/schema_version" not in numbers and "ebbtide/policy" not in numbers


def test_lists_are_series_where_their_entries_have_names():
    numbers = ebbtide.loggers.numbers(Fields(
        jobs=[{"name": "a", "rate": 1.0}, {"name": "a", "rate": 2.0}], moments=[{"at": 3}], live=[1, 2], bad=math.nan, fits=True), "x")
    assert numbers == {"x/jobs/a/rate": 1.0, "x/jobs/a.2/rate": 2.0, "x/fits": 1.0}


def test_results_of_jobs_are_logged_too():
    numbers = ebbtide.loggers.numbers(native.fit("mlp", gpus=["t4"]))
    assert numbers["ebbtide/gpus/t4/max_batch_safe"] > 0


def test_tensorboard(report, tmp_path):
    pytest.importorskip("tensorboard")
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    log = ebbtide.loggers.TensorBoard(tmp_path / "run")
    log(report)
    log(report, step=7)
    log.close()
    events = EventAccumulator(str(tmp_path / "run"))
    events.Reload()
    written = events.Scalars("ebbtide/peak_bytes")
    assert [event.step for event in written] == [report.to_dict()["steps"], 7]
    assert written[0].value == pytest.approx(report.to_dict()["peak_bytes"])
    assert set(events.Tags()["scalars"]) == set(ebbtide.loggers.numbers(report))


def test_weights_and_biases(report, tmp_path, monkeypatch):
    wandb = pytest.importorskip("wandb")
    monkeypatch.setenv("WANDB_MODE", "offline")
    monkeypatch.setenv("WANDB_SILENT", "true")
    with wandb.init(project="test", dir=str(tmp_path)) as run:
        ebbtide.loggers.WeightsAndBiases(run)(report)
        ebbtide.loggers.WeightsAndBiases()(report, step=7)  # the run that has begun
        written = dict(run.summary)
    assert written["ebbtide/peak_bytes"] == report.to_dict()["peak_bytes"]
    with pytest.raises(ValueError, match="expected wandb.init"):
        ebbtide.loggers.WeightsAndBiases()


# ---- Notebooks


@pytest.mark.parametrize("result", [
    lambda: native.inspect("mlp"), lambda: native.estimate("mlp"), lambda: native.fit("mlp", gpus=["t4", "a10"]),
    lambda: native.plan("resnet18", budget="60%", options={"batch_size": 2, "image_size": 64}, bound=False),
    lambda: native.share(["mlp", "mlp"], gpu="t4"),
    lambda: ebbtide.capture(nn.Linear(4, 4), nn.functional.mse_loss, None, (torch.zeros(2, 4), torch.zeros(2, 4)))],
    ids=["inspect", "estimate", "fit", "plan", "share", "capture"])
def test_results_show_in_notebooks(result):
    check_html(result()._repr_html_())


def test_reports_show_in_notebooks(report):
    check_html(report._repr_html_())


def check_html(text):
    """A chart and a table, whole and self-contained."""
    from xml.etree import ElementTree

    tree = ElementTree.fromstring(text)
    tags = {node.tag for node in tree.iter()}
    assert "table" in tags and "pre" in tags
    assert "svg" in tags or any("height:9px" in node.get("style", "") for node in tree.iter("div"))
    assert not tags & {"script", "link", "img", "iframe"} and "http" not in text


def test_what_a_model_is_called_is_escaped():
    from ebbtide.notebook import render

    text = render({"model": "<script>alert(1)</script>", "fits": False}, "<b>")
    assert "<script>" not in text and "<b>\n" not in text and "does not fit" in text
    assert json.dumps(text)
