"""The list of all known bugs, in the order in which data pass through the package."""

from mutants.bug import Bug
from mutants.known import (
    central,
    distributed,
    inference,
    ingest,
    ledger,
    local,
    marketplace,
    noise,
    release,
    secagg,
    sensors,
    shuffle,
    trajectories,
)

BUGS: tuple[Bug, ...] = (
    *ingest.BUGS,
    *noise.BUGS,
    *ledger.BUGS,
    *central.BUGS,
    *inference.BUGS,
    *local.BUGS,
    *distributed.BUGS,
    *secagg.BUGS,
    *shuffle.BUGS,
    *trajectories.BUGS,
    *sensors.BUGS,
    *marketplace.BUGS,
    *release.BUGS,
)
