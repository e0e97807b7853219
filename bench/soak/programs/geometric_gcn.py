"""PyTorch Geometric: classes, masks and the batch vector are on the device when sizes are taken from them."""

import torch
from torch_geometric.datasets import FakeDataset, KarateClub
from torch_geometric.loader import DataLoader
from torch_geometric.nn import GCNConv, global_mean_pool
from torch_geometric.nn.models import GIN

data = KarateClub()[0].to("cuda")
classes = int(data.y.max().item()) + 1
assert classes == 4, classes
layer = GCNConv(data.num_features, classes).cuda()
optimizer = torch.optim.Adam(layer.parameters())
for _ in range(2):
    out = layer(data.x, data.edge_index)
    torch.nn.functional.cross_entropy(out[data.train_mask], data.y[data.train_mask]).backward()
    optimizer.step()
    optimizer.zero_grad()

model = GIN(64, 32, 2).cuda()
optimizer = torch.optim.Adam(model.parameters())
for batch in DataLoader(FakeDataset(12), batch_size=4):
    batch = batch.to("cuda")
    pooled = global_mean_pool(model(batch.x, batch.edge_index), batch.batch)
    assert pooled.shape[0] == 4, pooled.shape
    pooled.sum().backward()
    optimizer.step()
    optimizer.zero_grad()
