"""What the process that tests fork others from has loaded and compiled, and each of these would do again.

Nothing that runs threads: onnxruntime is imported, and no model is loaded.
"""

from __future__ import annotations

import chromadb.api.rust
import chromadb.telemetry.product.posthog  # noqa: F401  # Chroma imports both by name, at the first client
import tokenizers.implementations  # noqa: F401

import recall_loop.cli.main
import recall_loop.memory.intake.files.ingest
import recall_loop.memory.search.engine
import recall_loop.memory.store.postgres.postgres_store
import recall_loop.memory.store.store  # noqa: F401
import tests.embedders  # noqa: F401
from recall_loop.memory.store.embed.onnx_model import import_onnxruntime
from recall_loop.memory.store.tables.prepared_records import prepare_record
from recall_loop.state.records.records import Message

import_onnxruntime()
# Patterns and tables of all languages are made at the first text that is written.
prepare_record("default", Message(id="m", text="Thanks, see you on Friday."))
