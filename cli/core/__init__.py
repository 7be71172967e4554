"""What all verbs share: arguments, exit codes, rendering, progress bars."""
