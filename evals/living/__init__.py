"""Scripted lives, generated or read: statements, questions, corrections and repeats, and how well they are recalled."""
