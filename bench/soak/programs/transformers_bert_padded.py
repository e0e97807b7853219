"""BERT with padded batches: lengths and masks come from the host, and the batch is cut to its longest text on the device."""

import torch
from transformers import BertConfig, BertForSequenceClassification

model = BertForSequenceClassification(BertConfig(num_hidden_layers=2, hidden_size=256, num_attention_heads=4)).cuda()
optimizer = torch.optim.AdamW(model.parameters())
for lengths in ([20, 50, 70], [10, 90, 30], [5, 6, 7]):
    mask = (torch.arange(128)[None] < torch.tensor(lengths)[:, None]).long().cuda()
    ids = torch.randint(0, 1000, (3, 128)).cuda()
    longest = int(mask.sum(1).max().item())
    assert longest == max(lengths)
    model(input_ids=ids[:, :longest], attention_mask=mask[:, :longest], labels=torch.tensor([0, 1, 0]).cuda()).loss.backward()
    optimizer.step()
    optimizer.zero_grad()
