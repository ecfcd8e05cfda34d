"""Import-only stand-in for sgl_kernel on machines without a GPU: every name imports, calling one raises."""

import importlib.abc
import importlib.machinery
import sys
import types
from collections.abc import Callable, Sequence
from typing import Any

__version__ = "0.3.21"


def _missing(name: str) -> Callable[..., Any]:
    def call(*args: object, **kwargs: object) -> None:
        raise NotImplementedError(f"sgl_kernel stand-in: {name} called")

    call.__name__ = name.rsplit(".", 1)[-1]
    return call


def _names_of(module: str) -> Callable[[str], Any]:
    def lookup(name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return _missing(f"{module}.{name}")

    return lookup


__getattr__ = _names_of(__name__)


class _Finder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Makes a module for every `sgl_kernel.…` that is imported."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: types.ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        if fullname == "sgl_kernel.scalar_type":  # the server asks for it and does without
            raise ModuleNotFoundError(f"No module named {fullname!r}", name=fullname)
        if fullname.startswith("sgl_kernel."):
            return importlib.machinery.ModuleSpec(fullname, self, is_package=True)
        return None

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> types.ModuleType:
        module = types.ModuleType(spec.name)
        module.__path__ = []
        module.__dict__["__getattr__"] = _names_of(spec.name)
        return module

    def exec_module(self, module: types.ModuleType) -> None:
        """Nothing to run: the module is made of missing names."""


sys.meta_path.append(_Finder())
