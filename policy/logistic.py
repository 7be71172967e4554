"""Logistic regressions whose weights ship as JSON beside the module that uses them."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache

from recall_loop.text.packaged_data import packaged_table


@dataclass(frozen=True)
class LogisticModel:
    """A logistic regression: weights of features, an intercept, and the log-odds from which the answer is yes."""

    weights: Mapping[str, float]
    intercept: float
    threshold: float

    def margin(self, features: Mapping[str, float]) -> float:
        """Return the log-odds above the threshold; positive = yes."""
        return self.intercept - self.threshold + sum(self.weights[name] * value for name, value in features.items())


def log_odds(probability: float, least: float = 0.005) -> float:
    """Return the natural log-odds of a probability that is first cut to [`least`, 1 - `least`]."""
    cut = min(max(probability, least), 1.0 - least)
    return math.log(cut / (1.0 - cut))


@cache
def shipped_model(package: str, file: str) -> LogisticModel:
    """Return the model of a file in a package: `weights` by feature, `intercept` and `threshold`."""
    fields = packaged_table(package, file)
    return LogisticModel(fields["weights"], fields["intercept"], fields["threshold"])
