"""Labelled data sets in the layouts that are known, as one shape."""
