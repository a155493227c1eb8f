"""The minimum-volume cone."""
