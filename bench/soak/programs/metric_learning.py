"""pytorch-metric-learning: triplets are mined on the device, by labels that are known and distances that are not."""

import torch
from pytorch_metric_learning import losses, miners

model = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(784, 256), torch.nn.ReLU(), torch.nn.Linear(256, 64)).cuda()
miner, loss_of = miners.MultiSimilarityMiner(), losses.TripletMarginLoss()
contrast, proxies = losses.NTXentLoss(), losses.ArcFaceLoss(10, 64).cuda()
optimizer = torch.optim.Adam([*model.parameters(), *proxies.parameters()])
for _ in range(3):
    labels = torch.randint(0, 10, (64,)).cuda()
    found = model(torch.rand(64, 1, 28, 28).cuda())
    loss = loss_of(found, labels, miner(found, labels)) + contrast(found, labels) + proxies(found, labels)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
