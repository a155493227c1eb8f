"""What circuits and mixtures share."""
