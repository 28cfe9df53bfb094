"""Buying training data of private owners that matches a private target."""

from heathaze.marketplace.attribution import attribution
from heathaze.marketplace.auction import AskAll, AskSome, LogisticAuction
from heathaze.marketplace.features import Features
from heathaze.marketplace.herding import Herding
from heathaze.marketplace.messages import Purchase
from heathaze.marketplace.mmd import mmd_squared
from heathaze.marketplace.mwem import Mwem
from heathaze.marketplace.private_greedy import Rounds
from heathaze.marketplace.protocol import Curator
from heathaze.marketplace.roles import Consumer, Owner, summarize
from heathaze.marketplace.study import Study

__all__ = [
    "AskAll",
    "AskSome",
    "Consumer",
    "Curator",
    "Features",
    "Herding",
    "LogisticAuction",
    "Mwem",
    "Owner",
    "Purchase",
    "Rounds",
    "Study",
    "attribution",
    "mmd_squared",
    "summarize",
]
