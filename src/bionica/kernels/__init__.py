"""How rules are run."""
