"""sentence-transformers: its trainer with a contrastive loss; sentences have different lengths."""

import pathlib
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).parents[1]))
from datasets import Dataset
from sentence_transformers import SentenceTransformer, SentenceTransformerTrainer, SentenceTransformerTrainingArguments
from sentence_transformers.losses import MultipleNegativesRankingLoss
from support import made_up

with tempfile.TemporaryDirectory() as name:
    made_up.make("bert", f"{name}/bert")
    model = SentenceTransformer(f"{name}/bert")
    rows = {"anchor": [f"the tide {'rises ' * (i % 7)}" for i in range(24)], "positive": [f"water {'comes ' * (i % 5)}in" for i in range(24)]}
    arguments = SentenceTransformerTrainingArguments(f"{name}/out", per_device_train_batch_size=8, max_steps=3, report_to=[], save_strategy="no")
    SentenceTransformerTrainer(model=model, args=arguments, train_dataset=Dataset.from_dict(rows), loss=MultipleNegativesRankingLoss(model)).train()
