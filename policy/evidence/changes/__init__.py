"""What was said later than the best facts, and changes which of them holds: corrections and renewals (LIVE-4)."""
