"""Pure mathematics over class counts: counts, the event model, the classifier, calibration."""
