"""Scripted lives: memories that people tell, ask about, correct and repeat, generated or read, and what is recalled."""
