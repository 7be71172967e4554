"""The records that a store holds, and trajectories in their earlier shapes."""
