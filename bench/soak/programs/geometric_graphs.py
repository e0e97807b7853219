"""PyTorch Geometric's other ways to a size: pooling that keeps the best nodes, negative edges, several kinds of nodes, point clouds, dense batches."""

import torch
from torch_geometric.data import HeteroData
from torch_geometric.datasets import FakeDataset, KarateClub
from torch_geometric.loader import DataLoader
from torch_geometric.nn import GAE, GATv2Conv, GCNConv, HeteroConv, SAGEConv, SAGPooling, TopKPooling, dense_diff_pool, global_add_pool
from torch_geometric.utils import dropout_edge, negative_sampling, to_dense_adj, to_dense_batch, to_undirected


def train(parameters, loss, steps=2):
    optimizer = torch.optim.Adam(parameters)
    for _ in range(steps):
        loss().backward()
        optimizer.step()
        optimizer.zero_grad()


data = KarateClub()[0].to("cuda")
edges = to_undirected(data.edge_index)
assert edges.shape == data.edge_index.shape, edges.shape
coder = GAE(GCNConv(34, 16)).cuda()
train(list(coder.parameters()), lambda: coder.recon_loss(coder.encode(data.x, edges), edges, negative_sampling(edges, 34, 50)))
kept, _ = dropout_edge(edges, p=0.0)
assert kept.shape == edges.shape, kept.shape
attention = GATv2Conv(34, 4, heads=2).cuda()
train(list(attention.parameters()), lambda: attention(data.x, edges)[data.train_mask].sum())

batch = next(iter(DataLoader(FakeDataset(8), batch_size=8))).to("cuda")
longest = int(batch.batch.bincount().max())
dense, there = to_dense_batch(batch.x, batch.batch)
assert dense.shape[:2] == (8, longest) and int(there.sum()) == batch.num_nodes, (dense.shape, longest)
adjacency = to_dense_adj(batch.edge_index, batch.batch)
assert adjacency.shape == (8, longest, longest), adjacency.shape
share = torch.nn.Linear(64, 5).cuda()
train(list(share.parameters()), lambda: dense_diff_pool(dense, adjacency, share(dense))[0].sum())
for kind in (TopKPooling, SAGPooling):
    pool = kind(64, ratio=0.5).cuda()
    nodes = batch.batch.bincount().cpu()
    expected = int((nodes + 1).div(2, rounding_mode="floor").sum())
    found = pool(batch.x, batch.edge_index, batch=batch.batch)
    assert found[0].shape[0] == expected, (found[0].shape, expected)

    def loss(pool=pool):
        made = pool(batch.x, batch.edge_index, batch=batch.batch)
        return global_add_pool(made[0], made[3]).sum()

    train(list(pool.parameters()), loss)

mixed = HeteroData()
mixed["user"].x, mixed["item"].x = torch.randn(20, 8), torch.randn(50, 8)
mixed["user", "likes", "item"].edge_index = torch.stack([torch.randint(0, 20, (100,)), torch.randint(0, 50, (100,))])
mixed["item", "liked", "user"].edge_index = mixed["user", "likes", "item"].edge_index.flip(0)
mixed = mixed.to("cuda")
layer = HeteroConv({kind: SAGEConv((8, 8), 8) for kind in mixed.edge_types}).cuda()
train(list(layer.parameters()), lambda: sum(out.sum() for out in layer(mixed.x_dict, mixed.edge_index_dict).values()))
