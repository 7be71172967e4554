"""Figures: recall, nDCG, calibration."""
