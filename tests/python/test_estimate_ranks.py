"""`ebbtide estimate` of one rank of several: what each axis divides, and what is refused."""

import json
import re

import pytest
from support.command_line import assert_refused, result_of, run

CONFIG = {"model_type": "llama", "num_hidden_layers": 4, "hidden_size": 512, "intermediate_size": 1024, "num_attention_heads": 8,
          "num_key_value_heads": 4, "vocab_size": 2048}
FLAGS = ("--batch-size", "2", "--seq-len", "256", "--optimizer", "adamw")


@pytest.fixture
def config(tmp_path):
    path = tmp_path / "config.json"
    path.write_text(json.dumps(CONFIG))
    return path


def test_tensor_parallel_divides_matrices_and_what_lies_between(config):
    whole = result_of("estimate", config, *FLAGS)
    half = result_of("estimate", config, *FLAGS, "--gpus", "2", "--tp", "2")
    assert whole["breakdown"]["Parameter"] / 2 <= half["breakdown"]["Parameter"] < 0.51 * whole["breakdown"]["Parameter"]  # norms stay whole
    assert 0.5 * whole["breakdown"]["Optstate"] <= half["breakdown"]["Optstate"] < 0.51 * whole["breakdown"]["Optstate"]
    assert half["breakdown"]["Activation"] < 0.8 * whole["breakdown"]["Activation"]  # what goes into matrices is kept whole
    assert half["nccl_bytes"] > 0 and len(half["ranks"]) == 2


def test_axes_multiply(config):
    both = result_of("estimate", config, *FLAGS, "--gpus", "8", "--tp", "2", "--fsdp")
    half = result_of("estimate", config, *FLAGS, "--gpus", "2", "--tp", "2")
    assert both["breakdown"]["Parameter"] == pytest.approx(half["breakdown"]["Parameter"] / 4, rel=0.01)
    assert both["nccl_bytes"] > half["nccl_bytes"]  # two groups


def test_every_stage_of_a_pipeline_is_told_and_the_worst_is_the_figure(config):
    result = result_of("estimate", config, *FLAGS, "--gpus", "4", "--pp", "2", "--ddp", "--microbatches", "4")
    assert [rank["stage"] for rank in result["ranks"]] == [0, 0, 1, 1]
    assert result["total_bytes"] == max(rank["total_bytes"] for rank in result["ranks"])
    assert result["ranks"][0] | {"rank": 1} == result["ranks"][1]


def test_the_page_of_a_pipeline_has_one_of_each_stage_the_worst_first(config, tmp_path):
    page = tmp_path / "page.html"
    result = result_of("estimate", config, *FLAGS, "--gpus", "2", "--pp", "2", "-o", page)
    text = page.read_text()
    stages = [int(stage) for stage in re.findall(r"<option [^>]*>stage (\d)", text)]
    totals = [rank["total_bytes"] for rank in result["ranks"]]
    assert sorted(stages) == [0, 1] and totals[stages[0]] >= totals[stages[1]]
    assert text.count("&quot;command&quot;:&quot;ebbtide estimate") == 2  # each says where it comes from


def test_stages_of_shards_hold_whole_gradients_and_parameters_of_a_half(config):
    """A stage keeps its parameters gathered and its gradients whole for all microbatches; state is divided over all four ranks."""
    whole = result_of("estimate", config, *FLAGS)
    both = result_of("estimate", config, *FLAGS, "--gpus", "4", "--pp", "2", "--fsdp", "--microbatches", "4")
    stages = result_of("estimate", config, *FLAGS, "--gpus", "2", "--pp", "2", "--microbatches", "4")
    assert [rank["stage"] for rank in both["ranks"]] == [0, 0, 1, 1]
    assert both["breakdown"]["Optstate"] == pytest.approx(stages["breakdown"]["Optstate"] / 2, rel=0.02)
    assert both["peak_allocated_bytes"] < stages["peak_allocated_bytes"] < whole["peak_allocated_bytes"]


def test_ranks_that_share_sequences_may_share_matrices_too(config):
    flags = ("--batch-size", "2", "--seq-len", "512", "--optimizer", "adamw")
    both = result_of("estimate", config, *flags, "--gpus", "4", "--cp", "2", "--tp", "2", "--fsdp")
    sequences = result_of("estimate", config, *flags, "--gpus", "2", "--cp", "2", "--fsdp")
    assert both["breakdown"]["Parameter"] == pytest.approx(sequences["breakdown"]["Parameter"] / 2, rel=0.02)
    assert both["breakdown"]["Activation"] < 0.75 * sequences["breakdown"]["Activation"]


def test_adapters_go_with_their_matrices(config):
    """Beside a matrix divided by results the second factor is divided, beside one divided by operands the first."""
    adapters = ("--lora", "8", "--lora-targets", "q_proj", "--lora-targets", "v_proj", "--lora-targets", "o_proj")
    whole = result_of("estimate", config, *FLAGS, *adapters)
    half = result_of("estimate", config, *FLAGS, *adapters, "--gpus", "2", "--tp", "2")
    # Of each of 4 layers: 512 x 8 into q, v and out of o are on every rank; 8 x 512, 8 x 256 and 512 x 8 are divided. Two states in float32.
    on_all, divided = 3 * 512 * 8, (512 + 256 + 512) * 8
    assert whole["breakdown"]["Optstate"] == pytest.approx(4 * (on_all + divided) * 8, rel=0.02)
    assert half["breakdown"]["Optstate"] == pytest.approx(4 * (on_all + divided / 2) * 8, rel=0.02)
    assert half["peak_allocated_bytes"] < 0.75 * whole["peak_allocated_bytes"]


def test_gradients_of_several_batches_wait_whole_unless_each_is_reduced(config):
    one = result_of("estimate", config, *FLAGS, "--gpus", "4", "--fsdp")
    whole = result_of("estimate", config, *FLAGS, "--gpus", "4", "--fsdp", "--accumulate", "2")
    each = result_of("estimate", config, *FLAGS, "--gpus", "4", "--fsdp", "--accumulate", "2", "--reduce-each-batch")
    assert one["peak_allocated_bytes"] <= each["peak_allocated_bytes"] < whole["peak_allocated_bytes"]
    assert any("as accelerate has it" in note for note in whole["notes"]) and not any("accelerate" in note for note in each["notes"])


def test_fit_tries_every_usual_layout_and_times_each(config):
    result = result_of("fit", config, "--seq-len", "256", "--gpus", "4", "--gpu", "a100-40gb", "--batch-size", "2", "--optimizer", "adamw")
    layouts = {layout["flags"]: layout for layout in result["layouts"]}
    assert set(layouts) == {"--ddp", "--fsdp", "--zero 1", "--zero 2", "--zero 3", "--tp 2 --fsdp", "--tp 4", "--pp 2 --ddp", "--pp 4"}
    times = {flags: layout["gpus"][0]["time_ns"] for flags, layout in layouts.items() if layout["refused"] is None}
    assert len(times) == len(layouts) and all(time > 0 for time in times.values())
    alone = result_of("fit", config, "--seq-len", "256", "--gpu", "a100-40gb", "--batch-size", "2", "--optimizer", "adamw")["gpus"][0]["time_ns"]
    assert times["--ddp"] > alone  # collectives take time
    assert result["gpus"][0]["samples_per_second"] == max(layout["gpus"][0]["samples_per_second"] for layout in layouts.values())


def test_collectives_run_beside_computation(config):
    words = ("plan", config, "--batch-size", "8", "--seq-len", "256", "--optimizer", "adamw", "--gpus", "8", "--fsdp", "--budget", "100%", "--policy", "none")
    fast, slow = (result_of(*words, "--gpu", gpu) for gpu in ("a100-40gb", "rtx3090"))
    for result in (fast, slow):
        assert 0 < result["wait_for_ranks_ns"] < result["exchange_ns"]  # a part is hidden
        assert result["time_ns"] == result["plain_time_ns"]
    assert slow["exchange_ns"] > 5 * fast["exchange_ns"]  # PCIe beside NVLink


def test_a_pipeline_can_be_inspected_planned_and_fitted(config):
    stage = ("--gpus", "2", "--pp", "2")
    assert result_of("inspect", config, *FLAGS, *stage)["parameters"] < result_of("inspect", config, *FLAGS)["parameters"]
    assert result_of("plan", config, *FLAGS, *stage, "--budget", "90%", "--gpu", "a100-40gb")["feasible"]
    assert result_of("fit", config, "--seq-len", "256", *stage, "--gpu", "rtx3060")["gpus"][0]["max_batch"] > 0


@pytest.mark.parametrize(("flags", "said"), [
    (("--gpus", "8", "--tp", "8"), "multiple"),  # of four key heads
    (("--gpus", "2", "--tp", "2", "--lora", "4", "--quantize", "nf4"), "expected a multiple of 2"),
    (("--gpus", "2", "--fsdp", "--reduce-each-batch"), "expected --accumulate"),
    (("--gpus", "8", "--pp", "8"), "as many stages as the model has blocks, 4"),
    (("--gpus", "4", "--pp", "2", "--zero", "2"), "--pp: expected --ddp or --fsdp"),
    (("--gpus", "2", "--pp", "2", "--accumulate", "2"), "--microbatches"),
    (("--gpus", "2", "--ddp", "--chunks", "2"), "--chunks: expected --pp"),
    (("--gpus", "2", "--cp", "2"), "expected --ddp, --fsdp or --zero"),
    (("--gpus", "6", "--cp", "6", "--fsdp"), "multiple of 12"),
    (("--gpus", "2", "--cp", "2", "--fsdp", "--attention", "eager"), "scaled_dot_product_attention"),
])
def test_what_cannot_be_is_refused_in_a_line(config, flags, said):
    assert_refused(run("estimate", config, *FLAGS, *flags), said)
