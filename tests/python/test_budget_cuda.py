"""with ebbtide.budget(...) for a GPU, on the phantom, the race checker beside. Kernels are skipped there: numbers are compared where copies
alone make them. What else counts: that torch never reserves more, that nothing is touched before its turn, and that the host does not wait."""

import textwrap

import pytest
from support.cuda_steps import run
from support.on_phantom import needs_phantom

pytestmark = needs_phantom

HEAD = """\
from ebbtide import phantom_observer
phantom_observer.start()
phantom.ebbtide_phantom_now.restype = ctypes.c_int64
MIB = 1 << 20

def deep(layers=16):
    \"\"\"Layers of 4 MiB, whose results take 32 MiB each.\"\"\"
    torch.manual_seed(0)
    model = torch.nn.Sequential(*[m for _ in range(layers) for m in (torch.nn.Linear(1024, 1024, bias=False), torch.nn.Tanh())])
    return model.cuda(), torch.zeros(8192, 1024, device="cuda")

def train(model, x, steps=4, laps=None):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(steps):
        begin = phantom.ebbtide_phantom_now()
        optimizer.zero_grad()
        model(x).square().mean().backward()
        optimizer.step()
        torch.cuda.synchronize()
        if laps is not None:
            laps.append(phantom.ebbtide_phantom_now() - begin)

class Keep(torch.autograd.Function):
    \"\"\"Saves a tensor, and shows what has become of it in backward.\"\"\"
    seen = []
    @staticmethod
    def forward(ctx, x, kept):
        ctx.save_for_backward(kept)
        return x.view_as(x)
    @staticmethod
    def backward(ctx, gradient):
        Keep.seen.append(ctx.saved_tensors[0].cpu())
        return gradient, None

HOSTS = [torch.randn(3 * MIB).pin_memory() for _ in range(8)]  # 12 MiB each
SIDE = torch.cuda.Stream()

def same_in_backward(made_aside=(), saved_aside=()):
    \"\"\"Whether all HOSTS are seen in backward as they were. Some are made, some are saved and needed in another stream.\"\"\"
    Keep.seen.clear()
    main = torch.cuda.current_stream()
    y = torch.zeros(8, device="cuda", requires_grad=True)
    for i, host in enumerate(HOSTS):
        with torch.cuda.stream(SIDE if i in made_aside else main):
            kept = host.to("cuda", non_blocking=True)
        main.wait_stream(SIDE)
        SIDE.wait_stream(main)
        with torch.cuda.stream(SIDE if i in saved_aside else main):
            kept.record_stream(torch.cuda.current_stream())
            y = Keep.apply(y, kept)
        main.wait_stream(SIDE)
        SIDE.wait_stream(main)
    y.sum().backward()
    return len(Keep.seen) == len(HOSTS) and all(torch.equal(a, b) for a, b in zip(reversed(Keep.seen), HOSTS))
"""


def program(code):
    return HEAD + textwrap.dedent(code).lstrip("\n")


def test_a_training_keeps_half_of_what_it_reserved(tmp_path):
    said, statistics = run(program(
        """
        model, x = deep()
        train(model, x, 1)
        model.zero_grad()
        plain, laps = [], []
        with ebbtide.budget("1TiB") as free:
            train(model, x, laps=plain)
        limit = free.report()["peak_bytes"] // 2
        model.zero_grad()
        with ebbtide.budget(limit, device="cuda") as budget:
            reserved = torch.cuda.memory_reserved()
            torch.cuda.reset_peak_memory_stats()
            train(model, x, laps=laps)
            grown = torch.cuda.max_memory_reserved() - reserved
        print(json.dumps({"free": free.report(), "budget": budget.report(), "limit": limit, "grown": grown, "laps": [plain, laps],
                          "fraction": torch.cuda.get_per_process_memory_fraction()}))
        """), tmp_path, EBBTIDE_PHANTOM_KERNEL_US="300")
    budget, (plain, laps) = said["budget"], said["laps"]
    assert said["free"]["copied_out_bytes"] == 0
    assert said["grown"] == budget["peak_bytes"] <= said["limit"]
    # 16 results of 32 MiB are saved; 10 or more have to leave in each of the four iterations.
    assert budget["copied_out_bytes"] == budget["copied_in_bytes"] >= 4 * 10 * (32 << 20)
    assert said["fraction"] == 1
    assert statistics["race_count"] == 0 and statistics["declared_accesses"] > 1000
    # From the second iteration on copies run beside compute: it hides at least half of what they take by themselves, 25 GB/s each way.
    copies = 2 * budget["copied_out_bytes"] / 4 / 25
    assert laps[2] == laps[3] < plain[3] + copies / 2
    assert laps[3] < laps[0]


@pytest.mark.parametrize("configuration, limit", [("", 56), ("expandable_segments:True", 76)])
def test_what_comes_back_is_what_left(tmp_path, configuration, limit):
    """Also where it was made in another stream, and where copies begin late."""
    said, statistics = run(program(
        """
        said = []
        for aside in ((), (range(8), ()), ((), (1, 3, 5)), ((0, 1, 4, 5), (0, 2, 4, 6))):
            with ebbtide.budget(LIMIT * MIB) as budget:  # 8 * 12 MiB are saved; 2 MiB are a segment of small tensors
                said.append(([same_in_backward(*aside) for _ in range(4)], budget.report()))
        print(json.dumps(said))
        """.replace("LIMIT", str(limit))), tmp_path, EBBTIDE_PHANTOM_BACKED="256MiB", EBBTIDE_PHANTOM_JITTER_US="1000", PYTORCH_ALLOC_CONF=configuration)
    for same, report in said:
        assert same == [True] * 4
        fit = (limit - 2) // 12
        assert report["peak_bytes"] <= limit << 20 and report["copied_in_bytes"] >= 4 * (8 - fit) * (12 << 20)
    assert statistics["race_count"] == 0


def test_a_limit_that_cannot_be_kept_raises_and_leaves_no_trace(tmp_path):
    said, _ = run(program(
        """
        said = []
        model, x = deep(4)
        try:
            with ebbtide.budget("80MiB"):  # one layer's results and gradients are more
                train(model, x)
        except torch.OutOfMemoryError as error:
            said.append(str(error))
        model.zero_grad()
        said.append(torch.cuda.get_per_process_memory_fraction())
        with ebbtide.budget("1GiB") as budget:
            train(model, x)
        said.append(budget.report()["copied_out_bytes"])
        with ebbtide.budget("100MiB") as budget:
            begin = torch.ones(8 * MIB, device="cuda", requires_grad=True)  # 32 MiB, as all that follow
            y = begin.exp()
            z = y.exp()
            try:
                torch.empty(8 * MIB, device="cuda")
            except torch.OutOfMemoryError as error:
                said.append(str(error))
            del y  # autograd has saved it, and nobody else refers to it
            torch.empty(8 * MIB, device="cuda")
        said.append(budget.report()["copied_out_bytes"])
        z.sum().backward()  # it comes back afterwards too
        said.append(begin.grad is not None and not races())
        print(json.dumps(said))
        """), tmp_path)
    assert said[0].startswith("the budget of 83886080 bytes cannot be kept") and said[3].startswith("the budget of 104857600 bytes cannot be kept")
    assert said[1:3] == [1, 0] and said[4:] == [32 << 20, True]


def test_a_gpu_that_is_smaller_than_the_budget(tmp_path):
    """The device refuses, not the limit: what can leave does so all the same."""
    said, statistics = run(program(
        """
        model, x = deep()
        free, total = torch.cuda.mem_get_info()
        filler = torch.empty(free - 400 * MIB, dtype=torch.uint8, device="cuda")
        with ebbtide.budget("100GiB") as budget:
            train(model, x, 2)
            try:
                torch.empty(500 * MIB, dtype=torch.uint8, device="cuda")
            except torch.OutOfMemoryError as error:
                print(json.dumps({"report": budget.report(), "error": str(error)}))
        """), tmp_path)
    assert said["report"]["copied_out_bytes"] > 0 and said["report"]["peak_bytes"] <= 400 << 20
    assert "CUDA out of memory" in said["error"]
    assert statistics["race_count"] == 0


def test_without_pinned_memory_and_with_copies_that_fail(tmp_path):
    code = program(
        """
        same, failed = 0, 0
        torch.cuda.synchronize()
        with ebbtide.budget("56MiB") as budget:
            for _ in range(8):
                try:
                    same += same_in_backward()
                except (RuntimeError, torch.OutOfMemoryError):
                    failed += 1
        print(json.dumps({"same": same, "failed": failed, "report": budget.report()}))
        """)
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    # Eight are the program's own.
    said, statistics = run(code, tmp_path / "a", EBBTIDE_PHANTOM_BACKED="256MiB", EBBTIDE_PHANTOM_FAIL="cudaHostAlloc@9+")
    assert statistics["faults_injected"] > 0 and (said["same"], said["failed"]) == (8, 0)
    assert said["report"]["copied_in_bytes"] > 0 and statistics["race_count"] == 0
    said, statistics = run(code, tmp_path / "b", EBBTIDE_PHANTOM_BACKED="256MiB", EBBTIDE_PHANTOM_FAIL="cudaMemcpyAsync%0.02=unknown", EBBTIDE_PHANTOM_SEED="3")
    assert statistics["faults_injected"] > 0 and said["same"] + said["failed"] == 8 and said["same"] > 0


def test_both_devices_at_once_and_compiled_code(tmp_path):
    said, statistics = run(program(
        """
        model, x = deep(8)
        said = {}
        with ebbtide.budget("250MiB") as gpu, ebbtide.budget("1MiB", device="cpu") as cpu:
            train(model, x, 2)
            y = torch.ones(64, 64, requires_grad=True)  # 16 KiB
            for _ in range(80):
                y = y.sin()
            y.sum().backward()
            try:
                with ebbtide.budget("1GiB", device="cuda:0"):
                    pass
            except RuntimeError as error:
                said["twice"] = str(error)
        said["reports"] = [gpu.report(), cpu.report()]
        with ebbtide.budget("250MiB") as budget:
            # A graph gets all that it has saved at once: one for each two layers.
            blocks = [torch.compile(model[i : i + 4], backend="aot_eager") for i in range(0, 16, 4)]
            train(torch.nn.Sequential(*blocks), x, 3)
        said["compiled"] = budget.report()
        for wrong in ("meta", "cuda:7"):
            try:
                ebbtide.budget("1GiB", device=wrong)
            except ValueError as error:
                said[wrong] = str(error)
        print(json.dumps(said))
        """), tmp_path)
    for report in (*said["reports"], said["compiled"]):
        assert report["copied_in_bytes"] > 0 and report["peak_bytes"] <= report["budget_bytes"]
    assert said["twice"] == "a budget is in force already for the device 'cuda:0'; expected one at a time"
    assert said["meta"] == "device 'meta': expected 'cpu' or 'cuda'" and said["cuda:7"].startswith("device 'cuda:7': PyTorch sees ")
    assert statistics["race_count"] == 0
