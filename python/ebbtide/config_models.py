"""Models of configuration files as the user's own packages build them: transformers', timm's and diffusers'. On the meta device,
so no weights are read and none are made."""

import inspect
import json
import pathlib

import torch
import torch.nn.functional as F

from .errors import CaptureError
from .torch_models import OPTIMIZERS

_TOKENS, _IMAGE = 512, 224


def build(path, batch_size=32, image_size=None, seq_len=None, classes=None, optimizer="sgd", device="meta"):
    """(model, loss_fn, optimizer, batch), as ebbtide.capture takes them."""
    path = pathlib.Path(path)
    file = path / "config.json" if path.is_dir() else path
    try:
        settings = json.loads(file.read_text())
    except (OSError, ValueError) as error:
        raise CaptureError(f"{file}: {error}") from error
    if not isinstance(settings, dict):
        raise CaptureError(f"{file}: expected an object with the settings of a model")
    if optimizer not in OPTIMIZERS:
        raise CaptureError(f"--optimizer {optimizer}: expected one of {', '.join(OPTIMIZERS)}")
    sizes = {"batch": batch_size, "image": image_size, "length": seq_len, "classes": classes}
    if "_class_name" in settings:
        make, package = _of_diffusers, "diffusers"
    elif "architecture" in settings and "model_type" not in settings:
        make, package = _of_timm, "timm"
    else:
        make, package = _of_transformers, "transformers"
    try:
        with torch.device(device):
            model, loss_fn, batch = make(file, settings, sizes)
    except ImportError as error:
        raise CaptureError(f"{file}: {error}; expected the package {package}") from error
    except CaptureError:
        raise
    except Exception as error:  # whatever a package has to say about the file
        raise CaptureError(f"{file}: {package} cannot build it: {error}") from error
    model.train()
    return model, loss_fn, OPTIMIZERS[optimizer](model.parameters()), batch


def _of_transformers(file, settings, sizes):
    import transformers

    config = transformers.AutoConfig.from_pretrained(file.parent if file.name == "config.json" else file)
    config.use_cache = False
    names = settings.get("architectures") or []
    if names and hasattr(transformers, names[0]):
        model = getattr(transformers, names[0])._from_config(config)
    else:
        model = transformers.AutoModelForCausalLM.from_config(config)
    takes = inspect.signature(model.forward).parameters
    return model, None if "labels" in takes else _mean_of_outputs, _batch_of(file, model, config, takes, sizes)


def _batch_of(file, model, config, takes, sizes):
    """A batch by the names that the model's forward takes."""
    text = config.get_text_config() if hasattr(config, "get_text_config") else config
    most = getattr(text, "max_position_embeddings", None) or _TOKENS
    length = sizes["length"] or min(_TOKENS, most)
    batch = {}
    if "input_ids" in takes and model.main_input_name != "pixel_values":
        batch["input_ids"] = torch.empty(sizes["batch"], length, dtype=torch.int64)
    if "pixel_values" in takes and "pixel_values" in (model.main_input_name, *batch) or model.main_input_name == "pixel_values":
        image = sizes["image"] or getattr(config, "image_size", _IMAGE)
        image = image if isinstance(image, int) else image[0]
        batch["pixel_values"] = torch.empty(sizes["batch"], getattr(config, "num_channels", 3), image, image, dtype=model.dtype)
    if model.main_input_name == "input_features":
        batch["input_features"] = torch.empty(sizes["batch"], config.num_mel_bins, 2 * config.max_source_positions, dtype=model.dtype)
    if not batch:
        raise CaptureError(f"{file}: {type(model).__name__} takes {model.main_input_name}, for which no batch is known; write a SCRIPT.py:function")
    if "labels" in takes:
        whole = batch.get("input_ids") is not None and not type(model).__name__.endswith("Classification")
        shape = (sizes["batch"], length) if whole or "input_features" in batch else (sizes["batch"],)
        batch["labels"] = torch.empty(shape, dtype=torch.int64)
    return batch


def _mean_of_outputs(output, *_):
    return output[0].float().mean()


def _of_timm(_, settings, sizes):
    import timm

    classes = sizes["classes"] or settings.get("num_classes") or 1000
    model = timm.create_model(settings["architecture"], num_classes=classes, **settings.get("model_args", {}))
    cfg = settings.get("pretrained_cfg", {})
    size = sizes["image"] or cfg.get("input_size", settings.get("input_size", (3, _IMAGE, _IMAGE)))[-1]
    return model, F.cross_entropy, (torch.empty(sizes["batch"], 3, size, size), torch.empty(sizes["batch"], dtype=torch.int64))


def _of_diffusers(file, settings, sizes):
    import diffusers

    name = settings["_class_name"]
    if not hasattr(diffusers, name):
        raise CaptureError(f"{file}: diffusers has no {name}")
    model = getattr(diffusers, name).from_config({k: v for k, v in settings.items() if not k.startswith("_")})
    side = sizes["image"] or settings.get("sample_size") or 64
    side = side if isinstance(side, int) else side[0]
    takes = inspect.signature(model.forward).parameters
    batch = {"sample": torch.empty(sizes["batch"], settings.get("in_channels", 3), side, side, dtype=model.dtype)}
    if "timestep" in takes:
        batch["timestep"] = torch.empty(sizes["batch"], dtype=torch.int64)
    if "encoder_hidden_states" in takes:
        width = settings.get("cross_attention_dim") or settings.get("encoder_hid_dim") or 768
        batch["encoder_hidden_states"] = torch.empty(sizes["batch"], sizes["length"] or 77, width, dtype=model.dtype)
    return model, _mean_of_outputs, batch
