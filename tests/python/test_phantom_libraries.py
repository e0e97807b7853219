"""PyTorch on the phantom's cuBLAS, cuFFT, cuSOLVER, cuSPARSE and NCCL: what training calls runs, the rest is refused by name.
Where EBBTIDE_TORCH12_PYTHON names the Python of an environment with a torch for CUDA 12, each program runs there too."""

import pytest
from support.on_phantom import needs_phantom, on_each_cuda

pytestmark = needs_phantom

HEAD = """
import json, os, torch
import torch.nn.functional as F
def say(*values): print(json.dumps(values[0] if len(values) == 1 else values), flush=True)
def R(*shape, **options): return torch.randn(*shape, device="cuda", **options)
def labels(n): return torch.zeros(n, dtype=torch.long, device="cuda")
def mlp(): return torch.nn.Sequential(torch.nn.Linear(512, 1024), torch.nn.ReLU(), torch.nn.Linear(1024, 10)).cuda()
"""


run = on_each_cuda(HEAD, lambda code: code)


def test_training_an_mlp(run):
    values, errors, statistics = run("""
        for make in (lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9), torch.optim.Adam,
                     lambda p: torch.optim.AdamW(p, fused=True), lambda p: torch.optim.AdamW(p, foreach=False)):
            model = mlp()
            optimizer = make(model.parameters())
            for _ in range(2):
                optimizer.zero_grad()
                F.cross_entropy(model(R(64, 512)), labels(64)).backward()
                torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
                optimizer.step()
        torch.cuda.synchronize()
        say("done")
    """)
    assert values == ["done"] and errors == ""
    calls = statistics["calls"]
    # Each step has two products forward and three backward: the input needs no gradient.
    products = sum(calls.get(name, 0) for name in ("cublasLtMatmul", "cublasGemmEx", "cublasSgemm"))
    assert products == 4 * 2 * 5
    assert statistics["not_modelled"] == {}


@pytest.mark.parametrize("profile, workspace", [("a100-40gb", 8519680), ("h100-80gb", 32 << 20)])
def test_the_workspace_of_cublas_is_torchs_own(run, profile, workspace):
    values, _, _ = run("""
        a = R(256, 256)
        before = torch.cuda.memory_allocated()
        torch.cuda.reset_peak_memory_stats()
        b = a @ a
        say(torch.cuda.max_memory_allocated() - before)
    """, EBBTIDE_PHANTOM_PROFILE=profile)
    assert values == [workspace + 256 * 256 * 4]


def test_products_of_every_kind(run):
    values, errors, statistics = run("""
        for d in (torch.float16, torch.bfloat16, torch.float32, torch.float64, torch.complex64):
            a, b = R(33, 17, dtype=d), R(17, 9, dtype=d)
            torch.addmm(R(33, 9, dtype=d), a, b)
            torch.mv(a, b[:, 0].contiguous())
            torch.bmm(R(4, 8, 16, dtype=d), R(4, 16, 8, dtype=d))
        torch.einsum("bij,bkj->bik", R(2, 3, 4), R(2, 5, 4))
        torch._addmm_activation(R(32), R(8, 16), R(16, 32), use_gelu=True)
        F.linear(R(8, 16, requires_grad=True), R(32, 16, requires_grad=True), R(32)).sum().backward()
        torch._int_mm(torch.zeros(32, 64, device="cuda", dtype=torch.int8), torch.zeros(64, 32, device="cuda", dtype=torch.int8))
        torch.linalg.solve_triangular(R(8, 8), R(8, 2), upper=True)
        torch.linalg.solve_triangular(R(4, 8, 8), R(4, 8, 2), upper=True)
        x = R(100)
        say(torch.dot(x, x).item(), torch.vdot(x, x).item())
    """)
    assert values == [[0.0, 0.0]]
    assert errors == "phantom: the host reads device memory, whose kernels were skipped: it gets zeros\n"
    assert statistics["calls"]["cublasLtMatmul"] >= 2 and statistics["calls"]["cublasSdot"] == 2


def test_fourier_transforms(run):
    values, _, statistics = run("""
        x = R(4, 1024, requires_grad=True)
        torch.fft.irfft(torch.fft.rfft(x)).sum().backward()
        torch.fft.fft2(R(3, 64, 64)); torch.fft.fft(R(131)); torch.fft.fftn(R(2, 3, 4, 5)); torch.fft.rfft(R(8, 64).half())
        torch.stft(R(2, 4096), 256, return_complex=True, window=torch.ones(256, device="cuda"))
        torch.cuda.synchronize()
        say("done")
    """)
    assert values == ["done"]
    assert statistics["calls"]["cufftXtExec"] >= 7 and statistics["not_modelled"] == {}


def test_linear_algebra(run):
    values, _, statistics = run("""
        L = torch.linalg
        L.cholesky(R(8, 8)); L.cholesky(R(3, 8, 8)); torch.cholesky_solve(R(8, 2), R(8, 8)); torch.cholesky_inverse(R(8, 8))
        L.qr(R(16, 8)); L.qr(R(4, 16, 8)); L.inv(R(8, 8)); L.inv(R(4, 8, 8)); L.solve(R(8, 8), R(8, 2))
        L.solve(R(4, 8, 8), R(4, 8, 2)); L.det(R(8, 8)); L.lstsq(R(16, 8), R(16, 2)); L.ldl_factor(R(8, 8))
        L.svd(R(16, 8)); L.svd(R(4, 16, 8)); L.svdvals(R(16, 8)); L.eigh(R(8, 8)); L.eigh(R(4, 8, 8)); L.eigvalsh(R(600, 600))
        torch.ormqr(R(8, 8), R(8), R(8, 3)); L.householder_product(R(8, 8), R(8))
        torch.cuda.synchronize()
        say("done")
    """, XDG_CACHE_HOME="/nowhere")  # kernels that torch compiles at run time are not there yet
    assert values == ["done"]
    assert statistics["not_modelled"] == {}


def test_sparse_matrices(run):
    values, errors, statistics = run("""
        indices = torch.tensor([[0, 1, 2], [2, 0, 1]])
        coo = torch.sparse_coo_tensor(indices, torch.ones(3), (3, 3)).cuda().requires_grad_()
        torch.sparse.mm(coo, R(3, 4, requires_grad=True)).sum().backward()
        csr = torch.sparse_csr_tensor(torch.tensor([0, 1, 2, 3]), torch.tensor([2, 0, 1]), torch.ones(3), (3, 3)).cuda()
        say(list((csr @ R(3, 4)).shape), list((csr @ R(3)).shape), list(torch.sparse.sampled_addmm(csr, R(3, 4), R(4, 3)).shape))
        try:
            csr @ csr
        except RuntimeError as error:
            say(str(error).splitlines()[0].split(" when")[0])
    """)
    assert values == [[[3, 4], [3], [3, 3]], "CUDA error: operation not supported"]
    assert "phantom: cusparseSpGEMM_createDescr is not modelled" in errors
    assert statistics["not_modelled"] == {"cusparseSpGEMM_createDescr": 1}


def test_layers_of_transformers(run):
    values, _, statistics = run("""
        from torch.nn.attention import SDPBackend, sdpa_kernel
        for backend in (SDPBackend.FLASH_ATTENTION, SDPBackend.EFFICIENT_ATTENTION, SDPBackend.MATH):
            with sdpa_kernel(backend):
                q = R(2, 4, 64, 32, dtype=torch.float16, requires_grad=True)
                F.scaled_dot_product_attention(q, q, q, is_causal=True).sum().backward()
        torch.nn.TransformerEncoderLayer(64, 4, batch_first=True).cuda()(R(2, 16, 64)).sum().backward()
        embedding = torch.nn.Embedding(100, 16).cuda()
        torch.nn.LayerNorm(16).cuda()(embedding(labels(5))).sum().backward()
        sparse = torch.nn.Embedding(100, 16, sparse=True).cuda()
        optimizer = torch.optim.SparseAdam(sparse.parameters())
        sparse(labels(5)).sum().backward()
        optimizer.step()
        torch.cuda.synchronize()
        say("done")
    """)
    assert values == ["done"]
    assert statistics["not_modelled"] == {}


def test_mixed_precision_with_a_scaler(run):
    values, _, statistics = run("""
        model, scaler = mlp(), torch.amp.GradScaler("cuda")
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        for _ in range(2):
            with torch.autocast("cuda", dtype=torch.float16):
                loss = F.cross_entropy(model(R(64, 512)), labels(64))
            scaler.scale(loss).backward()
            scaler.unscale_(optimizer)
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            scaler.step(optimizer)
            scaler.update()
        say(model[0].weight.grad is not None)
    """)
    assert values == [True]
    assert statistics["empty_host_reads"]["count"] == 2  # the scaler asks each step whether a gradient was infinite


ONE_RANK = """
    import torch.distributed as dist
    dist.init_process_group("nccl", rank=0, world_size=1, store=dist.HashStore())
    model = torch.nn.parallel.DistributedDataParallel(mlp(), device_ids=[0])
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(2):
        optimizer.zero_grad()
        F.cross_entropy(model(R(64, 512)), labels(64)).backward()
        optimizer.step()
    x, out = torch.arange(4.0).cuda(), torch.empty(4, device="cuda")
    dist.all_gather_into_tensor(out, x)
    say(out.tolist())
    dist.all_reduce(x); dist.broadcast(x, 0); dist.reduce_scatter_tensor(out, x); dist.all_to_all_single(out, x)
    dist.all_gather([torch.empty_like(x)], x); dist.barrier(); dist.all_reduce(x, op=dist.ReduceOp.AVG)
    torch.cuda.synchronize()
    dist.destroy_process_group()
"""


def test_data_parallel_with_one_rank(run):
    values, _, statistics = run(ONE_RANK)
    assert values == [[0.0, 1.0, 2.0, 3.0]]  # no kernel between the copy to the device and the one back
    calls = statistics["calls"]
    assert calls["ncclAllReduce"] >= 4 and calls["ncclAllGather"] >= 1
    assert statistics["not_modelled"] == {}


def test_a_profiler_finds_nothing_and_goes_on(run):
    values, errors, _ = run("""
        from torch.profiler import ProfilerActivity, profile
        with profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA]) as profiler:
            R(8, 8) @ R(8, 8)
        say(any(event.key == "aten::mm" for event in profiler.key_averages()))
    """)
    assert values == [True]
    assert "is not modelled" in errors


def test_products_with_a_pattern_of_zeros_are_refused(run):
    values, errors, _ = run("""
        from torch.sparse import SparseSemiStructuredTensor, to_sparse_semi_structured
        SparseSemiStructuredTensor._FORCE_CUTLASS = False
        try:
            to_sparse_semi_structured(torch.tensor([0, 0, 1, 1]).tile((128, 32)).half().cuda())
        except RuntimeError as error:
            say(str(error).splitlines()[0].split(" when")[0])
    """)
    assert values == ["CUDA error: operation not supported"]
    assert "phantom: cusparseLtInit is not modelled" in errors
