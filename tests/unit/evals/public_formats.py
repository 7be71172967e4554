"""Small samples in the formats in which data sets are published; every sentence is made up here."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

LOCOMO: list[dict[str, Any]] = [
    {
        "sample_id": "talk-1",
        "conversation": {
            "speaker_a": "Ines",
            "speaker_b": "Tom",
            "session_1_date_time": "1:56 pm on 8 May, 2023",
            "session_1": [
                {"speaker": "Ines", "dia_id": "D1:1", "text": "I sold my rowing boat to a fisherman from Faro."},
                {"speaker": "Tom", "dia_id": "D1:2", "text": "Nice!", "blip_caption": "a red boat on a beach"},
            ],
        },
        "observation": {"session_1_observation": {"Ines": [["Ines sold her boat.", "D1:1"]]}},
        "session_summary": {"session_1_summary": "They speak about a boat."},
        "event_summary": {"events_session_1": {"Ines": ["She sells a boat."], "date": "8 May, 2023"}},
        "qa": [
            {"question": "Who bought the boat?", "answer": "a fisherman", "evidence": ["D1:1; D1:2"], "category": 4},
            {"question": "Which car did Tom buy?", "adversarial_answer": "a van", "evidence": ["D1:9"], "category": 5},
        ],
    }
]

BEAM_CHAT: list[dict[str, Any]] = [
    {
        "batch_number": 1,
        "turns": [
            [
                {
                    "role": "user",
                    "id": 0,
                    "time_anchor": "March-15-2024",
                    "index": "1,1",
                    "question_type": "main_question",
                    "content": "My greenhouse needs a new roof by Easter. ->-> 1,1",
                },
                {"role": "assistant", "id": 1, "content": "Glass or foil?"},
            ]
        ],
    },
    {"batch_number": 2, "turns": [[{"role": "user", "id": 2, "content": "Foil, at most ninety euros."}]]},
]
BEAM_QUESTIONS: dict[str, list[dict[str, Any]]] = {
    "abstention": [{"question": "Which colour is the door?", "rubric": ["nothing is said"]}],
    "knowledge_update": [
        {"question": "What roof, at what price?", "source_chat_ids": {"original_info": [0], "updated_info": [2, 2]}}
    ],
    "information_extraction": [{"question": "When is the roof due?", "source_chat_ids": [0]}],
}

MUSIQUE: list[dict[str, Any]] = [
    {
        "id": "2hop__1_2",
        "question": "Where was the painter of the harbour mural born?",
        "answer": "Tromsø",
        "answerable": True,
        "question_decomposition": [],
        "paragraphs": [
            {"idx": 0, "title": "Harbour mural", "paragraph_text": "Painted by Aud Lie.", "is_supporting": True},
            {"idx": 1, "title": "Aud Lie", "paragraph_text": "She was born in Tromsø.", "is_supporting": True},
            {"idx": 2, "title": "Tar", "paragraph_text": "Tar keeps boats dry.", "is_supporting": False},
        ],
    },
    {
        "id": "3hop1__7_8_9",
        "question": "Who tarred the boat of Aud Lie's uncle?",
        "answerable": False,
        "paragraphs": [
            {"idx": 0, "title": "Tar", "paragraph_text": "Tar keeps boats dry.", "is_supporting": True},
        ],
    },
]

HOTPOT: list[dict[str, Any]] = [
    {
        "_id": "5a1",
        "question": "Do Aud Lie and Per Moe both paint?",
        "answer": "yes",
        "type": "comparison",
        "level": "easy",
        "supporting_facts": [["Aud Lie", 0], ["Per Moe", 1]],
        "context": [
            ["Aud Lie", ["Aud Lie is a painter.", " She lives in Bodø."]],
            ["Per Moe", ["Per Moe was a cook.", " Now he paints."]],
            ["Tar", ["Tar keeps boats dry."]],
        ],
    }
]

LONGMEMEVAL: list[dict[str, Any]] = [
    {
        "question_id": "q1",
        "question_type": "single-session-user",
        "question": "What did I plant?",
        "answer": "leeks",
        "question_date": "2023/06/02 (Fri) 10:00",
        "haystack_session_ids": ["s1", "s1"],
        "haystack_dates": ["2023/05/20 (Sat) 02:21", "2023/05/21 (Sun) 11:00"],
        "haystack_sessions": [
            [
                {"role": "user", "content": "I planted leeks today.", "has_answer": True},
                {"role": "assistant", "content": "They need much water."},
            ],
            [{"role": "user", "content": "How deep do they go?"}, {"role": "assistant", "content": " "}],
        ],
        "answer_session_ids": ["s1"],
    },
    {
        "question_id": "q2_abs",
        "question_type": "multi-session",
        "question": "Which rake did I buy?",
        "question_date": "2023/06/02 (Fri) 10:00",
        "haystack_session_ids": ["s9"],
        "haystack_dates": ["2023/05/20 (Sat) 02:21"],
        "haystack_sessions": [[{"role": "user", "content": "The beans are up."}]],
    },
]

REFUND, SEAT = "You want a refund for a cancelled ferry.", "You want a window seat on the night train."


def _tau(task: int, trial: int, reward: float, wanted: str, said: str) -> dict[str, Any]:
    return {
        "task_id": task,
        "trial": trial,
        "reward": reward,
        "info": {"task": {"user_id": "u1", "instruction": wanted, "actions": [], "outputs": []}},
        "traj": [
            {"role": "system", "content": "You are the desk of a ferry line."},
            {"role": "user", "content": said},
            {
                "role": "assistant",
                "content": None,
                "tool_calls": [
                    {"id": "c1", "type": "function", "function": {"name": "look_up", "arguments": '{"id": 7}'}}
                ],
            },
            {"role": "tool", "tool_call_id": "c1", "name": "look_up", "content": "found"},
            {"role": "assistant", "content": "Done."},
        ],
    }


TAU: list[dict[str, Any]] = [
    _tau(0, 0, 1.0, REFUND, "My ferry was cancelled, I want my money back."),
    _tau(0, 1, 0.0, REFUND, "Give me the money for the ferry that did not sail."),
    _tau(1, 0, 1.0, SEAT, "A window seat for tonight's train, please."),
    {"task_id": 2, "trial": 0, "reward": 0.0, "info": {"error": "broke off"}, "traj": []},
]
TAU2: dict[str, Any] = {
    "timestamp": "2025-06-01T10:00:00",
    "info": {},
    "tasks": [
        {"id": "0", "user_scenario": {"instructions": {"reason_for_call": REFUND, "known_info": "You are Ada."}}},
        {"id": "1", "user_scenario": {"instructions": SEAT}},
    ],
    "simulations": [
        {
            "id": "a",
            "task_id": "0",
            "trial": 0,
            "termination_reason": "user_stop",
            "start_time": "2025-06-01T10:00:00",
            "reward_info": {"reward": 1.0},
            "messages": [
                {"role": "assistant", "content": "How can I help?", "tool_calls": None},
                {"role": "user", "content": "The ferry was cancelled; refund me.", "tool_calls": None},
                {
                    "role": "assistant",
                    "content": None,
                    "tool_calls": [{"id": "c", "name": "look_up", "arguments": {"id": 7}, "requestor": "assistant"}],
                },
            ],
        },
        {"id": "b", "task_id": "1", "trial": 0, "reward_info": None, "messages": [{"role": "user", "content": "Hi"}]},
    ],
}

RECORDS: list[dict[str, Any]] = [
    {"id": "r1", "kind": "fact", "text": "The kiln fires at night.", "collection": "pottery"},
    {"id": "r2", "kind": "message", "text": "The kiln is broken.", "author": "Ole", "collection": "pottery"},
    {"id": "r3", "kind": "archival", "text": "Rye bread rests a day.", "label": "Bread", "collection": "bakery"},
]
RECORD_QUESTIONS: list[dict[str, Any]] = [
    {"id": "k1", "collection": "pottery", "question": "When does the kiln fire?", "gold": ["r1"]},
    {"id": "k2", "collection": "bakery", "question": "How long does rye bread rest?", "gold": ["r3"]},
]


def _lines(items: list[dict[str, Any]]) -> str:
    return "".join(f"{json.dumps(item)}\n" for item in items)


def write_dataset(name: str, folder: Path) -> Path:
    """Write the sample of a format below `folder`, and return what `--data` is given."""
    plain = {"locomo": LOCOMO, "hotpotqa": HOTPOT, "longmemeval": LONGMEMEVAL, "tau": TAU, "tau2": TAU2}
    folder.mkdir(parents=True, exist_ok=True)
    if name == "beam":
        chat = folder / "100K" / "1"
        (chat / "probing_questions").mkdir(parents=True)
        (chat / "chat.json").write_text(json.dumps(BEAM_CHAT, indent=1), encoding="utf-8")
        (chat / "probing_questions" / "probing_questions.json").write_text(json.dumps(BEAM_QUESTIONS), encoding="utf-8")
        return folder / "100K"
    if name == "records":
        (folder / "records.jsonl").write_text(_lines(RECORDS), encoding="utf-8")
        (folder / "questions.jsonl").write_text(_lines(RECORD_QUESTIONS), encoding="utf-8")
        return folder
    if name == "musique":
        (folder / "musique_ans_dev.jsonl").write_text(_lines(MUSIQUE), encoding="utf-8")
        return folder / "musique_ans_dev.jsonl"
    path = folder / f"{name}.json"
    path.write_text(json.dumps(plain[name], indent=2), encoding="utf-8")
    return path
