"""Fit how likely a single fact matters for a question, from files of `confidence_runs.py` (LIVE-5).

    python benchmarks/weights/confidence/fit_relevance.py FILE… -o FILE [--judge FILE…]

Questions weigh the same, however many facts they brought. Prints AUROC out of fold (collections held out), and for
`--judge` files, which nothing is fitted on, the recall and precision of a context block with each floor.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import GroupKFold

from recall_loop.policy.confidence.relevance import ALIGNED_FEATURES, relevance_features

FLOORS = (0.0, 0.005, 0.01, 0.02, 0.03, 0.05, 0.07, 0.1, 0.15, 0.2)
FOLDS = 5
# No permissive set has gold at the end of a bridge. These let through what is nearly as good as the best fact.
UNALIGNED = {"similarity": 5.0, "share_of_best": 4.0, "log_rank": -0.5, "intercept": -7.0}
Row = dict[str, Any]


def fact_rows(path: Path) -> list[Row]:
    """Return every fact of a file with its features, and whether it is gold."""
    rows = []
    for line in path.read_text(encoding="utf-8").splitlines():
        question = json.loads(line)
        best = max((fact[1] for fact in question["facts"]), default=0.0)
        for rank, (name, score, similarity, *alignment) in enumerate(question["facts"], 1):
            features = relevance_features(alignment, similarity, score, best, rank)
            rows.append(
                {
                    "question": question["id"],
                    "group": question["collection"],
                    "features": features,
                    "aligned": bool(alignment),
                    "gold": name in question["all_gold"],
                    "all_gold": len(question["all_gold"]),
                    "weight": 1.0 / len(question["facts"]),
                }
            )
    return rows


def matrix(rows: Sequence[Row], names: Sequence[str]) -> NDArray[np.float64]:
    """Return the features of rows [n, f]."""
    return np.array([[row["features"][name] for name in names] for row in rows])


def fit(rows: Sequence[Row], names: Sequence[str]) -> dict[str, float]:
    """Return the weights by name, and the intercept; prints the AUROC out of fold."""
    values, gold = matrix(rows, names), np.array([row["gold"] for row in rows])
    weights, groups = np.array([row["weight"] for row in rows]), [row["group"] for row in rows]
    held = np.zeros(len(rows))
    for seen, unseen in GroupKFold(min(FOLDS, len(set(groups)))).split(values, groups=groups):
        model = LogisticRegression(max_iter=1000).fit(values[seen], gold[seen], weights[seen] / weights.mean())
        held[unseen] = model.predict_proba(values[unseen])[:, 1]
    print(f"{len(rows)} facts, {gold.sum()} gold, AUROC out of fold {roc_auc_score(gold, held):.3f}")
    model = LogisticRegression(max_iter=1000).fit(values, gold, weights / weights.mean())
    found = {name: round(float(weight), 4) for name, weight in zip(names, model.coef_[0], strict=True)}
    return found | {"intercept": round(float(model.intercept_[0]), 4)}


def judge(path: Path, weights: dict[str, dict[str, float]]) -> None:
    """Print recall and precision of what each floor leaves."""
    rows = fact_rows(path)
    scores = []
    for row in rows:
        chosen = weights["aligned" if row["aligned"] else "unaligned"]
        total = chosen["intercept"] + sum(chosen[name] * value for name, value in row["features"].items())
        scores.append(1.0 / (1.0 + np.exp(-total)))
    gold, kept_all = np.array([row["gold"] for row in rows]), np.array(scores)
    per_question = {row["question"]: row["all_gold"] for row in rows if row["all_gold"]}
    questions = np.array([row["question"] for row in rows])
    share = np.array([1.0 / row["all_gold"] if row["all_gold"] else 0.0 for row in rows])
    answered = np.isin(questions, list(per_question))
    for floor in FLOORS:
        kept = kept_all >= floor
        recall = float((share * gold * kept).sum() / max(len(per_question), 1))
        precision = float(gold[kept & answered].mean()) if (kept & answered).any() else 0.0
        lines = float((kept & answered).sum() / max(len(per_question), 1))
        print(f"{path.stem:20s} floor {floor:5.3f} recall {recall:.3f} precision {precision:.3f} lines {lines:.1f}")


def main() -> None:
    """Fit, write and judge."""
    parser = argparse.ArgumentParser()
    parser.add_argument("files", type=Path, nargs="+")
    parser.add_argument("-o", "--output", type=Path, required=True)
    parser.add_argument("--judge", type=Path, nargs="*", default=[])
    given = parser.parse_args()
    rows = [row for path in given.files for row in fact_rows(path)]
    weights = {"aligned": fit([row for row in rows if row["aligned"]], ALIGNED_FEATURES), "unaligned": UNALIGNED}
    content = {"fitted_on": sorted(path.stem for path in given.files), "facts": len(rows), "weights": weights}
    given.output.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")
    for path in given.judge:
        judge(path, weights)


if __name__ == "__main__":
    main()
