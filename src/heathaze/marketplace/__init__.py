"""Marketplace: buy training data from private owners so that the data matches a private target."""

from heathaze.marketplace.auction import AskEveryone, AskPublicFew, LogisticAuction
from heathaze.marketplace.features import Features
from heathaze.marketplace.herding import Herding
from heathaze.marketplace.messages import Purchase
from heathaze.marketplace.mmd import attribution, mmd_squared
from heathaze.marketplace.mwem import Mwem
from heathaze.marketplace.private_greedy import PrivateGreedy
from heathaze.marketplace.protocol import Curator
from heathaze.marketplace.roles import Consumer, Owner, buy, curator_for
from heathaze.marketplace.study import Study

__all__ = [
    "AskEveryone",
    "AskPublicFew",
    "Consumer",
    "Curator",
    "Features",
    "Herding",
    "LogisticAuction",
    "Mwem",
    "Owner",
    "PrivateGreedy",
    "Purchase",
    "Study",
    "attribution",
    "buy",
    "curator_for",
    "mmd_squared",
]
