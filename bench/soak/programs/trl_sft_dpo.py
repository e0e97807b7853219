"""trl: supervised fine-tuning with packing, then preferences, each of a Llama with LoRA from its configuration."""

import pathlib
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).parents[1]))
from datasets import Dataset
from peft import LoraConfig
from support import made_up
from trl import DPOConfig, DPOTrainer, SFTConfig, SFTTrainer

with tempfile.TemporaryDirectory() as name:
    made_up.make("llama", f"{name}/llama")
    same = {"per_device_train_batch_size": 2, "max_steps": 2, "report_to": [], "save_strategy": "no", "bf16": True}
    texts = Dataset.from_dict({"text": ["ban ket ler mosk " * (3 + i) for i in range(16)]})
    SFTTrainer(model=f"{name}/llama", args=SFTConfig(f"{name}/sft", max_length=64, **same), train_dataset=texts,
               peft_config=LoraConfig(target_modules=["q_proj", "v_proj"])).train()
    pairs = Dataset.from_dict({"prompt": ["ban ket"] * 8, "chosen": ["ler mosk"] * 8, "rejected": ["nut rat"] * 8})
    DPOTrainer(model=f"{name}/llama", args=DPOConfig(f"{name}/dpo", max_length=64, **same), train_dataset=pairs,
               peft_config=LoraConfig(target_modules=["q_proj", "v_proj"])).train()
