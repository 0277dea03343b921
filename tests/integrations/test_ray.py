"""Evaluations on a Ray cluster of three nodes on this machine, one of which is killed half-way."""

import asyncio
import json
import re
from collections import Counter
from functools import partial
from importlib.util import find_spec

import pytest

from askance.configuration.build import load_models
from askance.configuration.experiment import Experiment, prepare_experiment
from askance.configuration.workers import Workers
from askance.core.errors import InputError, MissingExtra, WorkersLost
from askance.evaluation.run.recorded_run import read_run
from askance.evaluation.run.runner import RunOptions, evaluate
from askance.integrations.ray import actors
from askance.models.scripted import Reply, ScriptedModel
from tests.models.scripted_server import ScriptedServer

TOWNS = [f"Town {number}" for number in range(30)]
IN_FLIGHT = 2

pytestmark = pytest.mark.filterwarnings("default")  # Ray's own
needs_ray = pytest.mark.skipif(find_spec("ray") is None, reason="Ray is not installed")


@pytest.fixture(scope="module")
def cluster():
    with pytest.MonkeyPatch.context() as patch:
        # All nodes listen on loopback, and may start slowly.
        patch.setenv("RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER", "0")
        patch.setenv("RAY_agent_register_timeout_ms", "100000")
        patch.setenv("RAY_raylet_start_wait_time_s", "100")
        import ray
        from ray.cluster_utils import Cluster

        small = {"num_cpus": 1, "object_store_memory": 80_000_000}
        cluster = Cluster(initialize_head=True, head_node_args={**small, "include_dashboard": False})
        for _ in range(2):
            cluster.add_node(**small)
        yield cluster
        ray.shutdown()
        cluster.shutdown()


@pytest.fixture
def server():
    model = ScriptedModel(lambda prompt, key: Reply(" So the answer is the Rhine."))
    with ScriptedServer(model, latency_seconds=0.3) as server:
        yield server


@pytest.fixture
def experiment(tmp_path, server):
    rows = [{"id": town, "question": f"Which river is in {town}?", "answers": ["Rhine"]} for town in TOWNS]
    path = tmp_path / "towns.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return Experiment(
        dataset=f"jsonl:{path}",
        method="closed_book",
        models={"answer": f"openai:tiny@{server.url}?continuation=1"},
        in_flight=IN_FLIGHT,
    )


def run(experiment, folder, start, progress=lambda status: None):
    with Workers(start) as workers:
        options = RunOptions(open_executor=workers.open)
        return asyncio.run(evaluate(prepare_experiment(experiment), folder, load_models, options, progress))


def times_asked(server):
    return Counter(re.findall(r"Town \d+", json.dumps(request.body))[-1] for request in server.requests)


@needs_ray
def test_what_a_killed_node_was_asked_is_asked_again(experiment, server, tmp_path, cluster):
    nodes = list(cluster.worker_nodes)[:1]

    def kill(status):
        while nodes and status.num_finished >= len(TOWNS) // 2:
            cluster.remove_node(nodes.pop(), allow_graceful=False)

    found = run(experiment, tmp_path / "run", partial(actors, cluster.address), kill)
    assert [(record.id, record.error) for record in found.records] == [(town, "") for town in TOWNS]
    assert found.settings.machine.startswith("3 workers on ")
    asked = times_asked(server)
    assert set(asked) == set(TOWNS)
    assert asked.total() - len(TOWNS) <= IN_FLIGHT


@needs_ray
def test_nothing_is_lost_if_all_actors_end(experiment, tmp_path, cluster):
    started = []

    def start():
        started.extend(actors(cluster.address))
        return started

    def kill(status):
        for worker in started if status.num_finished >= 6 else ():
            worker.close()

    with pytest.raises(WorkersLost):
        run(experiment, tmp_path / "run", start, kill)
    kept = read_run(tmp_path / "run").records
    assert 6 <= len(kept) < len(TOWNS)
    assert not any(record.error for record in kept)
    assert run(experiment, tmp_path / "run", partial(actors, cluster.address)).is_complete


@needs_ray
def test_more_workers_than_the_cluster_has_room_for(experiment, tmp_path, cluster):
    with pytest.raises(InputError, match=r"--workers 9: the Ray cluster has room for [23] workers"):
        run(experiment, tmp_path / "run", partial(actors, cluster.address, [""] * 9))


@needs_ray
def test_an_address_where_no_cluster_is(experiment, tmp_path):
    with pytest.raises(InputError, match=r"--ray nowhere: no Ray cluster answers there"):
        run(experiment, tmp_path / "run", partial(actors, "nowhere"))


@pytest.mark.skipif(find_spec("ray") is not None, reason="Ray is installed")
def test_ray_is_an_extra(experiment, tmp_path):
    with pytest.raises(MissingExtra, match=r"--ray needs the package 'ray', which is not installed"):
        run(experiment, tmp_path / "run", partial(actors, "auto"))
    assert not (tmp_path / "run").exists()
