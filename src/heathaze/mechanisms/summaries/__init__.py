"""Buying training data of private owners that matches a private target."""

from heathaze.mechanisms.summaries.asking import AskAll, AskSome, LogisticAuction
from heathaze.mechanisms.summaries.consumer import Consumer
from heathaze.mechanisms.summaries.features import Features
from heathaze.mechanisms.summaries.herding import Herding
from heathaze.mechanisms.summaries.messages import Purchase
from heathaze.mechanisms.summaries.mwem import Mwem
from heathaze.mechanisms.summaries.owner import Owner
from heathaze.mechanisms.summaries.rounds import Rounds
from heathaze.mechanisms.summaries.study import Study
from heathaze.mechanisms.summaries.summarize import summarize
from heathaze.mechanisms.summaries.values import attribution
from heathaze.mechanisms.summaries.ways import Curator

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
    "summarize",
]
