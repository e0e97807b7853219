"""YOLO of ultralytics, trained on made-up images: targets are assigned to anchors on the device."""

import pathlib
import tempfile

import numpy
from PIL import Image
from ultralytics import YOLO

with tempfile.TemporaryDirectory() as name:
    folder = pathlib.Path(name)
    random = numpy.random.default_rng(0)
    for part in ("train", "val"):
        (folder / "images" / part).mkdir(parents=True)
        (folder / "labels" / part).mkdir(parents=True)
        for i in range(8):
            Image.fromarray(random.integers(0, 255, (160, 160, 3), dtype=numpy.uint8)).save(folder / "images" / part / f"{i}.jpg")
            (folder / "labels" / part / f"{i}.txt").write_text("0 0.5 0.5 0.3 0.3\n1 0.4 0.6 0.2 0.4\n")
    (folder / "data.yaml").write_text(f"path: {folder}\ntrain: images/train\nval: images/val\nnames: {{0: a, 1: b}}\n")
    YOLO("yolo11n.yaml").train(data=str(folder / "data.yaml"), epochs=1, imgsz=160, batch=2, workers=0, plots=False, amp=False,
                               project=name, val=False)
