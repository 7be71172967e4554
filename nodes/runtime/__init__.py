"""Shared by every node of a run: resources, the run context, its inputs."""
