"""The graph as a node of a parent graph: how it is called there, and which keys and messages it shares."""
