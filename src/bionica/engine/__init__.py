"""A rule becomes a compiled loop, and a loop becomes a learner."""
