"""The steps that ask a language model: planning, judging, answering."""
