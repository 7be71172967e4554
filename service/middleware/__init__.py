"""What every request passes before its route: limits, callers, dependencies."""
