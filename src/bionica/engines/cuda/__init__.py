"""Many networks at once on a GPU."""
