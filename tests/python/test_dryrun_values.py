"""Values on the phantom: what follows from host data is true; what depends on skipped kernels is assumed aloud."""

import json

import pytest
from support.command_line import HAS_PHANTOM
from test_dryrun import dryrun, python

pytestmark = pytest.mark.skipif(not HAS_PHANTOM, reason="the build has no phantom GPU")

# Each pair is computed on the host and on the device from the same data. Sizes, dtypes and layouts vary.
TRUE = """
    import json, sys, torch
    torch.manual_seed(0)
    labels = torch.randint(0, 7, (300,)); labels[:7] = torch.arange(7)
    mask = torch.rand(300) < 0.3
    boxes = torch.rand(50, 4) * 100; boxes[:, 2:] += boxes[:, :2]
    edges = torch.randint(0, 90, (2, 800))
    lengths = torch.randint(1, 9, (30,), dtype=torch.int32)
    small = torch.randint(0, 255, (64,), dtype=torch.uint8)
    half = torch.rand(40).half()
    asked = {
        "max": lambda x: x["labels"].max().item(),
        "min of a byte": lambda x: x["small"].min().item(),
        "max of a half": lambda x: x["half"].max().item(),
        "unique": lambda x: x["labels"].unique().tolist(),
        "unique with counts": lambda x: [t.tolist() for t in torch.unique(x["labels"], return_inverse=True, return_counts=True)],
        "unique of bools": lambda x: x["mask"].unique().tolist(),
        "unique rows": lambda x: torch.unique(x["edges"].t() // 30, dim=0).tolist(),
        "unique consecutive": lambda x: torch.unique_consecutive(x["labels"]).tolist(),
        "unique consecutive bools": lambda x: [t.tolist() for t in torch.unique_consecutive(x["mask"], return_counts=True)],
        "nonzero": lambda x: x["mask"].nonzero().tolist(),
        "nonzero of two dims": lambda x: [t.tolist() for t in torch.where(x["edges"] > 40)],
        "bools as index": lambda x: x["labels"][x["mask"]].tolist(),
        "bools as index, assigned": lambda x: x["labels"].clone().masked_fill_(x["mask"], -1).tolist(),
        "put by bools": lambda x: put(x).tolist(),
        "masked select": lambda x: x["labels"].masked_select(x["mask"]).tolist(),
        "bincount": lambda x: torch.bincount(x["labels"], minlength=10).tolist(),
        "sort": lambda x: [t.tolist() for t in torch.sort(x["labels"], stable=True)],
        "argsort of floats": lambda x: x["boxes"][:, 0].argsort().tolist(),
        "topk": lambda x: x["boxes"][:, 1].topk(5).indices.tolist(),
        "cumsum": lambda x: x["lengths"].cumsum(0).tolist(),
        "gather": lambda x: x["edges"].gather(1, x["edges"] // 2).tolist(),
        "scatter add": lambda x: torch.zeros(90, dtype=torch.long, device=x["edges"].device).scatter_add_(
            0, x["edges"][0], torch.ones_like(x["edges"][0])).tolist(),
        "repeat interleave": lambda x: torch.repeat_interleave(x["lengths"]).tolist(),
        "repeat interleave of": lambda x: torch.repeat_interleave(x["labels"][:30], x["lengths"]).tolist(),
        "one hot": lambda x: torch.nn.functional.one_hot(x["labels"]).sum(0).tolist(),
        "comparison": lambda x: bool((x["labels"] == 3).any()),
        "all": lambda x: bool((x["labels"] >= 0).all()),
        "equal": lambda x: torch.equal(x["labels"], x["labels"].clone()),
        "not equal": lambda x: torch.equal(x["labels"], x["labels"] + 1),
        "column": lambda x: x["boxes"][:, 2].max().item(),
        "column read": lambda x: x["boxes"][:, 2].tolist(),
        "transposed": lambda x: x["edges"].t().contiguous().tolist(),
        "other type read": lambda x: x["labels"].float().mean().item(),
        "arange and masks": lambda x: (torch.arange(9, device=x["lengths"].device)[None] < x["lengths"][:, None]).sum().item(),
        "cat": lambda x: torch.cat([x["edges"][0], x["labels"]]).max().item(),
        "filled part": lambda x: filled(x).tolist(),
        "where": lambda x: torch.where(x["mask"], x["labels"], -x["labels"]).sum().item(),
        "areas": lambda x: ((x["boxes"][:, 2] - x["boxes"][:, 0]) * (x["boxes"][:, 3] - x["boxes"][:, 1]) > 500).nonzero().tolist(),
        "split by lengths": lambda x: [len(p) for p in torch.arange(int(x["lengths"].sum()), device=x["lengths"].device).split(x["lengths"].tolist())],
        "complex": lambda x: torch.view_as_real(x["boxes"][:, 0] * 1j).tolist(),
    }
    def put(x):
        y = x["labels"].clone(); y[x["mask"]] = 9; return y
    def filled(x):
        y = torch.empty(4, 3, dtype=torch.long, device=x["labels"].device)
        y[:, 0] = x["labels"][:4]; y[:, 1:] = 5
        return y
    data = dict(labels=labels, mask=mask, boxes=boxes, edges=edges, lengths=lengths, small=small, half=half)
    on_device = {k: v.to("cuda") for k, v in data.items()}
    wrong = []
    for name, ask in asked.items():
        expected, found = ask(data), ask(on_device)
        if expected != found:
            wrong.append([name, str(expected)[:80], str(found)[:80]])
    print(json.dumps({"asked": len(asked), "wrong": wrong}))
"""


def test_what_follows_from_host_data_is_true(tmp_path):
    done, result = python(tmp_path, TRUE)
    assert done.returncode == 0, done.stderr
    printed = json.loads(next(line for line in done.stderr.splitlines() if line.startswith("{")))
    assert printed["asked"] > 30 and printed["wrong"] == []
    assert result["assumptions"] == [] and result["notes"] == []


SELECTED = """
    import torch
    y = torch.nn.Linear(4096, 64).cuda()(torch.rand(512, 4096).cuda())
    mask = (torch.arange(64)[None] < torch.arange(512)[:, None] % 64).cuda()
    print("selected", y.masked_select(mask).numel(), y.masked_select(mask[:1].logical_not()).numel(), y[mask].numel())
    groups = (torch.arange(512) % 7).cuda()
    print("counted", tuple(torch.bincount(groups, weights=y[:, 0].detach()).shape))
"""


def test_a_known_mask_selects_as_many_of_what_nobody_knows(tmp_path):
    done, result = python(tmp_path, SELECTED)
    assert done.returncode == 0, done.stderr
    # 8 times 0 + 1 + ... + 63 are true; all 64 of a row, for each of the 512 rows that it is broadcast to.
    assert said(done, "selected") == f"selected {8 * 2016} {512 * 64} {8 * 2016}"
    assert said(done, "counted") == "counted (7,)"
    assert result["assumptions"] == []


def test_an_assumption_that_selects_nothing_is_noted(tmp_path):
    code = """
    import torch
    y = torch.nn.Linear(4096, 64).cuda()(torch.rand(512, 4096).cuda())
    print("rows", len((y > 0).nonzero()))
    """
    done, result = python(tmp_path, code, "--assume", "masks=false")
    assert said(done, "rows") == "rows 0"
    (note,) = result["notes"]
    assert "selects nothing at train.py:4" in note
    assert python(tmp_path, code)[1]["notes"] == []


def test_a_complex_number_that_nobody_knows_is_told(tmp_path):
    code = """
    import torch
    y = torch.fft.ifft(torch.nn.Linear(8, 1).cuda()(torch.rand(1, 8).cuda())[0])
    print("read", y.detach().cpu().shape)
    """
    done, result = python(tmp_path, code)
    assert done.returncode == 0 and said(done, "read") == "read torch.Size([1])", done.stderr
    assert any(assumption["line"] == "train.py:4" for assumption in result["assumptions"])


UNKNOWN = """
    import torch
    model = torch.nn.Linear(4096, 64).cuda()
    x = torch.rand(512, 4096).cuda()
    y = model(x)
    rows = (y > 0).nonzero()
    print("rows", tuple(rows.shape), int(rows[:, 1].max()))
    experts = y.topk(2).indices
    counts = torch.bincount(experts.flatten(), minlength=64)
    print("experts", counts.tolist())
    print("distinct", y.unique().numel())
    loss = y.mean()
    print("loss", loss.item(), torch.isfinite(loss).item(), torch.isnan(y).any().item())
"""


def said(done, name):
    return next(line for line in done.stderr.splitlines() if line.startswith(name))


def test_what_depends_on_skipped_kernels_is_named(tmp_path):
    done, result = python(tmp_path, UNKNOWN)
    assert done.returncode == 0, done.stderr
    assert said(done, "rows") == f"rows ({512 * 64}, 2) 63"
    assert said(done, "experts") == f"experts {[512 * 2 // 64] * 64}"
    assert said(done, "distinct") == f"distinct {512 * 64}"
    assert said(done, "loss") == "loss 1.0 True False"
    found = {(entry["line"], entry["assumed"]) for entry in result["assumptions"]}
    assert {("train.py:6", "masks all true"), ("train.py:10", "indices spread evenly (experts balanced)"),
            ("train.py:11", "values all distinct"), ("train.py:13", "values finite")} <= found
    assert all(set(entry) == {"line", "what", "led_to", "assumed", "count"} for entry in result["assumptions"])
    assert next(e for e in result["assumptions"] if e["line"] == "train.py:6")["led_to"] == f"a size of [{512 * 64}, 2]"


def test_assume_changes_what_is_assumed(tmp_path):
    done, result = python(tmp_path, UNKNOWN, "--assume", "masks=0.25,experts=first", "--assume", "values=3.5")
    assert said(done, "rows").startswith(f"rows ({512 * 64 // 4}, 2)")
    assert said(done, "experts") == f"experts {[512 * 2] + [0] * 63}"
    assert said(done, "loss") == "loss 3.5 True False"
    assert "masks true at a share of 0.25" in {entry["assumed"] for entry in result["assumptions"]}


@pytest.mark.parametrize("text, message", [
    ("masks", "expected NAME=VALUE, found masks"),
    ("masks=2", "masks: expected true, false or a share of 0 to 1, found 2"),
    ("colours=red", "expected masks, experts, proposals, values, integers or gradients, found colours"),
    ("integers=1.5", "integers: expected a whole number, found 1.5"),
])
def test_an_assumption_that_nobody_knows_is_refused(text, message):
    done = dryrun("--assume", text, "--", "true")
    assert done.returncode == 2 and message in done.stderr and done.stderr.count("\n") == 1


def test_the_scaler_and_clipping_take_the_ordinary_path(tmp_path):
    done, result = python(tmp_path, """
        import torch
        model = torch.nn.Sequential(torch.nn.Linear(2048, 2048), torch.nn.ReLU(), torch.nn.Linear(2048, 10)).cuda()
        optimizer, scaler = torch.optim.SGD(model.parameters(), lr=0.1), torch.amp.GradScaler("cuda")
        for step in range(3):
            with torch.autocast("cuda", dtype=torch.float16):
                loss = model(torch.rand(64, 2048).cuda()).sum()
            scaler.scale(loss).backward()
            scaler.unscale_(optimizer)
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0, error_if_nonfinite=True)
            scaler.step(optimizer)
            scaler.update()
            optimizer.zero_grad()
        print("scale", scaler.get_scale())
    """)
    assert done.returncode == 0, done.stderr
    assert said(done, "scale") == "scale 65536.0"
    assert result["steps"] == 3
    assert {entry["assumed"] for entry in result["assumptions"]} == {"values finite"}


def test_factorisations_succeed(tmp_path):
    done, result = python(tmp_path, """
        import torch
        x = torch.nn.Linear(64, 64).cuda()(torch.rand(2048, 64).cuda())
        matrix = x.t() @ x
        factor, info = torch.linalg.cholesky_ex(matrix)
        assert not info.any()
        torch.linalg.cholesky(matrix)
        torch.linalg.inv(matrix)
        torch.linalg.solve(matrix, x[:64])
        torch.linalg.eigh(matrix), torch.linalg.svd(x)
        top, where = x.topk(3)
        print("MADE", matrix.to(torch.int64).max().item(), where.shape)
        known = torch.eye(5).cuda()
        assert torch.linalg.inv(known).sum().item() == 5 and torch.linalg.cholesky(known).sum().item() == 5
    """)
    assert result["exit_code"] == 0, done.stderr
    assert {entry["assumed"] for entry in result["assumptions"]} == {"matrices well-conditioned (factorisations succeed)", "integer 1"}


def test_draws_of_a_truncated_distribution_end(tmp_path):
    """torch draws again as long as one lies outside, which a skipped kernel's comparison would say for ever."""
    done, result = python(tmp_path, """
        import torch
        large, small = torch.empty(1000, 1000, device="cuda"), torch.empty(40, device="cuda")
        torch.nn.init.trunc_normal_(large, std=0.5, a=-1, b=1)
        torch.nn.init.trunc_normal_(small, a=-1, b=1)
        assert small.abs().max().item() <= 1
        assert bool((large > 0).any())
    """)
    assert result["exit_code"] == 0, done.stderr
    assert "draws within their bounds" in {entry["assumed"] for entry in result["assumptions"]}


def test_kernels_outside_of_operators_make_what_they_touch_unknown(tmp_path):
    done, result = python(tmp_path, """
        import ctypes, torch
        x = torch.arange(100).cuda()
        print("before", x.max().item())
        cublas = ctypes.CDLL("libcublas.so.13")
        handle = ctypes.c_void_p()
        cublas.cublasCreate_v2(ctypes.byref(handle))
        one = ctypes.c_float(1)
        cublas.cublasSscal_v2(handle, 10, ctypes.byref(one), ctypes.c_void_p(x.data_ptr()), 1)
        print("after", x.max().item())
    """)
    assert done.returncode == 0, done.stderr
    assert said(done, "before") == "before 99"
    assert [entry["line"] for entry in result["assumptions"]] == ["train.py:10"]
