"""Intake: files of records and conversations, read line by line into the memory store."""
