"""What the files of a store are called, who has them locked, and whether they are whole."""
