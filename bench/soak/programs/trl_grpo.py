"""trl: group relative policies, where what is trained on is first generated."""

import pathlib
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).parents[1]))
from datasets import Dataset
from support import made_up
from trl import GRPOConfig, GRPOTrainer

with tempfile.TemporaryDirectory() as name:
    made_up.make("llama", f"{name}/llama")
    arguments = GRPOConfig(f"{name}/out", per_device_train_batch_size=4, num_generations=4, max_completion_length=16, max_steps=2, report_to=[],
                           save_strategy="no", beta=0.04)
    GRPOTrainer(model=f"{name}/llama", reward_funcs=lambda completions, **_: [float(len(text)) for text in completions], args=arguments,
                train_dataset=Dataset.from_dict({"prompt": ["ban ket ler"] * 16})).train()
