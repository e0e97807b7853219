"""What three published calculators say of the rows of fms.csv, by the arithmetic of their public sources. None knows adapters or
4-bit weights but by way of the parameters it is given; each gets the figures that its own documents ask for."""


def parameters_of(row):
    return int(row["params_total"] or 0)


def accelerate(row, _):
    """accelerate 1.15, estimate-memory, "Training using Adam": four times the weights, in their type."""
    return 4 * parameters_of(row) * (4 if row["weights_dtype"] == "float32" else 2)


def deepspeed(row, _):
    """DeepSpeed 0.18, estimate_zero3_model_states_mem_needs without offload: 18 bytes per parameter over the GPUs, and the largest layer."""
    config = row["_config"]
    largest = max(config["vocab_size"] * config["hidden_size"], config["hidden_size"] * config["intermediate_size"])
    return 4 * largest + 18 * parameters_of(row) // int(row["gpus"])


def eleuther(row, _):
    """EleutherAI's cookbook, calc_transformer_mem.py with its checkpointing: 2 + 4 + 12 bytes per parameter, sharded as by ZeRO 3, and 34 per token,
    unit of width and layer."""
    config, gpus = row["_config"], int(row["gpus"])
    width, layers = config["hidden_size"], config["num_hidden_layers"]
    shared = config["num_key_value_heads"] / config["num_attention_heads"]
    total = (2 * config["vocab_size"] * width + width * int(row["seq_len"]) + 8 * width * layers + 2 * width
             + 2 * (1 + shared) * layers * width * width + 3 * layers * width * config["intermediate_size"])
    activations = int(row["seq_len"]) * int(row["microbatch"]) * width * layers * 34
    buffers = (5e8 + 1e9) * 2 if gpus > 1 else 0
    return total * 18 / gpus + activations + buffers


PEERS = {"accelerate": accelerate, "DeepSpeed": deepspeed, "EleutherAI": eleuther}
