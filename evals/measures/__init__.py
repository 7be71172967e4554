"""Figures: recall, nDCG, calibration, time."""
