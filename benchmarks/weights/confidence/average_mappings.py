"""Average two fitted mappings of confidence: the mean of their log odds, for both parts (CONF-4).

    python benchmarks/weights/confidence/average_mappings.py ONE TWO --id NAME -o FILE [--share X]

A mapping fitted on archives and one fitted on lives each mislead on the other's kind of memory; together they do less.
`--share` is the second one's, in [0,1]. Thresholds are averaged in log odds too. What was fitted on and the part for
named speakers are the second one's, and so are the figures, which hold for it alone.
"""

from __future__ import annotations

import argparse
import json
import math
from pathlib import Path
from typing import Any

from recall_loop.policy.confidence.confidence_mapping import Calibration


def averaged(one: dict[str, Any], two: dict[str, Any], share: float) -> dict[str, Any]:
    """Return intercept and features whose sum is the mean of what both give."""
    intercept, weights = 0.0, dict[str, float]()
    for part, counts in ((one, 1.0 - share), (two, share)):
        intercept += counts * part["intercept"]
        for name, each in part["features"].items():
            weight = counts * each["weight"] / each["scale"]
            weights[name] = weights.get(name, 0.0) + weight
            intercept -= weight * each["mean"]
    features = {name: {"mean": 0.0, "scale": 1.0, "weight": round(each, 6)} for name, each in weights.items()}
    return {"intercept": round(intercept, 6), "features": features}


def threshold(one: float, two: float, share: float) -> float:
    """Return the probability whose log odds are the mean of both."""
    odds = (1.0 - share) * math.log(one / (1.0 - one)) + share * math.log(two / (1.0 - two))
    return round(1.0 / (1.0 + math.exp(-odds)), 4)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("mappings", type=Path, nargs=2)
    parser.add_argument("--share", type=float, default=0.5)
    parser.add_argument("--id", required=True)
    parser.add_argument("-o", "--output", type=Path, required=True)
    args = parser.parse_args()
    one, two = (json.loads(path.read_text(encoding="utf-8")) for path in args.mappings)
    if any(part["curve"] or part["products"] for each in (one, two) for part in (each, each["answerable"])):
        raise SystemExit("both need to be logistic, without products and curves")
    made = two | averaged(one, two, args.share) | {"id": args.id}
    made["answerable"] = two["answerable"] | averaged(one["answerable"], two["answerable"], args.share)
    made["answerable"]["abstain_below"] = threshold(
        one["answerable"]["abstain_below"], two["answerable"]["abstain_below"], args.share
    )
    limits = {
        name: threshold(one["thresholds"][name], two["thresholds"][name], args.share) for name in ("medium", "high")
    }
    made["thresholds"] = two["thresholds"] | limits
    Calibration.model_validate(made)
    args.output.write_text(json.dumps(made, ensure_ascii=False) + "\n", encoding="utf-8")
    print(limits, made["answerable"]["abstain_below"])


if __name__ == "__main__":
    main()
