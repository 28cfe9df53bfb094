"""Secure sums: a server learns what its clients' vectors add up to, and nothing about any one of them.

State machines without network, clock or disk: bytes in, bytes out. The page ``secagg.md`` beside this file says what is
promised.
"""

from heathaze.secagg.client import Client
from heathaze.secagg.keys import Identity
from heathaze.secagg.messages import Step
from heathaze.secagg.parameters import Terms
from heathaze.secagg.run_shard import run_shard
from heathaze.secagg.server import Parcel, Server, Sum

__all__ = ["Client", "Identity", "Parcel", "Server", "Step", "Sum", "Terms", "run_shard"]
