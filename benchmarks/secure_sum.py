"""Time secure sums of 1,000 clients and the growth of time with clients, and compare a round with Flower's SecAgg+.

python benchmarks/secure_sum.py [--flower PYTHON]

PYTHON is an interpreter that has the package flwr; without it, flwr is looked for beside heathaze.
"""

from __future__ import annotations

import argparse
import importlib.util
import itertools
import os
import resource
import subprocess
import sys
import time
from typing import Any

import numpy as np

# No imports of heathaze here, because the interpreter that runs Flower may lack it.

LENGTH = 1254
DROPOUT, CORRUPTION, LOST_EACH_PHASE = 0.2, 0.05, 0.05
WANTED_SECONDS = 30
SIZES = (250, 1000, 4000)
WANTED_GROWTH = 1.5
PEER_CLIENTS, PEER_LENGTH, PEER_SHARES = 20, 100_000, 11
WANTED_RATIO = 50


def main(flower: str | None = None) -> None:
    """Print times, their growth, the traffic, and the ratio to Flower's time."""
    _shard(50)  # the first run loads packages
    for small, large in itertools.pairwise(SIZES):
        # The small shard is timed before and after the large one, to average over other work on the machine.
        before, there, after = _shard(small), _shard(large), _shard(small)
        growth = 2 * there / (before + after)
        print(f"time for each client, {large:,} against {small:,} clients: {growth:.2f} times")
        print(f"  wanted at most {WANTED_GROWTH}: {'reached' if growth <= WANTED_GROWTH else 'MISSED'}")
    _against_flower(flower)


def _shard(clients: int) -> float:
    """Run a whole shard in this process, and return the processor seconds per client."""
    from heathaze.secagg import Parameters, Phase, run_shard

    parameters = Parameters.plan(clients, length=LENGTH, bits=32, dropout=DROPOUT, corruption=CORRUPTION)
    rng = np.random.default_rng(1)
    vectors = rng.integers(0, 2**20, (clients, LENGTH))
    left, lost = rng.permutation(clients).tolist(), {}
    for phase in Phase:
        gone = int(LOST_EACH_PHASE * len(left))
        lost[phase], left = left[:gone], left[gone:]
    traffic = [0, 0]

    def weigh(message: bytes) -> None:
        traffic[0] += 1
        traffic[1] += len(message)

    wall, begun = time.perf_counter(), time.process_time()
    found = run_shard(parameters, vectors, lost=lost, watch=weigh)
    wall, spent = time.perf_counter() - wall, time.process_time() - begun
    exact = bool((found.values == vectors[list(found.survivors)].sum(axis=0)).all())
    print(f"{clients:,} clients × {LENGTH:,} integers, {LOST_EACH_PHASE:.0%} lost at each phase: {wall:.1f} s")
    print(
        f"  processor {spent:.1f} s, {1e3 * spent / clients:.1f} ms and {traffic[1] / clients / 1024:.0f} kB a client"
    )
    print(
        f"  {parameters.neighbours} neighbours, {parameters.shares_needed} shares, "
        f"{len(found.survivors)} vectors in the sum,"
    )
    print(
        f"  {'exact' if exact else 'WRONG'}; memory {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024:.0f} MB"
    )
    if clients == 1000:
        print(f"  wanted under {WANTED_SECONDS} s: {'reached' if wall < WANTED_SECONDS and exact else 'MISSED'}")
    return spent / clients


def _against_flower(python: str | None) -> None:
    """Compare a round with Flower's, with all clients as neighbours, 32 bits per number and no dropouts."""
    if python is None and importlib.util.find_spec("flwr") is None:
        print("Flower's SecAgg+: the package flwr is not installed; give --flower PYTHON to compare")
        return
    ours = min(_our_round() for _ in range(5))
    print(f"{PEER_CLIENTS} clients × {PEER_LENGTH:,} integers, all neighbours: {1e3 * ours:.0f} ms")
    command = [python or sys.executable, __file__, "--peer"]
    # Without these settings, Flower and Ray would send usage statistics.
    quiet = os.environ | {"FLWR_TELEMETRY_ENABLED": "0", "RAY_USAGE_STATS_ENABLED": "0"}
    said = subprocess.run(command, check=True, capture_output=True, text=True, env=quiet).stdout
    times = {words[1]: float(words[2]) for words in map(str.split, said.splitlines()) if words[:1] == ["PEER"]}
    # Three ways to time the peer. Only the last one is what its users wait for, and it includes starting its workers;
    # the first two leave out what is not the protocol, as our own time does.
    names = {
        "protocol": "its functions called one after the other, no transport",
        "later": "its simulation on all cores, a later round",
        "simulation": "its simulation on all cores, one round with the start of its workers",
    }
    for key, name in names.items():
        if key not in times:
            print(f"  Flower's SecAgg+, {name}: the package ray is not installed there")
            continue
        ratio = times[key] / ours
        verdict = "reached" if ratio >= WANTED_RATIO else "MISSED"
        print(f"  Flower's SecAgg+, {name}: {times[key]:.1f} s")
        print(f"    ratio {ratio:.0f}, wanted at least {WANTED_RATIO}: {verdict}")


def _our_round() -> float:
    from heathaze.secagg import Parameters, run_shard

    vectors = np.random.default_rng(1).integers(0, 2**20, (PEER_CLIENTS, PEER_LENGTH))
    parameters = Parameters(
        round=bytes(16), clients=PEER_CLIENTS, neighbours=PEER_CLIENTS - 1, shares_needed=PEER_SHARES,
        survivors_at_least=PEER_CLIENTS - 2, length=PEER_LENGTH, bits=32, dropped_at_most=2,
    )  # fmt: skip
    begun = time.perf_counter()
    found = run_shard(parameters, vectors)
    seconds = time.perf_counter() - begun
    if not (found.values == vectors.sum(axis=0)).all():
        raise AssertionError("The sum is wrong.")
    return seconds


def _peer() -> None:
    """Time Flower's own workflow and client code: the bare protocol in this process, and Flower's simulation."""
    print("PEER protocol", min(_flower_round() for _ in range(3)), flush=True)
    if importlib.util.find_spec("ray") is not None:
        first, *later = _flower_simulation(rounds=3)
        print("PEER simulation", first)
        print("PEER later", min(later))


def _flower_round() -> float:
    import contextlib
    import copy
    import logging
    from types import SimpleNamespace

    from flwr.client.mod import secaggplus_mod
    from flwr.common import Code, FitIns, FitRes, Status, ndarrays_to_parameters, parameters_to_ndarrays
    from flwr.server.workflow.secure_aggregation import secaggplus_workflow as flower

    logging.getLogger("flwr").setLevel(logging.ERROR)
    with contextlib.suppress(ImportError):  # younger versions ask every process who it is
        from flwr.supercore.task_identity import TaskIdentity

        TaskIdentity.run_id = TaskIdentity.task_id = TaskIdentity.node_id = 1
    values = np.random.default_rng(1).uniform(-1, 1, (PEER_CLIENTS, PEER_LENGTH))
    numbers = range(1, PEER_CLIENTS + 1)
    contexts = {
        k: flower.Context(run_id=1, node_id=k, node_config={}, state=flower.RecordDict(), run_config={})
        for k in numbers
    }

    def train(message: Any, context: Any) -> Any:
        fitted = FitRes(Status(Code.OK, ""), ndarrays_to_parameters([values[context.node_id - 1]]), 1, {})
        return flower.Message(flower.compat.fitres_to_recorddict(fitted, False), reply_to=message)

    class Wire:
        def send_and_receive(self, messages: Any, **_: Any) -> list[Any]:
            # Copied, as on a wire: the clients take their message apart.
            return [secaggplus_mod(copy.deepcopy(m), contexts[m.metadata.dst_node_id], train) for m in messages]

    start = ndarrays_to_parameters([np.zeros(PEER_LENGTH)])
    summed: list[Any] = []
    strategy = SimpleNamespace(
        configure_fit=lambda *_: [(SimpleNamespace(node_id=k), FitIns(start, {})) for k in numbers],
        aggregate_fit=lambda _, results, __: (summed.append(results[0][1].parameters), (None, {}))[1],
    )
    state = flower.RecordDict({flower.MAIN_CONFIGS_RECORD: flower.ConfigRecord({"current_round": 1})})
    state.array_records[flower.MAIN_PARAMS_RECORD] = flower.compat.parameters_to_arrayrecord(start, True)
    context = SimpleNamespace(
        state=state, strategy=strategy, client_manager=SimpleNamespace(num_available=lambda: PEER_CLIENTS)
    )
    workflow = flower.SecAggPlusWorkflow(num_shares=1.0, reconstruction_threshold=PEER_SHARES / PEER_CLIENTS)
    protocol, wire = flower.WorkflowState(), Wire()
    begun = time.perf_counter()
    for stage in ("setup_stage", "share_keys_stage", "collect_masked_vectors_stage", "unmask_stage"):
        if not getattr(workflow, stage)(wire, context, protocol):
            raise AssertionError(f"Flower stopped in {stage}.")
    seconds = time.perf_counter() - begun
    if np.abs(parameters_to_ndarrays(summed[0])[0] - values.mean(axis=0)).max() > 0.01:
        raise AssertionError("Flower's sum is wrong, so its time means nothing.")
    return seconds


def _flower_simulation(rounds: int) -> list[float]:
    """The seconds of each round in Flower's simulation; the first round also starts the worker processes."""
    from flwr.client import ClientApp, NumPyClient
    from flwr.client.mod import secaggplus_mod
    from flwr.common import ndarrays_to_parameters
    from flwr.server import LegacyContext, ServerApp, ServerConfig
    from flwr.server.strategy import FedAvg
    from flwr.server.workflow import DefaultWorkflow, SecAggPlusWorkflow
    from flwr.simulation import run_simulation

    seconds: list[float] = []

    class Person(NumPyClient):
        def fit(self, *_: Any) -> Any:
            return [np.random.default_rng(1).uniform(-1, 1, PEER_LENGTH)], 1, {}

    class Timed(SecAggPlusWorkflow):
        def __call__(self, grid: Any, context: Any) -> None:
            begun = time.perf_counter()
            super().__call__(grid, context)
            seconds.append(time.perf_counter() - begun)

    server = ServerApp()

    @server.main()
    def serve(grid: Any, context: Any) -> None:
        strategy = FedAvg(
            fraction_evaluate=0.0,
            min_fit_clients=PEER_CLIENTS,
            min_available_clients=PEER_CLIENTS,
            initial_parameters=ndarrays_to_parameters([np.zeros(PEER_LENGTH)]),
        )
        legacy = LegacyContext(context=context, config=ServerConfig(num_rounds=rounds), strategy=strategy)
        workflow = Timed(num_shares=1.0, reconstruction_threshold=PEER_SHARES / PEER_CLIENTS)
        DefaultWorkflow(fit_workflow=workflow)(grid, legacy)

    client = ClientApp(client_fn=lambda _: Person().to_client(), mods=[secaggplus_mod])
    resources = {"client_resources": {"num_cpus": 1, "num_gpus": 0.0}}
    run_simulation(server_app=server, client_app=client, num_supernodes=PEER_CLIENTS, backend_config=resources)
    return seconds


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--flower", metavar="PYTHON", help="an interpreter that has the package flwr")
    parser.add_argument("--peer", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.peer:
        _peer()
    else:
        main(options.flower)
