"""Traces that nobody has looked at: tasks drawn from CARMA's two, in other numbers, mixes and at other paces. Without its file, tasks of built-in models."""

import csv
import random

MODELS = [("resnet50", 64), ("resnet50", 128), ("vgg16", 64), ("mobilenet_v2", 128), ("efficientnet_b0", 64), ("bert-base", 16),
          ("gpt2", 8), ("densenet121", 64), ("resnet18", 256), ("inception_v3", 64)]


def drawn_from(tasks, path, seed):
    """A trace in CARMA's form of 40 to 120 tasks; long ones come as often as there, or more often."""
    chance = random.Random(seed)
    with open(tasks, newline="") as file:
        head, *rows = csv.reader(file)
    seconds = head.index("solo_seconds")
    count, gap, bias = chance.choice([40, 60, 90, 120]), chance.choice([60, 120, 150, 300]), chance.choice([0, 0, 0.5, 1])
    often = [float(row[seconds] or 600) ** bias for row in rows]
    at = 0.0
    with open(path, "w", newline="") as file:
        out = csv.writer(file)
        out.writerow(head)
        for row in chance.choices(rows, often, k=count):
            out.writerow(["drawn", round(at), *row[2:]])
            at += chance.expovariate(1 / gap)


def made_up(path, seed, count, per_second, gpus=(1,)):
    """A trace in our own form."""
    chance, at = random.Random(seed), 0.0
    with open(path, "w") as out:
        out.write("arrival,model,batch,work,gpus,optimizer\n")
        for _ in range(count):
            at += chance.expovariate(per_second)
            model, batch = chance.choice(MODELS)
            out.write(f"{at:.2f},{model},{batch},{chance.randint(1000, 60000)},{chance.choice(gpus)},adam\n")
