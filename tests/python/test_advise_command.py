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
    for proposal in fitting:
        if proposal["flags"]:
            given = " ".join(proposal["flags"]).split()
            rest = [word for place, word in enumerate(model) if not {"--batch-size", "--optimizer"}.intersection(given) & {word, model[max(place - 1, 0)]}]
            assert result_of("estimate", *rest, *given)["total_bytes"] == proposal["total_bytes"]


def test_attention_that_keeps_its_scores(config):
    result = result_of("advise", config, "--batch-size", 16, "--seq-len", 2048, "--optimizer", "adamw", "--gpu", "rtx3090", "--attention", "eager")
    assert any("--attention sdpa" in proposal["flags"] for proposal in result["proposals"])


def test_a_loss_that_no_library_has_is_not_proposed(config):
    words = [config, "--batch-size", 16, "--seq-len", 2048, "--optimizer", "adamw", "--gpu", "rtx3060"]

    def fused():
        return [p for p in result_of("advise", *words)["proposals"] if "--loss fused" in p["flags"]]

    assert fused()
    config.write_text(json.dumps(LLAMA | {"architectures": ["GraniteForCausalLM"], "model_type": "granite"}))  # liger-kernel refuses it
    assert not fused()


def test_a_plan_for_what_it_can_run(config):
    def plans(*words):
        return [p for p in result_of("advise", *words)["proposals"] if any("ebbtide.step(" in measure for measure in p["measures"])]

    images = ["resnet18", "--batch-size", 1024, "--gpu", "rtx3060"]
    plan, = plans(*images, "--optimizer", "adam")
    assert plan["fits"] and not plan["flags"] and plan["time_ratio"] >= 1
    assert plans(*images, "--optimizer", "adamw-8bit") == []  # whose update is beside the budget


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
