"""Workers as actors of a Ray cluster."""

from collections.abc import Sequence
from concurrent.futures import Future
from functools import partial
from importlib.util import find_spec
from typing import Any

from askance.configuration.workers import MOST_TASKS, RemoteWorker, Task, TaskResult, Worker
from askance.core.errors import InputError, MissingExtra


def actors(address: str, devices: Sequence[str] = ()) -> list[RemoteWorker]:
    """Start workers on a Ray cluster, spread over its nodes.

    Args:
        address: The address of the cluster, as Ray takes it, such as "auto" or "HOST:6379".
        devices: The device of each worker (see `Worker`); without any, there is a worker for each GPU or, in
            a cluster without GPUs, for each node.

    Raises:
        MissingExtra: Ray is not installed.
        InputError: No cluster answers at the address, or it is too small.
    """
    if find_spec("ray") is None:
        raise MissingExtra("ray", "ray", "--ray")
    import ray
    from ray.exceptions import RayActorError

    try:
        ray.init(address, log_to_driver=False, logging_level="ERROR", ignore_reinit_error=True)
    except (ConnectionError, ValueError, RuntimeError) as error:
        raise InputError(f"--ray {address}: no Ray cluster answers there ({error}).") from error
    num_cpus, num_gpus = (int(ray.cluster_resources().get(kind, 0)) for kind in ("CPU", "GPU"))
    devices = devices or [""] * (num_gpus or sum(node["Alive"] for node in ray.nodes()))
    if len(devices) > (most := num_gpus or num_cpus):  # the others would wait for ever
        raise InputError(f"--workers {len(devices)}: the Ray cluster has room for {most} workers.")
    # Ray hides the GPUs that an actor does not ask for.
    options = {"num_cpus": 1, "num_gpus": bool(num_gpus), "max_concurrency": MOST_TASKS}
    make = ray.remote(Worker).options(scheduling_strategy="SPREAD", **options)
    started = [make.remote(device) for device in devices]
    return [
        RemoteWorker(f"worker {number}", partial(_work, actor), partial(ray.kill, actor), RayActorError)
        for number, actor in enumerate(started, start=1)
    ]


def _work(actor: Any, task: Task) -> Future[TaskResult]:
    future: Future[TaskResult] = actor.work.remote(task).future()
    return future
