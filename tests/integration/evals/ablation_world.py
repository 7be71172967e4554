"""A small memory on which every ingredient of retrieval has something to do; every sentence is made up here."""

from __future__ import annotations

from typing import Any

from recall_loop.evals.runs.prompts import ReplayPrompt
from recall_loop.state.request import ChatMessage, RetrieveRequest
from recall_loop.state.settings.settings import Settings
from recall_loop.state.types import ContentType

TENANT = "harbour"
_TALK = [
    ("Ruth", "I sold my rowing boat with oars, anchor, cover, rope, trailer to a fisherman from Faro in spring."),
    ("Omar", "How much did the fisherman pay you for the boat?"),
    ("Ruth", "Four hundred euros, and a bucket of sardines."),
    ("Omar", "I would have taken the sardines alone."),
    ("Ruth", "My sister Ada paints boats in Lagos, by the way."),
    ("Omar", "What colour does Ada paint them?"),
    ("Ruth", "Mostly blue, with a white stripe."),
    ("Omar", "I bought a kayak last week, it is green."),
    ("Ruth", "Where will you paddle it?"),
    ("Omar", "On the river Guadiana, near the old mill."),
    ("Ruth", "The mill has a bakery now, run by Tomas Pires."),
    ("Omar", "Tomas bakes the best almond bread."),
    ("Ruth", "He learned it in Seville from his uncle."),
    ("Omar", "Does the bakery open on Sundays?"),
    ("Ruth", "Only in summer, from eight until noon."),
    ("Omar", "We could take the boat there in June."),
    ("Ruth", "The boat is sold, remember?"),
    ("Omar", "Then the kayak, one of us at a time."),
    ("Ruth", "I joined the sailing club Atlantic Union in March."),
    ("Omar", "What does the club charge a year?"),
    ("Ruth", "Ninety euros, and you sweep the pier twice."),
    ("Omar", "My vessel needs a new paddle before June."),
    ("Ruth", "The chandler in Faro sells paddles."),
    ("Omar", "I recommend the ash ones, they bend and do not break."),
    (
        "Ruth",
        "I sold my rowing boat with oars, anchor, cover, rope, trailer to a fisherman from Faro in spring 2022.",
    ),
]
_PASSAGES = [
    ("The Heron", "The Heron is a film about a lighthouse, directed by Aud Lie."),
    ("Aud Lie", "Aud Lie was born in Tromsø and studied in Bergen."),
    ("Tar", "Tar keeps wooden boats dry for a year or two."),
    ("Boats", "A rowing boat is moved with oars and carries two people."),
    ("Boats", "A fishing boat carries nets, ice and a crew of three."),
    ("Boats", "A sailing boat needs wind, and its crew some patience."),
    ("Boats", "A boat that is sold changes its papers at the harbour office."),
]
SETTINGS = Settings(llm_model=None, max_iterations=9, novelty_patience=9, coverage_enough=1.0)
"""Every round is made in which there is still something to ask, so that every strategy has its turn."""

_EVERYTHING = (ContentType.FACT, ContentType.ARCHIVAL, ContentType.MESSAGE)
_QUESTIONS = [
    ("What did Ruth sell to a fisherman from Faro, and what did he pay?", (ContentType.MESSAGE,)),
    ("Where was the director of the film The Heron born?", _EVERYTHING),
    ("What did Omar buy in May 2023?", _EVERYTHING),
    ("Which kinds of boat are there?", (ContentType.ARCHIVAL,)),
    ("What did I tell you about my sister Ada and her vessels?", _EVERYTHING),
    ("Which dentist treats the violin teacher of the ambassador who joined a club in March 2023?", _EVERYTHING),
]


def records() -> list[dict[str, Any]]:
    """Return a conversation in two sessions, facts with several sources, and titled passages."""
    talk = [
        {
            "id": f"m{at}",
            "kind": "message",
            "text": text,
            "author": author,
            "role": "user" if author == "Ruth" else "assistant",
            "conversation_id": "c",
            "session": f"s{at // 13}",
            "created_at": f"2023-{5 if at < 13 else 6:02d}-10T10:{at:02d}:00Z",
        }
        for at, (author, text) in enumerate(_TALK)
    ]
    facts = [
        {"id": "f1", "kind": "fact", "text": "Ruth sold her boat to a fisherman.", "source_ids": ["m0", "m24"]},
        {"id": "f2", "kind": "fact", "text": "Omar has a green kayak.", "source_ids": ["m7", "m17"]},
    ]
    notes = [
        {"id": f"a{at}", "kind": "archival", "label": title, "text": text} for at, (title, text) in enumerate(_PASSAGES)
    ]
    return [*talk, *facts, *notes]


def prompts() -> list[ReplayPrompt]:
    """Return questions of one hop and of two, with a time, with several parts, and one without an answer."""
    return [
        ReplayPrompt(
            RetrieveRequest(
                id=f"q{at}",
                messages=(ChatMessage(content=question),),
                tenant=TENANT,
                reference_time="2023-07-01T12:00:00Z",
                content_types=content_types,
                max_facts=20,
            )
        )
        for at, (question, content_types) in enumerate(_QUESTIONS)
    ]
