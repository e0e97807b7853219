"""The tide allocator under torch, on the phantom GPU with the race checker: one program per test. Kernels take time there (REAL_TIME), so that
what one stream frees is not finished when another asks."""

import json
import textwrap

import pytest
from support.on_phantom import CALM_END, importable, needs_phantom, run_program

pytest.importorskip("torch")

pytestmark = needs_phantom

HEAD = CALM_END + """\
import ctypes, json, sys, torch
import ebbtide
from ebbtide import phantom_observer
phantom = ctypes.CDLL(None)
MIB = 1 << 20

def empty(mebibytes):
    return torch.empty(mebibytes * MIB, dtype=torch.uint8, device="cuda")

def say(**values):
    torch.cuda.synchronize()
    print(json.dumps({"races": phantom.ebbtide_phantom_race_count(), "undeclared": phantom.ebbtide_phantom_undeclared_launches(), **values}))
"""


def run(code, folder, **variables):
    """What the program said."""
    said = run_program(HEAD + textwrap.dedent(code).lstrip("\n"), folder, **{
        "EBBTIDE_PHANTOM_CHECK": "race", "EBBTIDE_PHANTOM_KERNEL_US": "300", "EBBTIDE_PHANTOM_REAL_TIME": "1", "PYTHONPATH": importable(),
        **variables})
    return json.loads(said.stdout.splitlines()[-1])


# Four streams in turn: what one had is free, and not finished, when the next begins.
WAVES = """
streams = [torch.cuda.Stream() for _ in range(4)]
weight = torch.ones(1024, 1024, device="cuda")
for stream in streams:
    stream.wait_stream(torch.cuda.current_stream())
for _ in range(3):
    for stream in streams:
        with torch.cuda.stream(stream):
            x = weight @ weight
            for _ in range(6):
                x = torch.relu(x @ weight) + 1
            total = x.sum()
            del x
"""


def test_streams_share_what_they_free_without_a_race(tmp_path):
    said = run("""
        tide = ebbtide.use_tide()
        phantom_observer.start()
        """ + textwrap.indent(WAVES, "        ") + """
        for stream in streams: torch.cuda.current_stream().wait_stream(stream)
        say(**tide.statistics())
        """, tmp_path, EBBTIDE_PHANTOM_KERNEL_US="5000")
    assert said["races"] == said["undeclared"] == said["host_waits"] == 0
    assert said["classes"]["scheduled"]["requests"] == said["waits"] > 0
    assert said["classes"]["same_stream"]["requests"] > 0
    # Torch's own allocator keeps the streams' memory apart.
    alone = run("phantom_observer.start()\n" + WAVES + "say(reserved=torch.cuda.max_memory_reserved())", tmp_path, EBBTIDE_PHANTOM_KERNEL_US="20")
    assert alone["races"] == 0
    assert said["peak_reserved_bytes"] < alone["reserved"] / 2


def test_a_tensor_that_another_stream_uses(tmp_path):
    code = """
        tide = ebbtide.use_tide()
        phantom_observer.start()
        side, third = torch.cuda.Stream(), torch.cuda.Stream()
        for _ in range(5):
            x = torch.ones(8 * MIB, device="cuda")
            side.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(side):
                total = x.sum()
            RECORD
            del x
            y = torch.zeros(8 * MIB, device="cuda")  # takes the place of x
            del y
        say(**tide.statistics())
        """
    slow = {"EBBTIDE_PHANTOM_KERNEL_US": "5000"}
    with_record = run(code.replace("RECORD", "x.record_stream(side)"), tmp_path, **slow)
    assert with_record["races"] == 0 and with_record["waits"] > 0
    # The program's own mistake is found.
    assert run(code.replace("RECORD", "pass"), tmp_path, **slow)["races"] > 0


def test_two_trainings_on_two_streams(tmp_path):
    said = run("""
        from support import run_models
        tide = ebbtide.use_tide(capacity="2GiB")
        phantom_observer.start()
        jobs = []
        for number in range(2):
            stream = torch.cuda.Stream()
            tide.set_quota(number, guaranteed="512MiB")
            tide.set_job(stream, number)
            with torch.cuda.stream(stream):
                model = run_models.SmallCNN().cuda()
                batch = tuple(t.cuda() for t in run_models._images(16, 32, 10))
                jobs.append((stream, model, torch.optim.Adam(model.parameters()), batch))
        for _ in range(3):
            for stream, model, optimizer, (x, y) in jobs:
                with torch.cuda.stream(stream):
                    optimizer.zero_grad()
                    torch.nn.functional.cross_entropy(model(x), y).backward()
                    optimizer.step()
        say(**tide.statistics())
        """, tmp_path, EBBTIDE_PHANTOM_KERNEL_US="20")
    assert said["races"] == 0
    assert set(said["jobs"]) == {"0", "1"}
    for job in said["jobs"].values():
        assert 0 < job["allocated_bytes"] <= job["charged_bytes"]
        assert job["guaranteed_bytes"] == 512 << 20 and job["limit_bytes"] is None
    assert said["allocated_bytes"] == sum(job["allocated_bytes"] for job in said["jobs"].values())


def test_the_error_that_torch_users_know(tmp_path):
    said = run("""
        tide = ebbtide.use_tide(capacity="100MiB")
        kept, errors = empty(60), []
        for size in (50, 1 << 30):
            try:
                empty(size)
            except torch.OutOfMemoryError as error:
                errors.append(str(error))
        after = empty(40)
        torch.cuda.set_per_process_memory_fraction(0.5)
        del after
        torch.cuda.synchronize()
        torch.cuda.empty_cache()
        say(errors=errors, **tide.statistics())
        """, tmp_path)
    assert len(said["errors"]) == said["out_of_memory"] == 2
    assert said["errors"][0].startswith("CUDA out of memory. Tried to allocate 50.00 MiB. GPU 0 has a total capacity of ")
    assert said["reserved_bytes"] == said["allocated_bytes"] == 60 << 20 and said["given_back_bytes"] == 40 << 20


def test_a_job_beyond_its_limit_hurts_nobody(tmp_path):
    said = run("""
        tide = ebbtide.use_tide(capacity="200MiB")
        a, b = torch.cuda.Stream(), torch.cuda.Stream()
        tide.set_quota(0, guaranteed="50MiB", limit="100MiB")
        tide.set_quota(1, guaranteed="100MiB")
        tide.set_job(a, 0), tide.set_job(b, 1)
        held = []
        for stream, sizes in ((a, (60, 40, 2)), (b, (60, 40, 2))):
            with torch.cuda.stream(stream):
                for size in sizes:
                    try:
                        held.append(empty(size))
                    except torch.OutOfMemoryError as error:
                        held.append(str(error))
        try:
            tide.set_quota(2, guaranteed="2MiB")
        except ValueError as error:
            promise = str(error)
        say(held=[one if isinstance(one, str) else None for one in held], promise=promise)
        """, tmp_path)
    assert [one is None for one in said["held"]] == [True, True, False, True, True, False]
    assert said["held"][2].endswith("Job 0 has 100.00 MiB; it is guaranteed 50.00 MiB and limited to 100.00 MiB.")
    assert said["promise"].startswith("quota of job 2: 2.00 MiB guaranteed are more than the 0 B of 200.00 MiB")


def test_a_pool_of_torchs_own_allocator(tmp_path):
    said = run("""
        from ebbtide.tide import Tide
        pool = ebbtide.tide_pool()
        with torch.cuda.use_mem_pool(pool):
            inside = empty(30)
        outside = empty(30)
        in_pool = Tide().statistics()["allocated_bytes"]
        Tide().set_capacity("40MiB")
        error = ""
        try:
            with torch.cuda.use_mem_pool(pool):
                empty(30)
        except torch.OutOfMemoryError as caught:
            error = str(caught)
        torch_bytes = torch.cuda.memory_allocated()
        del inside, pool
        torch.cuda.empty_cache()
        say(in_pool=in_pool, error=error, torch_bytes=torch_bytes, after=Tide().statistics()["allocated_bytes"])
        """, tmp_path)
    assert said["in_pool"] == 30 << 20 and said["after"] == 0
    assert said["error"].startswith("CUDA out of memory.") and said["torch_bytes"] == 60 << 20


@pytest.mark.parametrize("fault", ["cuMemCreate@3", "cuMemMap@4", "cuMemSetAccess@2", "cuMemMap%0.2", "cuEventRecord%0.3", "cuEventCreate@2+",
                                   "cuStreamWaitEvent%0.5"])
def test_every_call_of_the_driver_may_fail(tmp_path, fault):
    said = run("""
        tide = ebbtide.use_tide()
        phantom_observer.start()
        streams, held, errors = [torch.cuda.Stream() for _ in range(3)], [], 0
        for i in range(120):
            with torch.cuda.stream(streams[i % 3]):
                try:
                    held.append(torch.ones((1 + i % 7) * MIB, dtype=torch.uint8, device="cuda"))
                except torch.OutOfMemoryError:
                    errors += 1
            if len(held) > 8:
                del held[i % 8]
        counted = tide.statistics()
        held.clear()
        torch.cuda.synchronize()
        torch.cuda.empty_cache()
        say(errors=errors, peak=counted["peak_reserved_bytes"], left=tide.statistics()["reserved_bytes"])
        """, tmp_path, EBBTIDE_PHANTOM_FAIL=fault)
    assert said["races"] == 0 and said["left"] == 0 and said["peak"] > 0
