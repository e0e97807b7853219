"""The path by which metadata of earlier versions, and programs written for them, know the backend of torch.compile."""

from .compile.backend import backend, reports

__all__ = ["backend", "reports"]
