"""An app that answers from documents, with `RecallLoopRetriever` in place of any LangChain retriever.

Run it with `python examples/answers_from_documents.py`. A scripted model stands in for a real one, so that it needs no
key.
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

from langchain_core.documents import Document
from langchain_core.language_models import BaseChatModel, FakeListChatModel
from langchain_core.output_parsers import StrOutputParser
from langchain_core.prompts import ChatPromptTemplate
from langchain_core.runnables import RunnablePassthrough

from recall_loop import IngestOptions, MemoryStore, RecallLoopRetriever, ingest_file

HANDBOOK = """\
# Boathouse

The key hangs behind the barometer.

# Launch

## Engine

Tamme services the engine in March, before the first trip.

## Fuel

Diesel is in the shed; fill in the book what you take.
"""
PROMPT = ChatPromptTemplate.from_template("Answer from the notes, and cite them by their ids.\n\n{notes}\n\n{question}")


def joined(documents: list[Document]) -> str:
    """Return documents as the prompt shows them."""
    return "\n".join(f"[{one.metadata['id']}] {one.page_content}" for one in documents)


def app(store: MemoryStore, model: BaseChatModel) -> Any:
    """Return the chain: question in, answer out."""
    notes = RecallLoopRetriever(store=store) | joined
    return {"notes": notes, "question": RunnablePassthrough()} | PROMPT | model | StrOutputParser()


def main() -> None:
    """Read a handbook, a note for each heading, and ask."""
    with tempfile.TemporaryDirectory() as folder, MemoryStore.in_memory() as store:
        handbook = Path(folder) / "handbook.md"
        handbook.write_text(HANDBOOK, encoding="utf-8")
        ingest_file(handbook, store, IngestOptions(format_name="auto"))
        best = RecallLoopRetriever(store=store).invoke("Who services the engine, and when?")[0]
        print("best note:", best.page_content)
        model = FakeListChatModel(responses=[f"Tamme does, in March [{best.metadata['id']}]."])
        print("answer:", app(store, model).invoke("Who services the engine, and when?"))


if __name__ == "__main__":
    main()
