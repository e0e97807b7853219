"""Configurations of torchtitan's graph trainer whose loss is taken of all scores at once, as it was before June 2026; torchtitan
finds them by `--module _torchtitan_graphs`."""

from torchtitan.components.loss import CrossEntropyLoss
from torchtitan.experiments.graph_trainer.llama3 import config_registry
from torchtitan.models.common.config_utils import decoder_vocab_size


def _with_whole_loss(config):
    config.loss = CrossEntropyLoss.Config(global_vocab_size=decoder_vocab_size(config.model_spec))
    return config


def graph_trainer_llama3_8b():
    return _with_whole_loss(config_registry.graph_trainer_llama3_8b())


def graph_trainer_llama3_70b():
    return _with_whole_loss(config_registry.graph_trainer_llama3_70b())
