"""The person that a question is about, and the persons that a text mentions."""
