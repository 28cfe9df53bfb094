"""Secure sums: a server learns the sum of its clients' vectors, and nothing else about the vectors.

Client and server are state machines that take bytes and return bytes. They use no network, clock or disk. The page
``secagg.md`` states and proves the promise.
"""

from heathaze.secagg.client import Client
from heathaze.secagg.keys import Identity
from heathaze.secagg.messages import Phase
from heathaze.secagg.parameters import FailureBounds, Parameters
from heathaze.secagg.run_shard import run_shard
from heathaze.secagg.server import Parcel, Server, Sum

__all__ = ["Client", "FailureBounds", "Identity", "Parameters", "Parcel", "Phase", "Server", "Sum", "run_shard"]
