"""The rows of the three files of measurements as jobs: what to build, how it was run, what was measured."""

import ast
import csv
import re

MIB = 2**20
ZERO_GRAD = {"0": "start", "1": "before-backward", "2": "end"}
# The parts of xMem's data set. Its meter of image models took its first reading when the model lay on the device: a trait of that data set,
# told by the column of that name, and of no other file.
XMEM_PARTS = ("anova", "montecarlo", "montecarlo_data_new", "colab")
PEERS = {"xmem": ("xmem", "dnnmem", "schedtune", "llmem"), "mlp": (), "timm": ("faketensor",)}


class BadInput(Exception):
    """One line for the user; exit code 2."""


class Row:
    """One measured job. `job` is what bench/estimate/_capture_worker.py is told; `built_in` are words for `ebbtide estimate` where
    that knows the job without a capture; `flags` are further ones."""

    def __init__(self, path, model, measured, gpu, optimizer, batch):
        self.path, self.model, self.measured, self.gpu, self.optimizer, self.batch = path, model, measured, gpu, optimizer, batch
        self.peers = {}  # name -> bytes
        self.job, self.built_in, self.flags = {}, None, []
        self.one_capture = False  # one capture, at a batch of its own, tells all batches
        self.meter_after_model = False  # of image models: the first reading came when the model lay on the device
        self.source = {}  # the file's columns

    def error(self, prediction):
        return prediction / self.measured - 1


def read_rows(path, dataset):
    """The rows whose measurement is of a job that ran to its end."""
    try:
        with open(path, newline="") as file:
            table = list(csv.DictReader(file))
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise BadInput(f"{path}: {error}") from None
    needed, make = _DATASETS[dataset]
    rows = []
    for line, source in enumerate(table, 2):
        missing = [name for name in needed if not source.get(name)]
        if missing:
            raise BadInput(f"{path}: line {line}: expected a value in column {missing[0]}")
        try:
            row = make(source)
        except (ValueError, SyntaxError, TypeError) as error:
            raise BadInput(f"{path}: line {line}: {error}") from None
        if row is not None:
            row.source = source
            rows.append(row)
    return rows


def _positive(source, column, kind=int):
    try:
        number = kind(source[column])
    except ValueError:
        number = 0
    if number <= 0:
        raise ValueError(f"expected a positive number in column {column}, found {source[column]}")
    return number


def _xmem(source):
    if source.get("real_oom", "false").lower() == "true":
        return None
    row = Row(source["path"], source["model"], _positive(source, "ground_bytes"), source["gpu"], source["optimizer"],
              _positive(source, "batch_size"))
    row.peers = {peer: float(source[f"{peer}_est_bytes"]) for peer in PEERS["xmem"] if source.get(f"{peer}_est_bytes")}
    row.job = {"kind": "xmem", "model": row.model, "optimizer": row.optimizer, "batch": row.batch, "seq_len": 128}
    row.meter_after_model = source.get("dataset") in XMEM_PARTS
    position = source.get("zero_grad_mode_in_file") or ""
    row.flags = ["--framework", "pytorch-2.6", "--iterations", "4", "--zero-grad", ZERO_GRAD.get(position, "start")]
    # The first campaign, whose rows do not state the position, ran without cuBLAS workspaces.
    if position not in ZERO_GRAD:
        row.flags += ["--cublas-workspace", "none"]
    return row


def _mlp(source):
    found = re.search(r"input:(\d+)", source["Filename"])
    if found is None:
        raise ValueError("expected input:N in column Filename")
    try:
        layers = [(name, int(width)) for name, width, _ in ast.literal_eval(source["Activations-Params"])]
    except (ValueError, SyntaxError, TypeError):
        raise ValueError("expected [('linear', width, parameters), ...] in column Activations-Params") from None
    row = Row(source["Filename"], source["Filename"], _positive(source, "Max GPU Memory (MiB)", float) * MIB,
              "NVIDIA A100-SXM4-40GB", "Adam", _positive(source, "Batch Size"))
    inputs = int(found[1])
    row.job = {"kind": "layers", "model": "layers", "optimizer": "Adam", "batch": row.batch, "inputs": inputs, "layers": layers}
    names = [name for name, _ in layers]
    if names == (["linear", "ReLU"] * len(layers))[:len(layers)] and names[-1:] == ["linear"]:
        widths = [inputs, *(width for name, width in layers if name == "linear")]
        row.built_in = ["mlp", "--optimizer", "adam", "--batch-size", str(row.batch), "--widths", ",".join(map(str, widths))]
    row.flags = ["--framework", "pytorch-2.6"]
    return row


def _timm(source):
    if source.get("suspect_oom_or_censored", "0") not in ("0", ""):
        return None
    row = Row(f"{source['timm_model']}/{source['batch_size']}", source["timm_model"],
              _positive(source, "measured_max_nvidia_smi_MiB", float) * MIB, "NVIDIA A100-SXM4-40GB", "momentum",
              _positive(source, "batch_size"))
    peer = source.get("faketensor_fwdbwd_peak_MiB")
    row.peers = {"faketensor": float(peer) * MIB} if peer else {}
    row.job = {"kind": "timm", "model": row.model, "optimizer": "timm", "batch": row.batch}
    row.one_capture = True
    row.flags = ["--framework", "pytorch-2.6", "--zero-grad", "end", "--cudnn-benchmark"]  # as timm's own program has it
    return row


_DATASETS = {
    "xmem": (("path", "gpu", "model", "optimizer", "batch_size", "ground_bytes"), _xmem),
    "mlp": (("Filename", "Activations-Params", "Batch Size", "Max GPU Memory (MiB)"), _mlp),
    "timm": (("timm_model", "batch_size", "measured_max_nvidia_smi_MiB"), _timm),
}
