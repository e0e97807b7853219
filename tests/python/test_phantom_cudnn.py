"""PyTorch on the phantom's cuDNN: convolutions, batch norm, recurrent networks and CTC run, and their workspaces are
seen by torch's allocator. Where EBBTIDE_TORCH12_PYTHON names the Python of an environment with a torch for CUDA 12, each
program runs there too."""

import textwrap

import pytest
from support.on_phantom import LIBRARIES, on_each_cuda

MIB = 1 << 20

pytestmark = pytest.mark.skipif(not (LIBRARIES / "cu13" / "libcudnn.so.9").exists(), reason="the build has no cuDNN")

HEAD = """
import json, torch
from torch import nn
def say(*values): print(json.dumps(values[0] if len(values) == 1 else values), flush=True)
def R(*shape, **options): return torch.randn(*shape, device="cuda", **options)
def peak(function):
    torch.cuda.synchronize(); torch.cuda.reset_peak_memory_stats(); before = torch.cuda.memory_allocated()
    result = function()
    return torch.cuda.max_memory_allocated() - before, result
def net():
    return nn.Sequential(
        nn.Conv2d(3, 64, 7, 2, 3, bias=False), nn.BatchNorm2d(64), nn.ReLU(), nn.Conv2d(64, 64, 3, padding=1, groups=64),
        nn.Conv2d(64, 64, 3, padding=1, groups=8), nn.Conv2d(64, 128, 1), nn.BatchNorm2d(128),
        nn.ConvTranspose2d(128, 16, 2, 2)).cuda()
"""


# A function's tensors are gone before the end.
run = on_each_cuda(HEAD, lambda code: "def main():\n" + textwrap.indent(code, "    ") + "main()\n")


def test_convolutional_networks_train(run):
    values, errors, statistics = run("""
    model, x = net(), R(8, 3, 96, 96)
    model(x).sum().backward()
    for dtype in (torch.float16, torch.bfloat16):
        with torch.autocast("cuda", dtype=dtype):
            model(x).float().sum().backward()
    model = model.to(memory_format=torch.channels_last)
    model(x.to(memory_format=torch.channels_last)).sum().backward()
    model.double()(x.double()).sum().backward()
    nn.Conv3d(3, 8, 3).cuda()(R(2, 3, 16, 16, 16)).sum().backward()
    nn.Conv1d(16, 8, 3).cuda()(R(2, 16, 64)).sum().backward()
    model.float().eval()(x).sum().backward()
    say(torch.backends.cudnn.is_available(), torch.backends.cudnn.version() // 10000)
    """)
    assert values == [[True, 9]]
    assert errors == ""
    assert statistics["not_modelled"] == {}
    assert statistics["calls"]["cudnnBackendExecute"] > 20
    assert statistics["calls"]["cudnnBatchNormalizationForwardTrainingEx"] >= 2


@pytest.mark.parametrize("flag", ["benchmark", "deterministic"])
def test_flags_of_cudnn(run, flag):
    _, errors, statistics = run(f"""
    torch.backends.cudnn.{flag} = True
    model, x = net(), R(8, 3, 96, 96)
    for _ in range(2):
        model(x).sum().backward()
    """)
    assert errors == "" and statistics["not_modelled"] == {}


# A 3 x 3 convolution of 64 channels on 32 images of 56 x 56: the output is 32 x 64 x 56 x 56 x 4 B = 24.5 MiB, and with
# tf32 the input, as large, is copied with its channels last.
WORKSPACE = """
layer, x = nn.Conv2d(64, 64, 3, padding=1, bias=False).cuda(), R(32, 64, 56, 56)
with torch.no_grad():
    layer(x[:1])
    say(peak(lambda: layer(x))[0])
"""


def test_a_workspace_is_part_of_the_peak(run):
    (with_tf32,), _, _ = run(WORKSPACE)
    assert with_tf32 > 48 * MIB


@pytest.mark.parametrize(
    "head, variables",
    [("torch.backends.cudnn.allow_tf32 = False\n", {}), ("", {"EBBTIDE_PHANTOM_PROFILE": "t4"})],
    ids=["not allowed", "no tf32"],
)
def test_without_tf32_nothing_is_copied(run, head, variables):
    (without,), _, _ = run(head + WORKSPACE, **variables)
    output = 32 * 64 * 56 * 56 * 4
    assert output <= without <= output + MIB


# On a device that is nearly full the workspace does not fit; torch then takes the next engine.
def test_a_workspace_that_does_not_fit(run):
    (ooms, shape), _, _ = run("""
    layer, x = nn.Conv2d(64, 64, 3, padding=1, bias=False).cuda(), R(32, 64, 56, 56)
    torch.cuda.empty_cache()
    kept = torch.empty(torch.cuda.mem_get_info()[0] - (30 << 20), dtype=torch.uint8, device="cuda")
    with torch.no_grad():
        y = layer(x)
    say(torch.cuda.memory_stats()["num_ooms"])
    say(tuple(y.shape))
    """)
    assert ooms >= 1 and shape == [32, 64, 56, 56]


def test_recurrent_networks(run):
    values, errors, statistics = run("""
    for kind, options in ((nn.LSTM, {}), (nn.GRU, {}), (nn.RNN, {}), (nn.LSTM, {"proj_size": 16}), (nn.LSTM, {"bias": False})):
        for bidirectional in (False, True):
            model = kind(24, 32, num_layers=2, dropout=0.3, bidirectional=bidirectional, **options).cuda()
            model.flatten_parameters()
            x = R(10, 4, 24, requires_grad=True)
            model(x)[0].sum().backward()
            assert all(p.grad is not None for p in model.parameters())
            with torch.no_grad():
                model.eval()(x)
    model = nn.LSTM(24, 32).cuda()
    model(nn.utils.rnn.pack_padded_sequence(R(10, 4, 24), [10, 8, 5, 2]))[0].data.sum().backward()
    model = nn.LSTM(64, 256).cuda()
    x = R(100, 32, 64)
    # Output 100 x 32 x 256 x 4 B = 3.125 MiB; kept for the backward pass six times that.
    bytes, kept = peak(lambda: model(x))
    say(bytes, torch.cuda.memory_allocated())
    """)
    assert values[0][0] >= 7 * 100 * 32 * 256 * 4
    assert statistics["not_modelled"] == {}
    assert statistics["calls"]["cudnnRNNBackwardWeights"] >= 11


def test_ctc_loss(run):
    _, errors, statistics = run("""
    scores = R(50, 4, 20).log_softmax(2).detach().requires_grad_()
    targets = torch.ones(40, dtype=torch.int32)
    nn.CTCLoss()(scores, targets, (50,) * 4, (10,) * 4).backward()
    assert scores.grad.shape == scores.shape
    """)
    assert statistics["calls"]["cudnnCTCLoss"] == 1
    assert statistics["not_modelled"] == {}


def test_attention_by_cudnn(run):
    _, errors, statistics = run("""
    from torch.nn.attention import sdpa_kernel, SDPBackend
    q = R(2, 4, 128, 64, dtype=torch.float16, requires_grad=True)
    with sdpa_kernel(SDPBackend.CUDNN_ATTENTION):
        nn.functional.scaled_dot_product_attention(q, q, q, is_causal=True).sum().backward()
    """, EBBTIDE_PHANTOM_PROFILE="h100-80gb")
    assert errors == "" and statistics["not_modelled"] == {}
    assert statistics["calls"]["cudnnBackendExecute"] == 2
