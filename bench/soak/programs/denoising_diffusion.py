"""denoising-diffusion-pytorch: its trainer with gradient accumulation and an average of the weights, and two steps of sampling."""

import pathlib
import tempfile

import numpy
from denoising_diffusion_pytorch import GaussianDiffusion, Trainer, Unet
from PIL import Image

with tempfile.TemporaryDirectory() as name:
    folder = pathlib.Path(name) / "pictures"
    folder.mkdir()
    random = numpy.random.default_rng(0)
    for i in range(104):
        Image.fromarray(random.integers(0, 255, (40, 40, 3), dtype=numpy.uint8)).save(folder / f"{i}.png")
    diffusion = GaussianDiffusion(Unet(dim=16, dim_mults=(1, 2)), image_size=32, timesteps=100, sampling_timesteps=2)
    trainer = Trainer(diffusion, str(folder), train_batch_size=8, train_num_steps=3, gradient_accumulate_every=2, save_and_sample_every=2, num_samples=4,
                      calculate_fid=False, results_folder=f"{name}/results", amp=True)
    trainer.train()
