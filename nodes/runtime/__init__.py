"""What every node of a run shares: resources, the run itself, its inputs."""
