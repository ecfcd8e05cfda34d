"""Cheap facts about this machine that decide whether a launch can work: the probes of `check` and of pre-flight.

Each costs milliseconds, changes nothing, and is left out where it can't be told: what is not known fails nobody.
"""

from __future__ import annotations

from pathlib import Path

from app.core.command import Command
from app.core.nearness import likeness
from app.supervise.modelfolder import model_facts
from app.supervise.ports import listener, port_holder

# One folder for each GPU that the driver runs.
_GPUS = Path("/proc/driver/nvidia/gpus")
_MOST_BESIDE = 5


def host_facts(command: Command, *, folder: Path | None = None, gpus: Path = _GPUS) -> dict[str, object]:
    """Facts about the model and the GPUs; `folder` is where the command would be started (here, when not given).

    Of a command that starts a container nothing is told: its files and GPUs are others.
    """
    if command.layout.assign_with:
        return {}
    return _model(command, folder or Path.cwd()) | _gpus(command, gpus)


def port_facts(command: Command) -> dict[str, object]:
    """`port_in_use` and `port_holder`, when somebody listens where the server would."""
    port = command.port
    if port is None or command.layout.assign_with or port_holder(port, command.host) is None:
        return {}
    holder = listener(port)
    who = f"process {holder.pid} ({holder.name or 'name unknown'})" if holder and holder.pid else "another process"
    return {"port_in_use": str(port), "port_holder": who}


def _model(command: Command, folder: Path) -> dict[str, object]:
    """Of a model that lies in a folder here. A path that is not here may be meant for another machine."""
    if not command.model:
        return {}
    try:
        path = (folder / Path(command.model).expanduser()).resolve()
        if path.is_dir():
            return model_facts(path)
        beside = _models_beside(path) if command.model.startswith(("/", "./", "../", "~")) else []
    except (OSError, RuntimeError, ValueError):
        return {}
    return {"model_folder_missing": str(path), "models_beside": beside} if beside else {}


def _models_beside(path: Path) -> list[str]:
    """The models in the folder where one is missing, the most alike first; empty where nothing says it belongs here."""
    if path.exists() or not path.parent.is_dir():
        return []
    names = sorted(one.name for one in path.parent.iterdir() if (one / "config.json").is_file())
    return sorted(names, key=lambda name: -likeness(path.name, name))[:_MOST_BESIDE]


def _gpus(command: Command, folder: Path) -> dict[str, object]:
    """How many GPUs the server would see; nothing where no NVIDIA driver runs."""
    try:
        here = sum(1 for _ in folder.iterdir())
    except OSError:
        return {}
    visible = dict(command.env).get("CUDA_VISIBLE_DEVICES")
    if visible is None:
        return {"gpus": here}
    return {"gpus": min(here, len([one for one in visible.split(",") if one.strip() and one.strip() != "-1"]))}
