"""Data as users bring them: how many sources they have."""
