"""The other tasks of ultralytics: masks, key points, turned boxes, classes; RT-DETR, whose decoder takes its queries from a topk."""

import pathlib
import tempfile

import numpy
from PIL import Image
from ultralytics import RTDETR, YOLO

BOX = "0.5 0.5 0.3 0.3"
CORNERS = "0.4 0.4 0.6 0.4 0.6 0.6 0.4 0.6"
LABELS = {"segment": CORNERS, "pose": f"{BOX} 0.45 0.45 2 0.55 0.55 2", "obb": CORNERS, "detect": BOX}


def pictures(folder, random):
    folder.mkdir(parents=True)
    for i in range(4):
        Image.fromarray(random.integers(0, 255, (160, 160, 3), dtype=numpy.uint8)).save(folder / f"{i}.jpg")


with tempfile.TemporaryDirectory() as name:
    random = numpy.random.default_rng(0)
    settings = {"epochs": 1, "imgsz": 160, "batch": 2, "workers": 0, "plots": False, "amp": False, "project": name, "val": False, "nbs": 2}
    for kind, model in (("segment", YOLO("yolo11n-seg.yaml")), ("pose", YOLO("yolo11n-pose.yaml")), ("obb", YOLO("yolo11n-obb.yaml")),
                        ("detect", RTDETR("rtdetr-resnet50.yaml"))):
        folder = pathlib.Path(name) / kind
        for part in ("train", "val"):
            pictures(folder / "images" / part, random)
            (folder / "labels" / part).mkdir(parents=True)
            for i in range(4):
                (folder / "labels" / part / f"{i}.txt").write_text(f"0 {LABELS[kind]}\n1 {LABELS[kind]}\n")
        points = "kpt_shape: [2, 3]\nflip_idx: [1, 0]\n" if kind == "pose" else ""
        (folder / "data.yaml").write_text(f"path: {folder}\ntrain: images/train\nval: images/val\nnames: {{0: a, 1: b}}\n{points}")
        model.train(data=str(folder / "data.yaml"), **settings)
    for part in ("train", "val"):
        for label in ("a", "b"):
            pictures(pathlib.Path(name) / "classify" / part / label, random)
    YOLO("yolo11n-cls.yaml").train(data=str(pathlib.Path(name) / "classify"), **settings)
