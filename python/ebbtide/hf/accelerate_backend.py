"""accelerate knows a closed list of backends of torch.compile. Where ours is asked for by its name, the error says what to use in its place."""

from __future__ import annotations

from typing import Any

from accelerate.utils.dataclasses import DynamoBackend

_otherwise = DynamoBackend._missing_


def _missing(cls: type[DynamoBackend], value: object) -> Any:
    if str(value).upper() == "EBBTIDE":
        raise ValueError("torch_compile_backend='ebbtide': accelerate takes only the backends of its own list; expected "
                         "callbacks=[ebbtide.hf.EbbtideCallback(budget=...)] for a Trainer, or model.compile(backend='ebbtide', options={'budget': ...}) "
                         "before accelerator.prepare(model)")
    return _otherwise(value)


DynamoBackend._missing_ = classmethod(_missing)
