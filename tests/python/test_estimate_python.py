"""ebbtide.estimate on a user's model: the figures of the command line, CUDA's kernels, and one line for every mistake."""

import json
import pickle
import subprocess
import sys

import pytest

torch = pytest.importorskip("torch")

from support.command_line import result_of  # noqa: E402
from torch import nn  # noqa: E402

import ebbtide  # noqa: E402


class Net(nn.Module):
    """Importable from this module, so that a process of its own can load it."""

    def __init__(self):
        super().__init__()
        self.features = nn.Sequential(nn.Conv2d(3, 16, 3), nn.BatchNorm2d(16), nn.ReLU())
        self.head = nn.Linear(16, 10)

    def forward(self, x):
        return self.head(self.features(x).mean((2, 3)))


def needs_phantom(estimate):
    if any("no phantom GPU" in note for note in estimate.notes):
        pytest.skip("no phantom GPU in this build")


@pytest.fixture(scope="module")
def estimate():
    result = ebbtide.estimate(Net(), torch.zeros(8, 3, 32, 32), optimizer="adam", gpu="rtx3060")
    needs_phantom(result)
    return result


def test_it_has_the_fields_of_the_command(estimate):
    assert estimate.fits and estimate.meta["device"] == "cuda:0" and estimate.notes == []
    assert estimate.gpu == "rtx3060" and estimate.model == "Net"
    # 16*3*3*3 + 16 of the convolution, 2*16 of the normalization, 160 + 10 of the head; Adam has two numbers for each.
    assert estimate.breakdown["Parameter"] == 4 * (448 + 32 + 170)
    assert sum(estimate.breakdown.values()) == estimate.total_bytes
    assert estimate.to_dict()["peak_reserved_bytes"] == estimate.peak_reserved_bytes
    with pytest.raises(AttributeError, match="has no speed; it has .*fits"):
        _ = estimate.speed


def test_its_repr_is_the_table(estimate):
    for part in ("rtx3060", "fits", "peak reserved", "features.0"):
        assert part in repr(estimate)
    assert "<pre" in estimate._repr_html_() and "peak reserved" in estimate._repr_html_()


def test_it_is_saved_by_the_name_of_the_file(estimate, tmp_path):
    for name in ("e.html", "e.json", "e.txt", "e.pickle"):
        estimate.save(tmp_path / name)
    assert json.loads((tmp_path / "e.json").read_text()) == estimate.to_dict()
    assert "peak reserved" in (tmp_path / "e.txt").read_text() and "<html" in (tmp_path / "e.html").read_text()
    snapshot = pickle.loads((tmp_path / "e.pickle").read_bytes())
    assert any(f["filename"] == "features.0" for e in snapshot["device_traces"][0] for f in e["frames"])
    replayed = result_of("replay", tmp_path / "e.pickle")
    assert replayed["peak_reserved_bytes"] == estimate.peak_reserved_bytes
    with pytest.raises(ValueError, match="expected a name that ends in .html"):
        estimate.save(tmp_path / "e.pdf")


def test_losses_targets_optimizers_and_a_job_too_large():
    model = Net().to("meta")  # no memory
    inputs, target = torch.empty(60000, 3, 128, 128, device="meta"), torch.empty(60000, dtype=torch.long, device="meta")
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    result = ebbtide.estimate(model, (inputs,), optimizer, "rtx3060", nn.functional.cross_entropy, target)
    needs_phantom(result)
    assert result.meta["optimizer"] == "sgd" and not result.fits
    assert 0 < result.largest_batch < 60000


class Signs(torch.optim.Optimizer):
    """An optimizer as packages have them: with state and with an attribute of its own."""

    def __init__(self, params, lr):
        super().__init__(params, {"lr": lr})
        self.share = 0.9

    @torch.no_grad()
    def step(self):
        for parameter in self.param_groups[0]["params"]:
            average = self.state[parameter].setdefault("average", torch.zeros_like(parameter))
            average.lerp_(parameter.grad, 1 - self.share)
            parameter.sub_(average.sign(), alpha=self.param_groups[0]["lr"])


def test_an_optimizer_keeps_its_own_attributes_on_the_way():
    model = Net()
    result = ebbtide.estimate(model, torch.zeros(4, 3, 16, 16), Signs(model.parameters(), lr=0.1), gpu="rtx3060")
    needs_phantom(result)
    assert result.meta["optimizer"] == "signs"
    assert result.breakdown["Optstate"] == sum(4 * p.numel() for p in model.parameters())


def test_inference_and_mixed_precision_take_less(estimate):
    batch = torch.zeros(64, 3, 64, 64)
    whole, half, outputs = (ebbtide.estimate(Net(), batch, gpu="rtx3060", **how)
                            for how in ({}, {"autocast": "bf16"}, {"inference": True}))
    # Batch norm saves the convolution's output and ReLU its own: twice 64 * 16 * 62 * 62 numbers.
    saved = 2 * 64 * 16 * 62 * 62
    assert whole.breakdown["Activation"] >= 4 * saved > half.breakdown["Activation"] >= 2 * saved
    assert outputs.breakdown["Activation"] == outputs.breakdown["Gradient"] == outputs.breakdown["Optstate"] == 0
    assert outputs.peak_allocated_bytes < half.peak_allocated_bytes < whole.peak_allocated_bytes


def test_a_class_that_cannot_be_imported_is_captured_with_the_kernels_of_the_cpu(tmp_path):
    class Local(Net):
        pass

    if "cloudpickle" in sys.modules or __import__("importlib.util").util.find_spec("cloudpickle"):
        pytest.skip("cloudpickle takes it")
    result = ebbtide.estimate(Local(), torch.zeros(2, 3, 16, 16), optimizer="none", gpu="t4")
    assert result.meta["device"] == "cpu"
    assert result.notes[0].startswith("captured with the kernels of the CPU: the model cannot be handed")
    assert "kernels of the CPU" in repr(result)


SCRIPT = """
import ebbtide, torch
from torch import nn

class Own(nn.Linear):
    pass

def main():
    estimate = ebbtide.estimate(Own(4, 4), {"input": torch.zeros(2, 4)}, gpu="t4")
    print(estimate.meta["device"], estimate.notes)

"""


@pytest.mark.parametrize("guard, shown", [("if __name__ == '__main__':\\n    main()\\n", "cuda:0 []"), ("main()\\n", "cpu [")])
def test_classes_of_the_script_itself(tmp_path, estimate, guard, shown):
    (tmp_path / "train.py").write_text(SCRIPT + guard.replace("\\n", "\n"))
    done = subprocess.run([sys.executable, tmp_path / "train.py"], capture_output=True, text=True)
    assert done.returncode == 0 and done.stdout.startswith(shown), done.stderr + done.stdout


@pytest.mark.parametrize("arguments, message", [
    ({"optimizer": "adm"}, "optimizer 'adm': expected one of .*did you mean adam"),
    ({"gpu": "rtx306"}, "rtx306.*did you mean rtx3060"),
    ({"autocast": "int8"}, "autocast 'int8': expected 'bf16' or 'fp16'"),
    ({"zero_grad": "middle"}, "--zero-grad: expected start"),
])
def test_mistakes_are_one_line(arguments, message):
    with pytest.raises(ValueError, match=message) as error:
        ebbtide.estimate(Net(), torch.zeros(2, 3, 8, 8), **arguments)
    assert "\n" not in str(error.value)


def test_a_step_that_cannot_be_captured_says_why():
    class Asks(nn.Linear):
        def forward(self, x):
            return super().forward(x if x.sum() > 0 else -x)

    with pytest.raises(ebbtide.CaptureError):
        ebbtide.estimate(Asks(4, 4), torch.zeros(2, 4), gpu="t4")
    with pytest.raises(ValueError, match="target: of no use with a dict"):
        ebbtide.estimate(nn.Linear(4, 4), {"input": torch.zeros(2, 4)}, target=torch.zeros(2, 4))
