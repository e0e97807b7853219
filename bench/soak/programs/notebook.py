"""A notebook that nbconvert executes: the training is in the kernel, a process of its own."""

import pathlib
import subprocess
import sys
import tempfile

import nbformat

CELLS = ["import torch\nmodel = torch.nn.Linear(1024, 1024).cuda()\noptimizer = torch.optim.Adam(model.parameters())",
         "for _ in range(3):\n    model(torch.rand(64, 1024).cuda()).sum().backward()\n    optimizer.step()\n    optimizer.zero_grad()"]
with tempfile.TemporaryDirectory() as name:
    path = pathlib.Path(name) / "train.ipynb"
    nbformat.write(nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(cell) for cell in CELLS]), path)
    subprocess.run([sys.executable, "-m", "nbconvert", "--to", "notebook", "--execute", path], check=True)
