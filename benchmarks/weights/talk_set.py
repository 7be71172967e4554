"""Turn the conversations that were written for this project into a labelled set (OPEN-1, OPEN-2).

    python benchmarks/weights/talk_set.py -o DIR [--asked] [--languages en,de] [--without 7-chats]

`talk/*.txt` holds conversations, each in a file of its own with the questions that it answers and the facts that it
tells (docs/tuning.md describes the form); `talk/asked/*.txt` has further questions, plain ones and ones without an
answer, which the embedder doesn't learn from. The set has the layout of an evaluation: `turns`, `facts` and
`questions.jsonl`, so that `recall-loop eval --data DIR` reads it too.
"""

from __future__ import annotations

import argparse
import json
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

TALK = Path(__file__).with_name("talk")
ASKED = "asked"
CATEGORIES = {"single": "single_hop", "list": "multi_hop", "time": "temporal", "infer": "inference", "now": "update"}
UNANSWERABLE = "none"
_TURN = re.compile(r"(\d+) (\S+): (.+)")
_QUESTION = re.compile(r"Q ([a-z]+)(?:@(\S+))?(?: ([\d, ]+?))?\s*\|\s*(.+?)\s*\|\s*(.*)")
_FACT = re.compile(r"F (\d+)\s*\|\s*(.+)")
Line = dict[str, Any]


@dataclass
class TalkScript:
    """One conversation as lines of the layout, in the order of the file."""

    name: str
    people: dict[str, str] = field(default_factory=dict)
    language: str = ""
    session: int = 0
    time: datetime | None = None
    turns: list[Line] = field(default_factory=list)
    questions: list[Line] = field(default_factory=list)
    facts: list[Line] = field(default_factory=list)

    def id_of(self, number: str | int) -> str:
        """Return the id of a message; `ValueError` where there is none of this number."""
        if not 1 <= int(number) <= len(self.turns):
            raise ValueError(f"there is no message {number}")
        return f"{self.name}:{int(number)}"

    def read_line(self, line: str) -> None:
        """Take in one line of the file; `ValueError` says what is wrong with it."""
        if line.startswith("people: "):
            self.people = dict(part.strip().split(" = ", 1) for part in line[8:].split(","))
        elif line.startswith("language: "):
            self.language = line[10:].strip()
        elif line.startswith("== "):
            self.session, self.time = self.session + 1, datetime.fromisoformat(line[3:].strip())
        elif found := _TURN.fullmatch(line):
            self._add_turn(int(found[1]), found[2], found[3])
        elif found := _QUESTION.fullmatch(line):
            self._add_question(*found.groups())
        elif found := _FACT.fullmatch(line):
            place = self.turns[int(found[1]) - 1]
            told = {"id": f"{self.name}:f{len(self.facts) + 1}", "kind": "fact", "text": found[2]}
            kept = {key: place[key] for key in ("collection", "session", "timestamp", "speaker")}
            self.facts.append({**kept, **told, "source_ids": [self.id_of(found[1])]})
        elif line.strip():
            raise ValueError("neither a message nor a question nor a fact")

    def _add_turn(self, number: int, letter: str, text: str) -> None:
        if number != len(self.turns) + 1 or self.time is None:
            raise ValueError(f"message {len(self.turns) + 1} should stand here, in a session")
        assisted = "Assistant" in self.people.values()
        self.time += timedelta(minutes=1)
        self.turns.append(
            {
                "id": f"{self.name}:{number}",
                "collection": self.name,
                "kind": "message",
                "session": self.session,
                "timestamp": self.time.isoformat(),
                "speaker": self.people[letter],
                "role": ("assistant" if self.people[letter] == "Assistant" else "user") if assisted else None,
                "text": text.replace("\\n", "\n"),
            }
        )

    def _add_question(self, kind: str, asker: str | None, gold: str | None, question: str, answer: str) -> None:
        if kind != UNANSWERABLE and not gold:
            raise ValueError("the question has no gold")
        self.questions.append(
            {
                "id": f"{self.name}:q{len(self.questions) + 1}",
                "collection": self.name,
                "question": question,
                "category": CATEGORIES.get(kind, "unanswerable"),
                "asked_by": self.people[asker] if asker else None,
                "gold": [self.id_of(each) for each in (gold or "").replace(" ", "").split(",") if each],
                "answer": answer,
                "answerable": kind != UNANSWERABLE,
            }
        )


def read_scripts(folder: Path, languages: Sequence[str] = (), *, asked: bool = False) -> Iterator[TalkScript]:
    """Yield the conversations of a folder, with further questions if `asked`."""
    for path in sorted(folder.glob("*.txt")):
        script = TalkScript(path.stem)
        read_file(path, script)
        further = folder / ASKED / path.name
        if asked and further.exists():
            read_file(further, script)
        if not languages or script.language in languages:
            yield script


def read_file(path: Path, script: TalkScript) -> None:
    """Take in the lines of a file; one that can't be read ends the program with its place."""
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        try:
            script.read_line(line)
        except (ValueError, KeyError, IndexError) as error:
            raise SystemExit(f"{path}, line {number}: {error}: {line}") from error


def write_layout(scripts: Iterable[TalkScript], folder: Path) -> tuple[int, int, int]:
    """Write the set, and return how many messages, questions and facts it has."""
    counts = (0, 0, 0)
    questions: list[Line] = []
    for script in scripts:
        _write(folder / "turns" / f"{script.name}.jsonl", script.turns)
        _write(folder / "facts" / f"{script.name}.jsonl", script.facts)
        questions += script.questions
        counts = (counts[0] + len(script.turns), len(questions), counts[2] + len(script.facts))
    _write(folder / "questions.jsonl", questions)
    return counts


def _write(path: Path, lines: Sequence[Line]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(line, ensure_ascii=False) + "\n" for line in lines), encoding="utf-8")


def main(words: Sequence[str] | None = None) -> int:
    """Write the set and print its size."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--scripts", type=Path, default=TALK, help="folder of the conversations")
    parser.add_argument("--asked", action="store_true", help="with the further questions")
    parser.add_argument("--languages", default="", help="only these, e.g. en,de")
    parser.add_argument("--without", default="", help="leave out the files whose names begin so")
    parser.add_argument("-o", "--output", type=Path, required=True, help="folder of the set to write")
    given = parser.parse_args(words)
    scripts = read_scripts(given.scripts, [each for each in given.languages.split(",") if each], asked=given.asked)
    chosen = (each for each in scripts if not given.without or not each.name.startswith(given.without))
    messages, questions, facts = write_layout(chosen, given.output)
    print(f"{messages} messages, {questions} questions, {facts} facts")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
