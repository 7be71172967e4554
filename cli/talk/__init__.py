"""A conversation with a memory, shown turn by turn: `recall-loop chat`."""
