"""`ebbtide advise`: proposals hold when they are estimated by themselves, and the best stands first."""

import json

import pytest
from support.command_line import assert_refused, result_of, run

LLAMA = {"architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": 1024, "intermediate_size": 4096, "num_hidden_layers": 16,
         "num_attention_heads": 16, "num_key_value_heads": 4, "vocab_size": 32000, "torch_dtype": "bfloat16", "max_position_embeddings": 4096}


def answer(code, *words):
    done = run(*words, "--json")
    assert done.returncode == code, done.stderr
    return json.loads(done.stdout)


@pytest.fixture
def config(tmp_path):
    (tmp_path / "config.json").write_text(json.dumps(LLAMA))
    return tmp_path / "config.json"


def test_what_fits_needs_nothing():
    result = result_of("advise", "resnet18", "--batch-size", 8, "--gpu", "rtx3060")
    assert result["fits_already"] and result["proposals"] == []


def test_proposals_are_what_estimates_say(config):
    model = [config, "--batch-size", 16, "--seq-len", 2048, "--optimizer", "adamw", "--gpu", "rtx3060"]
    result = result_of("advise", *model)
    assert not result["fits_already"]
    assert result["total_bytes"] == answer(1, "estimate", *model)["total_bytes"]
    fitting = [proposal for proposal in result["proposals"] if proposal["fits"]]
    assert fitting and fitting == result["proposals"]
    same = [p for p in fitting if not p["trains_adapters"]]
    assert fitting[:len(same)] == same  # what learns something else stands last
    assert [p["time_ratio"] for p in same] == sorted(p["time_ratio"] for p in same)
    for proposal in fitting:
        assert proposal["safe_bytes"] <= result["capacity_bytes"]
        assert proposal["saved_bytes"] == result["total_bytes"] - proposal["total_bytes"]
    # One of them by itself: checkpointing and parts of the batch alone change nothing else.
    alone = next(p for p in fitting if len(p["measures"]) == 2 and "checkpointing" in p["measures"][1] and " at a time" in p["measures"][0])
    part = int(alone["measures"][0].split()[0])
    again = result_of("estimate", config, "--batch-size", part, "--accumulate", 2, "--checkpoint", *model[3:])
    assert again["total_bytes"] == alone["total_bytes"]


def test_several_gpus_are_sharded(config):
    config.write_text(json.dumps(LLAMA | {"hidden_size": 2048, "intermediate_size": 8192, "num_hidden_layers": 24}))
    result = result_of("advise", config, "--batch-size", 1, "--seq-len", 512, "--optimizer", "adamw", "--gpu", "rtx3070", "--gpus", 8)
    assert any("fully_shard" in measure for proposal in result["proposals"] for measure in proposal["measures"])


def test_nothing_helps(config):
    result = answer(1, "advise", config, "--batch-size", 1, "--seq-len", 500_000, "--optimizer", "sgd", "--gpu", "rtx3060")
    assert result["proposals"] and not any(proposal["fits"] for proposal in result["proposals"])


def test_a_script_is_refused(tmp_path):
    (tmp_path / "train.py").write_text("def step(): pass\n")
    assert_refused(run("advise", f"{tmp_path}/train.py:step"), "train.py:step: expected a built-in model or a Hugging Face configuration")
